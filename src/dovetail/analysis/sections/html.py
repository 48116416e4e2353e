"""The elements of sections: figures, tables, lists. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import repeat
from typing import Any

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|×|ms|s|min|h|d|GPUs?)(?:\W|$))")


def text(told: str) -> str:
    """The text, escaped, without line breaks between a number and its unit."""
    return _BEFORE_UNIT.sub("\u00a0", escape(told))


@dataclass
class ChartsDrawn:
    """The charts of a page; the script draws each where its number stands."""

    charts: list[Mapping[str, Any]] = field(default_factory=list)

    def figure(
        self, title: str, chart: Mapping[str, Any], hint: str = "", wide: bool = False
    ) -> str:
        """`title` says what is seen; `chart` is told to the script."""
        self.charts.append(chart)
        below = f'<p class="hint">{text(hint)}</p>' if hint else ""
        return (
            f"<figure{_class('wide' if wide else '')}><figcaption>{text(title)}</figcaption>"
            f'<div data-chart="{len(self.charts) - 1}"></div>{below}</figure>'
        )


def section(name: str, title: str, *parts: str, style: str = "") -> str:
    return (
        f'<section id="{name}" aria-labelledby="h-{name}"{_class(style)}>'
        f'<h2 id="h-{name}">{escape(title)}</h2>{"".join(parts)}</section>'
    )


def charts(*figures: str) -> str:
    return f'<div class="charts">{"".join(figures)}</div>' if any(figures) else ""


def paragraph(told: str, style: str = "") -> str:
    return f"<p{_class(style)}>{text(told)}</p>"


def bullets(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def unmeasured(lines: Iterable[str]) -> str:
    """The parts that this section lacks, and why."""
    told = "".join(f"<p>Not measured: {text(line)}</p>" for line in lines)
    return f'<div class="unmeasured">{told}</div>' if told else ""


def finding(lines: Iterable[str]) -> str:
    told = "".join(f"<p>{text(line)}</p>" for line in lines)
    return f'<div class="found-out">{told}</div>' if told else ""


@dataclass(frozen=True, slots=True)
class Cell:
    """The text shown, and the number it is sorted by."""

    shown: str
    value: float | None = None
    html: bool = False  # made by us: not to be escaped

    def text(self) -> str:
        return self.shown if self.html else escape(self.shown)


@dataclass(frozen=True, slots=True)
class PageColumn:
    name: str
    unit: str = ""
    is_text: bool = False


def table(
    caption: str,
    columns: Sequence[PageColumn],
    rows: Iterable[Sequence[Cell]],
    style: str = "",
    kinds: Iterable[str] = repeat(""),
) -> str:
    """The first cell names the row; `kinds` are the styles of the rows."""
    head = "".join(_head(column) for column in columns)
    body = "".join(_row(cells, columns, kind) for cells, kind in zip(rows, kinds, strict=False))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable {style}"><caption class="unseen">{escape(caption)}</caption>'
        f'<thead><tr class="keys">{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _head(column: PageColumn) -> str:
    unit = f' <span class="unit">{escape(column.unit)}</span>' if column.unit else ""
    return f'<th scope="col"{_class("text" if column.is_text else "")}>{escape(column.name)}{unit}</th>'


def _row(cells: Sequence[Cell], columns: Sequence[PageColumn], kind: str) -> str:
    first = f'<th scope="row"{_sorted_by(cells[0])}>{cells[0].text()}</th>'
    others = "".join(
        f"<td{_class('text' if column.is_text else '')}{_sorted_by(cell)}>{cell.text()}</td>"
        for cell, column in zip(cells[1:], columns[1:], strict=True)
    )
    return f"<tr{_class(kind)}>{first}{others}</tr>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _sorted_by(cell: Cell) -> str:
    return "" if cell.value is None else f' data-value="{cell.value!r}"'


def policy_link(text: str, shown: str = "") -> str:
    """A policy's name, linked to its description at the end of the page."""
    name = text.partition(":")[0]
    inside = f"<code>{escape(shown or text)}</code>"
    return f'<a href="#policy-{escape(name)}" title="{escape(text)}">{inside}</a>'


def at(value: float | None, low: float | None = None, high: float | None = None) -> Any:
    """One value of a row, with its interval."""
    if value is None or value != value:
        return None
    if low is None or high is None or low != low or high != high:
        return {"at": value}
    return {"at": value, "low": low, "high": high}


def row_chart(
    rows: Iterable[tuple[str, Sequence[Any]]],
    across: str,
    series: Sequence[str] = ("",),
    **options: Any,
) -> dict[str, Any]:
    """A chart of named rows, each with one value for every series. `unit`: the format of values."""
    unit = {"as": options.pop("unit")} if "unit" in options else {}
    drawn = [{"name": name, "values": list(values)} for name, values in rows]
    named = {"kind": "rows", "rows": drawn, "series": list(series)}
    return {**named, **unit, **options, "across": across}
