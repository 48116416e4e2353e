"""Tables for people: they fit the terminal; where there is none, COLUMNS if set, or 100."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

WIDTH = 100
_GAP = 2
_NARROWEST = 2
_CUT = "…"

Row = TypeVar("Row")


class Column(NamedTuple, Generic[Row]):
    """A title, a function from a row to its cell, and how far it may shrink (None: not at all)."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    least: int | None = None
    style: Callable[[Row], str] | None = None


def is_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int:
    """The width of the terminal; in a pipe COLUMNS if it is set, or 100."""
    if not is_terminal():
        told = os.environ.get("COLUMNS", "")
        return int(told) if told.isdecimal() and int(told) > 0 else WIDTH
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns


def has_colours() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    room: int | None = None,
    colours: bool = False,
) -> list[str]:
    """A line of titles and one line per row."""
    cells = [[clean(column.cell(row)) for column in columns] for row in rows]
    titles = [column.title for column in columns]
    natural = [
        max(map(columns_of, column), default=0) for column in zip(titles, *cells, strict=True)
    ]
    widths = fitted(
        natural, [column.least for column in columns], width() if room is None else room
    )
    lines = [paint(_line(titles, columns, widths), "bold" if colours else "")]
    for row, own in zip(rows, cells, strict=True):
        styles = [c.style(row) if colours and c.style else "" for c in columns]
        lines.append(_line(own, columns, widths, styles))
    return lines


def figures_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Titles, a rule, and a line for each row: a name, then figures. At most 100 columns wide
    wherever it is printed, since it is quoted in reports."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    room = WIDTH - sum(widths[1:]) - _GAP * (len(widths) - 1)
    widths[0] = max(len(row[0]) for row in rows if len(row[0]) <= max(room, len(rows[0][0])))
    lines = [line for row in rows for line in _figures(row, widths)]
    lines.insert(1, (" " * _GAP).join("─" * width for width in widths))
    return lines


def _figures(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """A row; a name too long for its column is on a line of its own, so that no two look the same."""
    name, *figures = row
    above = [] if len(name) <= widths[0] else wrapped(name)
    cells = [("" if above else name).ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
    return [*above, (" " * _GAP).join(cells).rstrip()]


def wrapped(text: str) -> list[str]:
    """Lines of at most 100 columns; those after the first are indented."""
    from textwrap import wrap

    return wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def facts_table(facts: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each fact that has a text: its name, then the text."""
    told = [(name, clean(text)) for name, text in facts if text]
    wide = max((len(name) for name, _ in told), default=0)
    return [f"{name.ljust(wide)}{' ' * _GAP}{text}" for name, text in told]


def that_fit(
    columns: Sequence[Column[Row]], rows: Sequence[Row], room: int, spared: Sequence[str]
) -> list[Column[Row]]:
    """The columns without as many of the spared ones, in that order, as must go to fit the room."""
    kept = list(columns)
    least = {column.title: _least(column, rows) + _GAP for column in columns}
    for title in spared:
        if sum(least[column.title] for column in kept) - _GAP <= room:
            break
        kept = [column for column in kept if column.title != title]
    return kept


def _least(column: Column[Row], rows: Sequence[Row]) -> int:
    natural = max(map(columns_of, [column.title, *(clean(column.cell(row)) for row in rows)]))
    return natural if column.least is None else min(natural, column.least)


def fitted(
    natural: Sequence[int], least: Sequence[int | None], room: int, gap: int = _GAP
) -> list[int]:
    """The widest columns that may shrink become narrower first; if that is not enough, all of them."""
    widths = list(natural)
    room -= gap * (len(widths) - 1)
    _shrink(widths, [w if low is None else low for w, low in zip(widths, least, strict=True)], room)
    _shrink(widths, [_NARROWEST] * len(widths), room)
    return widths


def _shrink(widths: list[int], least: Sequence[int], room: int) -> None:
    while sum(widths) > room:
        can = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not can:
            return
        widths[max(can, key=widths.__getitem__)] -= 1


def _line(
    cells: Sequence[str],
    columns: Sequence[Column[Row]],
    widths: Sequence[int],
    styles: Sequence[str] = (),
) -> str:
    found = [
        paint(padded(cut(cell, width), width, column.right), style)
        for cell, column, width, style in zip(
            cells, columns, widths, styles or [""] * len(cells), strict=True
        )
    ]
    return (" " * _GAP).join(found).rstrip()


def cut(text: str, room: int) -> str:
    if columns_of(text) <= room:
        return text
    kept = text[: max(room - 1, 0)]
    while kept and columns_of(kept) > room - 1:
        kept = kept[:-1]
    return kept + _CUT[: max(room, 0)]


def padded(text: str, room: int, right: bool = False) -> str:
    blank = " " * (room - columns_of(text))
    return blank + text if right else text + blank


def columns_of(text: str) -> int:
    """The number of terminal columns of a text; Chinese characters take two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def clean(text: str) -> str:
    """The text without control characters: a job's name must not control the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


# ------------------------------------------------------------------------------------------ colours


def plain(line: str) -> str:
    """A line without the colours that `paint` gave it."""
    import re

    return re.sub("\x1b\\[[0-9;]*m", "", line)


STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
PHASE_STYLES = {
    "running": "green",
    "starting": "cyan",
    "suspended": "yellow",
    "failed": "red",
    "cancelled": "dim",
}


def paint(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style else text
