"""A study in a terminal: in full, and as a picture that fits a screen of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from shlex import quote
from textwrap import wrap
from typing import NamedTuple

from dovetail.api.study_row import StudyPage, TrialRow
from dovetail.cli.reach import command_again
from dovetail.client.study_rows import (
    CLOSED,
    FOR_ITS_OWNER,
    best_text,
    counts_text,
    is_hidden,
    is_minimised,
    misfit_text,
    points_of,
    promising_first,
    quiet_text,
    setting_text,
    settings_text,
    state_text,
    steps_made,
    target_text,
    tells_counts,
    trial_columns,
    value_text,
    whole_steps,
)
from dovetail.text.counting import counted
from dovetail.text.curves import BEST, PLAIN, RUNNING, Curve, Titles, chart
from dovetail.text.durations import duration_text
from dovetail.text.tables import clean, columns_of, cut, facts_table, padded, paint, table
from dovetail.text.times import clock, moment

SHOWN = 20  # trials, unless all are asked for
CHART_LINES = 20
_BAR = 20


# ---------------------------------------------------------------------------------------- in full


def details(study: StudyPage, now: float) -> list[str]:
    return facts_table(_facts(study, now))


def _facts(study: StudyPage, now: float) -> Iterator[tuple[str, str]]:
    yield "study", f"{study.name} (id {study.id}, {study.user})"
    yield "state", state_text(study)
    yield "trials", "" if tells_counts(study.reason) else counts_text(study)
    best = study.best
    yield "best", f"{study.metric} {best_text(study)}" if best else best_text(study)
    yield "settings", settings_text(best.settings) if best else ""
    yield "target", target_text(study)
    better = f"{study.metric}, {'lower' if is_minimised(study) else 'higher'} is better"
    yield "metric", "" if is_hidden(study) else better
    yield "each", f"{counted(study.steps, 'step')}{_every(study)}"
    yield "policy", f"{study.policy}; sampler {study.sampler}, seed {study.seed}"
    yield "opened", moment(study.opened_at, now)
    yield "deadline", "" if study.deadline is None else clock(study.deadline, now)
    yield "budget", _budget(study)
    yield "used", f"{study.gpu_hours:.3g} GPU-hours"
    yield "switches", _switches(study)
    yield "warning", misfit_text(study)
    yield "warning", quiet_text(study.quiet, study.metric, command_again())


def _every(study: StudyPage) -> str:
    every = study.report_every
    return f", reported every {every}" if every and every != 1 else ""


def _budget(study: StudyPage) -> str:
    budget = study.budget
    if budget is None:
        return ""
    told = [duration_text(budget.time)] if budget.time is not None else []
    if budget.gpu_hours is not None:
        told.append(f"{budget.gpu_hours:g} GPU-hours")
    return ", ".join(told)


def _switches(study: StudyPage) -> str:
    told = str(study.switches)
    switch = study.switch
    if switch.rung:  # before a trial has given way, seconds are only a guess
        told += f", {_brief(switch.seconds)} each by {switch.rung}"
    if study.suspended_bytes:
        told += f"; {study.suspended_bytes / 1e9:.1f} GB held by paused trials"
    return told


def _brief(seconds: float) -> str:
    """Freezing a process takes milliseconds."""
    return duration_text(seconds) if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def trials_table(study: StudyPage, most: int | None, room: int, colours: bool) -> list[str]:
    """The most promising first."""
    trials = promising_first(study)
    return table(trial_columns(study, room), trials[:most], room=room, colours=colours)


def best_lines(study: StudyPage) -> list[str]:
    """The best trial, with its settings as they can be copied."""
    best = study.best
    assert best is not None
    wide = max(map(columns_of, best.settings), default=0)
    state = study.state if study.state != "open" else "still open"
    lines = [f"{study.metric} {best_text(study)} of study {study.name} ({state})"]
    for name, value in best.settings.items():
        exact = repr(value) if isinstance(value, float) else setting_text(value)
        lines.append(f"  {padded(name, wide)}  {exact}")
    return [clean(line) for line in lines]


# ------------------------------------------------------------------------------------------ curves


def curves(study: StudyPage, size: tuple[int, int], colours: bool) -> list[str]:
    best = study.best
    if is_hidden(study):
        return [f"The curves are {FOR_ITS_OWNER}."]
    number = best.trial if best else None
    drawn = [Curve(points_of(trial), _layer(trial, number)) for trial in study.trials]
    metric, target = clean(study.metric), study.target
    return chart(
        drawn,
        Titles(
            "step",
            metric,
            note=f"trial {number}: {value_text(best.value)}" if best else "",
            rule="" if target is None else f", target {value_text(target)} ╌",
        ),
        size,
        until=float(study.steps),
        target=target,
        minimise=is_minimised(study),
        colours=colours,
    )


def _layer(trial: TrialRow, best: int | None) -> int:
    if trial.number == best:
        return BEST
    return RUNNING if trial.state == "running" else PLAIN


# ---------------------------------------------------------------------------------------- the screen


class StudyScene(NamedTuple):
    """The last answers of the daemon."""

    study: StudyPage
    away: str = ""
    keys: str = "q leaves"


def frame(
    scene: StudyScene, columns: int, lines: int, now: float, colours: bool = True
) -> list[str]:
    """Where it stands, the curves, and as many trials as there is room for."""
    above = _head(scene, columns, now, colours)
    left = lines - len(above)
    trials = min(len(scene.study.trials), max(left // 3, 4))
    drawn = curves(scene.study, (columns, min(left - trials - 2, columns // 3)), colours)
    room = left - len(drawn) - 2
    rows = trials_table(scene.study, max(room, 0), columns, colours) if room > 0 else []
    return [*above, *drawn, "", *rows][:lines]


def _head(scene: StudyScene, columns: int, now: float, colours: bool) -> list[str]:
    study = scene.study
    left = clean(f"{study.name}  {state_text(study)} · {study.policy}")
    right = f"{time.strftime('%H:%M:%S', time.localtime(now))}  {scene.keys}"
    lines = [
        _both_ends(left, right, columns, colours),
        cut(f"{_progress(study)}  {counts_text(study)}", columns),
        cut(_best_line(study), columns),
    ]
    if study.state == "stopped":
        resume = clean(f"It goes on with: {command_again()} study resume {quote(study.name)}")
        lines.append(cut(resume, columns))
    if quiet := quiet_text(study.quiet, study.metric, command_again()):
        told = [cut(line, columns) for line in wrap(clean(quiet), columns)]
        lines += [paint(line, "yellow" if colours else "") for line in told]
    if scene.away:
        lines.append(paint(cut(clean(scene.away), columns), "red" if colours else ""))
    return [*lines, ""]


def _both_ends(left: str, right: str, columns: int, colours: bool) -> str:
    room = columns - columns_of(right) - 2
    bold, dim = ("bold", "dim") if colours else ("", "")
    if room < 20:
        return paint(cut(left, columns), bold)
    return paint(padded(cut(left, room), room), bold) + "  " + paint(right, dim)


def _progress(study: StudyPage) -> str:
    """Steps made of all there could be: few rules make all of them, so it may end before 100 %."""
    most = max(whole_steps(study) * study.trial_count, 1)
    made = min(steps_made(study.trials), most)
    full = made * _BAR // most
    return f"{'█' * full}{'░' * (_BAR - full)} {made:,} of {most:,} steps"


def _best_line(study: StudyPage) -> str:
    told = f"{clean(study.metric)} {best_text(study)}" if study.best else best_text(study)
    told = f"best {told}" if is_hidden(study) else told
    if study.target is not None:
        told += f" · target {target_text(study)}"
    word = "took" if study.state == CLOSED else "for"
    return f"{told} · {word} {duration_text(study.age_s)}, {study.gpu_hours:.3g} GPU-hours"
