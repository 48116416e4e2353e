"""Studies and their trials in words and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf, nan

from dovetail.api.study_row import QuietTrials, StudyHead, StudyPage, StudyRow, TrialRow
from dovetail.text.durations import duration_text
from dovetail.text.tables import Column, that_fit

CLOSED = "closed"
FOR_ITS_OWNER = "for its owner and administrators to see"
_STATE_STYLES = {
    "open": "green", "running": "green", "stopped": "yellow", "paused": "yellow",
    "failed": "red", "new": "dim", "closed": "dim",
}  # fmt: skip
_WIDE = 72
_SPARED = ("JOB", "VALUE")
_MOST_SETTINGS = 12  # of a trial in one line


def value_of(told: float | None) -> float:
    """JSON has no word for NaN and infinity: the daemon tells null."""
    return nan if told is None else told


def value_text(value: float | None) -> str:
    """Four digits; `-` for nothing yet."""
    return "-" if value is None else f"{value:.4g}"


def setting_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def settings_text(settings: Mapping[str, object]) -> str:
    """`lr 0.01, units 64`"""
    told = [f"{name} {setting_text(value)}" for name, value in settings.items()]
    if len(told) > _MOST_SETTINGS:
        told[_MOST_SETTINGS:] = ["…"]
    return ", ".join(told)


def is_minimised(study: StudyPage) -> bool:
    return study.direction != "max"


def loss_of(trial: TrialRow, minimise: bool) -> float:
    """Lower is better, whatever the direction; infinite where there is no value."""
    if trial.best is None:
        return inf
    return trial.best if minimise else -trial.best


def promising_first(study: StudyPage) -> list[TrialRow]:
    """The trials by their best value; those without one as they were made."""
    minimise = is_minimised(study)
    return sorted(study.trials, key=lambda trial: loss_of(trial, minimise))


def place(trial: TrialRow) -> str:
    """The GPU that it holds."""
    stints = trial.stints
    return stints[-1][2] if stints and stints[-1][1] is None else ""


def is_hidden(study: StudyHead) -> bool:
    """Another user's, whose values are not told: see the daemon's `visibility`."""
    return isinstance(study, StudyPage) and not study.metric


def best_text(study: StudyHead) -> str:
    """`0.0512 by trial 7 at step 27`"""
    best = study.best
    if is_hidden(study):
        return FOR_ITS_OWNER
    if not best:
        return "no value" if study.state == CLOSED else "no value yet"
    return f"{value_text(best.value)} by trial {best.trial} at step {best.step:g}"


def target_text(study: StudyHead) -> str:
    """`0.05, reached after 3 min`"""
    if study.target is None:
        return ""
    reached = study.reached_s
    told = "not reached yet" if reached is None else f"reached after {duration_text(reached)}"
    if reached is None and study.state == CLOSED:
        told = "not reached"
    return f"{value_text(study.target)}, {told}"


def counts_text(study: StudyHead) -> str:
    """`12 of 27 trials done, 2 running, 11 paused, 2 not begun`"""
    begun = {
        "running": study.running,
        "paused": study.paused,
        "stopped": study.stopped,
        "failed": study.failed,
    }
    unbegun = max(study.trial_count - study.done - sum(begun.values()), 0)
    told = [f"{study.done:,} of {study.trial_count:,} trials done"]
    told += [f"{count:,} {state}" for state, count in begun.items() if count]
    return ", ".join([*told, *([f"{unbegun:,} not begun"] if unbegun else [])])


def tells_counts(reason: str) -> bool:
    """Whether the reason for its end says already how many trials are done."""
    return re.search(r"trials (are|is) done", reason) is not None


def whole_steps(study: StudyPage) -> int:
    """The steps of a whole trial, counted as trials' steps are: one for each report that is due."""
    return ceil(study.steps / (study.report_every or 1))


def misfit_text(study: StudyPage) -> str:
    """Empty, or a question: a trial was done after far fewer or more steps than it should have."""
    whole = whole_steps(study)
    odd = [trial for trial in study.trials if trial.state == "done" and _misfits(trial, whole)]
    if not odd:
        return ""
    others = f" ({len(odd) - 1:,} more likewise)" if len(odd) > 1 else ""
    every = study.report_every or 1
    unit, due = ("steps", "every step") if every == 1 else ("reports", f"every {every} steps")
    return (
        f"trial {odd[0].number} ended after {odd[0].steps} of {whole} {unit}{others}: "
        f"does the script report {due}, counted from 1?"
    )


def quiet_text(quiet: QuietTrials | None, metric: str, command: str) -> str:
    """Which trials hold a slot and report nothing, and what helps; "" if there are none. `command`
    is the way to call Dovetail."""
    if quiet is None:
        return ""
    usual = quiet.usual_s
    told = _unheard_text(quiet, metric) if usual is None else _stuck_text(quiet, usual)
    return f"{told}; see {command} logs {quiet.job}"


