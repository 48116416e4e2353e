"""The page of a study: curves, GPUs, settings, and the cost under other rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from dovetail.api.study_row import StudyPage
from dovetail.client.study_rows import (
    CLOSED,
    best_text,
    counts_text,
    is_minimised,
    setting_text,
    state_text,
    target_text,
)
from dovetail.reports.frame import asset, framed
from dovetail.reports.study_data import data_of
from dovetail.reports.study_replays import Others, ReplayRow, others_of
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.times import clock

NOTHING_PRINTED: Mapping[int, str] = {}
SCRIPTS = (
    "tables.js", "axes.js", "study_chart.js", "study_curves.js", "study_parts.js",
    "study_parallel.js", "study_main.js",
)  # fmt: skip


def write_study(
    path: Path,
    study: StudyPage,
    others: Others | None = None,
    last_lines: Mapping[int, str] = NOTHING_PRINTED,
) -> None:
    """`others` are the replays under other rules; made here unless given. `last_lines`: by trial,
    the last line that it printed."""
    page = render(study, others_of(study) if others is None else others, last_lines)
    path.write_bytes(page.encode("utf-8", "replace"))


def render(
    study: StudyPage, others: Others, last_lines: Mapping[int, str] = NOTHING_PRINTED
) -> str:
    return framed(
        asset("study.html"),
        title=f"Study {study.name}",
        facts=facts_of(study),
        data=data_of(study, last_lines),
        styles=("study.css",),
        scripts=SCRIPTS,
        found=_found(study),
        others=_others(others),
        others_notes="".join(f'<p class="hint">{escape(note)}</p>' for note in others.notes),
    )


def facts_of(study: StudyPage) -> Iterator[str]:
    yield state_text(study)
    yield counts_text(study)
    yield f"{study.metric}, {'lower' if is_minimised(study) else 'higher'} is better"
    yield f"policy {study.policy}, sampler {study.sampler}, seed {study.seed}"
    yield f"opened {clock(study.opened_at, study.opened_at + 400 * 86400)}"
    yield f"{duration_text(study.age_s)}, {study.gpu_hours:.3g} GPU-hours"
    yield counted(study.switches, "switch").replace("switchs", "switches")


def _found(study: StudyPage) -> str:
    best = study.best
    if not best:
        return f'<p class="found">{escape(found_text(study))}</p>'
    told = f'<p class="found"><b>{escape(study.metric)} {escape(best_text(study))}</b>'
    if study.target is not None:
        told += f" · target {escape(target_text(study))}"
    settings = "".join(
        f'<dt>{escape(name)}</dt><dd title="{escape(_exact(value))}">{escape(setting_text(value))}</dd>'
        for name, value in best.settings.items()
    )
    return f'{told}</p><dl class="settings">{settings}</dl>'


def found_text(study: StudyPage) -> str:
    """The best value so far."""
    if study.best is None:
        if study.state == CLOSED:
            return f"No trial reported {study.metric}."
        return f"No trial has reported {study.metric} yet."
    target = "" if study.target is None else f" · target {target_text(study)}"
    return f"{study.metric} {best_text(study)}{target}"


def _exact(value: object) -> str:
    return repr(value) if isinstance(value, float) else setting_text(value)


_COLUMNS = (
    ("Policy", True), ("Time to that value", False), ("Times faster than fifo", False),
    ("Best trial done", False), ("Steps run", False), ("Switches", False),
    ("Paused at once, most", False), ("Gave up the best", True),
)  # fmt: skip


def _others(others: Others) -> str:
    if not others.rows:
        return ""
    head = "".join(
        f'<th scope="col"{_class("text" if is_text else "")}>{name}</th>'
        for name, is_text in _COLUMNS
    )
    body = "".join(_other_row(row, others) for row in others.rows)
    return (
        '<table class="others"><caption class="unseen">Replays under other policies</caption>'
        f'<thead><tr class="keys">{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _other_row(row: ReplayRow, others: Others) -> str:
    best = min(own.to_target_s for own in others.rows)
    fastest = row.to_target_s == best < float("inf")
    time = _span(row.to_target_s)
    cells: Sequence[tuple[float, str]] = (
        (row.to_target_s, f"<strong>{time}</strong>" if fastest else time),
        (row.speedup, f"{row.speedup:.2f}"),
        (row.best_done_s, _span(row.best_done_s)),
        (row.steps, f"{row.steps:,}"),
        (row.switches, f"{row.switches:,}"),
        (row.peak_suspended, f"{row.peak_suspended:,}"),
    )
    told = "".join(f'<td data-value="{_number(value)}">{shown}</td>' for value, shown in cells)
    name = escape(row.policy) + (" (this study's)" if row.own else "")
    killed = "yes" if row.best_killed else "no"
    return (
        f'<tr{_class("own" if row.own else "")}><th scope="row">{name}</th>{told}'
        f'<td class="text">{killed}</td></tr>'
    )


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _number(value: float) -> str:
    return f"{value:.6g}".replace("inf", "Infinity")


def _span(seconds: float) -> str:
    return "never" if seconds == float("inf") else duration_text(seconds)