def _stuck_text(quiet: QuietTrials, usual_s: float) -> str:
    number, *others = quiet.trials
    likewise = f" ({len(others):,} more likewise)" if others else ""
    told = f"trial {number} has reported nothing new for {duration_text(quiet.seconds)}{likewise}"
    return f"{told}, where {duration_text(usual_s)} is usual; a time_limit ends trials that hang"


def _unheard_text(quiet: QuietTrials, metric: str) -> str:
    """What it reported instead of the metric, and what would help."""
    told = f"no trial has reported {metric} yet after {duration_text(quiet.seconds)}"
    if quiet.told:
        told += f"; trial {quiet.trials[0]} reported: {', '.join(quiet.told[:_MOST_SETTINGS])}"
    if quiet.printed:
        told += f"; it printed: {' ⏎ '.join(quiet.printed)}"
    if quiet.pattern:
        pattern = f"metric_pattern: '{quiet.pattern}'"
        return f"{told}; to have that understood, add to the study: {pattern}"
    way = (
        f"have the script report {metric}, or say in the study's metric_pattern where it is printed"
    )
    hang = "" if quiet.told or quiet.printed else "; a time_limit ends trials that hang"
    return f"{told}; {way}{hang}"


def _misfits(trial: TrialRow, whole: int) -> bool:
    """A script may end early of its own accord, or report once more at the end."""
    return trial.steps * 2 < whole or trial.steps > whole + 1


def state_text(study: StudyHead) -> str:
    """`closed: all done`"""
    return f"{study.state}: {study.reason}" if study.reason else study.state


def has_ended_well(study: StudyHead) -> bool:
    """Closed as it was meant to, and with something to show."""
    return study.state == CLOSED and study.best is not None


def _style(row: StudyRow | TrialRow) -> str:
    return _STATE_STYLES.get(row.state, "")


def _short_target(row: StudyRow) -> str:
    if row.target is None:
        return ""
    return value_text(row.target) + (" ✓" if row.reached_s is not None else "")


STUDIES: tuple[Column[StudyRow], ...] = (
    Column("ID", lambda row: row.id),
    Column("NAME", lambda row: row.name, least=12),
    Column("USER", lambda row: row.user, least=6),
    Column("STATE", lambda row: row.state, style=_style),
    Column("POLICY", lambda row: row.policy, least=8),
    Column("DONE", lambda row: f"{row.done}/{row.trials}", right=True),
    Column("RUNS", lambda row: str(row.running), right=True),
    Column("BEST", lambda row: value_text(row.best.value if row.best else None), right=True),
    Column("TARGET", _short_target, right=True),
    Column("GPU-H", lambda row: f"{row.gpu_hours:.3g}", right=True),
    Column("FOR", lambda row: duration_text(row.age_s), right=True),
    Column("NOTE", lambda row: row.reason, least=10),
)


_SPARED_OF_STUDIES = (
    "GPU-H",
    "NOTE",
    "USER",
    "TARGET",
    "FOR",
    "POLICY",
    "RUNS",
    "DONE",
    "BEST",
)


def study_columns(rows: Sequence[StudyRow], room: int) -> list[Column[StudyRow]]:
    """Fewer in a narrow terminal."""
    return that_fit(STUDIES, rows, room, _SPARED_OF_STUDIES)


def trial_columns(study: StudyPage, room: int) -> list[Column[TrialRow]]:
    """Fewer in a narrow terminal."""
    steps = whole_steps(study)
    columns: list[Column[TrialRow]] = [
        Column("TRIAL", lambda row: str(row.number), right=True),
        Column("JOB", lambda row: row.job, right=True),
        Column("STATE", lambda row: row.state, style=_style),
        Column("STEPS", lambda row: f"{row.steps}/{steps}", right=True),
        Column("VALUE", _last_value, right=True),
        Column("BEST", lambda row: value_text(row.best), right=True),
        Column("ON", place, least=5),
        Column("SETTINGS", _settings_and_reason, least=16),
    ]
    return columns if room >= _WIDE else [own for own in columns if own.title not in _SPARED]


def _last_value(trial: TrialRow) -> str:
    """The daemon tells null for a value that is not finite, and for no value yet."""
    return "nan" if trial.points and trial.value is None else value_text(trial.value)


def _settings_and_reason(trial: TrialRow) -> str:
    told = settings_text(trial.settings)
    return f"{told} ({trial.reason})" if trial.reason else told


def steps_made(trials: Iterable[TrialRow]) -> int:
    return sum(trial.steps for trial in trials)


def points_of(trial: TrialRow) -> list[tuple[float, float]]:
    return [(point[0], value_of(point[1])) for point in trial.points]
