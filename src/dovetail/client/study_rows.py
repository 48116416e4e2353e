"""What the daemon says of studies and their trials, in words and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf, isnan, nan
from typing import Any

from dovetail.text.durations import duration_text
from dovetail.text.tables import Column, Row, that_fit

CLOSED = "closed"
FOR_ITS_OWNER = "for its owner and administrators to see"
_STATE_STYLES = {
    "open": "green", "running": "green", "stopped": "yellow", "paused": "yellow",
    "failed": "red", "new": "dim", "closed": "dim",
}  # fmt: skip
_WIDE = 72
_SPARED = ("JOB", "VALUE")
_MOST_SETTINGS = 12  # of a trial in one line


def value_of(told: object) -> float:
    """A number of the daemon's; JSON has no word for what is none, so it comes as text or null."""
    try:
        return float(told)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return nan


def value_text(told: object) -> str:
    """Four digits; `-` for nothing yet."""
    if told is None:
        return "-"
    value = value_of(told)
    return f"{value:.4g}"


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


def is_minimised(study: Row) -> bool:
    return bool(study.get("direction", "min") != "max")


def loss_of(trial: Row, minimise: bool) -> float:
    """Lower is better, whatever the direction; infinite where there is no value."""
    value = value_of(trial["best"])
    if isnan(value):
        return inf
    return value if minimise else -value


def promising_first(study: Row) -> list[Row]:
    """The trials by their best value; those without one as they were made."""
    minimise = is_minimised(study)
    return sorted(study["trials"], key=lambda trial: loss_of(trial, minimise))


def place(trial: Row) -> str:
    """The GPU that it holds."""
    stints = trial["stints"]
    return str(stints[-1][2]) if stints and stints[-1][1] is None else ""


def is_hidden(study: Row) -> bool:
    """Another user's, of whom only that there is one is told: see the daemon's `sight`."""
    return study.get("metric") == ""


def best_text(study: Row) -> str:
    """`0.0512 by trial 7 at step 27`"""
    best = study["best"]
    if is_hidden(study):
        return FOR_ITS_OWNER
    if not best:
        return "no value" if study["state"] == CLOSED else "no value yet"
    return f"{value_text(best['value'])} by trial {best['trial']} at step {best['step']:g}"


def target_text(study: Row) -> str:
    """`0.05, reached after 3 min`"""
    if study["target"] is None:
        return ""
    reached = study["reached_s"]
    told = "not reached yet" if reached is None else f"reached after {duration_text(reached)}"
    if reached is None and study["state"] == CLOSED:
        told = "not reached"
    return f"{value_text(study['target'])}, {told}"


def counts_text(study: Row) -> str:
    """`12 of 27 trials done, 2 running, 11 paused, 2 not begun`"""
    states = ("running", "paused", "stopped", "failed")
    told = [f"{study['done']:,} of {trials_of(study):,} trials done"]
    told += [f"{study[state]:,} {state}" for state in states if study[state]]
    unbegun = trials_of(study) - study["done"] - sum(study[state] for state in states)
    if unbegun > 0:
        told.append(f"{unbegun:,} not begun")
    return ", ".join(told)


def tells_counts(reason: str) -> bool:
    """Whether the reason for its end says already how many trials are done."""
    return re.search(r"trials (are|is) done", reason) is not None


def trials_of(study: Row) -> int:
    """The list of studies counts them, the description of one names them."""
    trials = study["trials"]
    return trials if isinstance(trials, int) else int(study.get("planned") or len(trials))


def whole_steps(study: Row) -> int:
    """Of a whole trial, counted as trials' steps are: one for each report that is due."""
    steps, every = int(study["steps"]), int(study["report_every"] or 1)
    return ceil(steps / every)


def misfit_text(study: Row) -> str:
    """Empty, or a question: a trial was done after far fewer or more steps than it should have."""
    whole = whole_steps(study)
    odd = [
        trial for trial in study["trials"] if trial["state"] == "done" and _misfits(trial, whole)
    ]
    if not odd:
        return ""
    others = f" ({len(odd) - 1:,} more likewise)" if len(odd) > 1 else ""
    every = int(study["report_every"] or 1)
    unit, due = ("steps", "every step") if every == 1 else ("reports", f"every {every} steps")
    return (
        f"trial {odd[0]['number']} ended after {odd[0]['steps']} of {whole} {unit}{others}: "
        f"does the script report {due}, counted from 1?"
    )


def quiet_text(study: Row, command: str) -> str:
    """Empty, or which trials hold a slot and say nothing, and what helps. `command` is how one calls
    Dovetail."""
    quiet = study.get("quiet")
    if not quiet:
        return ""
    told = _unheard_text(study, quiet) if quiet["usual_s"] is None else _stuck_text(quiet)
    return f"{told}; see {command} logs {quiet['job']}"


def _stuck_text(quiet: Row) -> str:
    number, *others = quiet["trials"]
    likewise = f" ({len(others):,} more likewise)" if others else ""
    told = (
        f"trial {number} has reported nothing new for {duration_text(quiet['seconds'])}{likewise}"
    )
    usual = duration_text(quiet["usual_s"])
    return f"{told}, where {usual} is usual; a time_limit ends trials that hang"


def _unheard_text(study: Row, quiet: Row) -> str:
    """What came instead of the metric, and what would help."""
    metric = study.get("metric", "the metric")
    told = f"no trial has reported {metric} yet after {duration_text(quiet['seconds'])}"
    if quiet["told"]:
        told += (
            f"; trial {quiet['trials'][0]} reported: {', '.join(quiet['told'][:_MOST_SETTINGS])}"
        )
    if quiet.get("printed"):
        told += f"; it printed: {' ⏎ '.join(quiet['printed'])}"
    if quiet.get("pattern"):
        pattern = f"metric_pattern: '{quiet['pattern']}'"
        return f"{told}; to have that understood, add to the study: {pattern}"
    way = (
        f"have the script report {metric}, or say in the study's metric_pattern where it is printed"
    )
    hang = "" if quiet["told"] or quiet.get("printed") else "; a time_limit ends trials that hang"
    return f"{told}; {way}{hang}"


def _misfits(trial: Row, whole: int) -> bool:
    """A script may end early of its own accord, or report once more at the end."""
    return bool(trial["steps"] * 2 < whole or trial["steps"] > whole + 1)


def state_text(study: Row) -> str:
    """`closed: all done`"""
    return f"{study['state']}: {study['reason']}" if study["reason"] else str(study["state"])


def has_ended_well(study: Row) -> bool:
    """Closed as it was meant to, and with something to show."""
    return study["state"] == CLOSED and study["best"] is not None


def _style(row: Row) -> str:
    return _STATE_STYLES.get(row["state"], "")


def _short_target(row: Row) -> str:
    if row["target"] is None:
        return ""
    return value_text(row["target"]) + (" ✓" if row["reached_s"] is not None else "")


STUDIES = (
    Column("ID", lambda row: str(row["id"])),
    Column("NAME", lambda row: str(row["name"]), least=12),
    Column("USER", lambda row: str(row["user"]), least=6),
    Column("STATE", lambda row: str(row["state"]), style=_style),
    Column("POLICY", lambda row: str(row["policy"]), least=8),
    Column("DONE", lambda row: f"{row['done']}/{trials_of(row)}", right=True),
    Column("RUNS", lambda row: str(row["running"]), right=True),
    Column("BEST", lambda row: value_text((row["best"] or {}).get("value")), right=True),
    Column("TARGET", _short_target, right=True),
    Column("GPU-H", lambda row: f"{row['gpu_hours']:.3g}", right=True),
    Column("FOR", lambda row: duration_text(row["age_s"]), right=True),
    Column("NOTE", lambda row: str(row["reason"]), least=10),
)


_SPARED_OF_STUDIES = ("GPU-H", "NOTE", "USER", "TARGET", "FOR", "POLICY", "RUNS", "DONE", "BEST")


def study_columns(rows: Sequence[Row], room: int) -> list[Column]:
    """In a narrow terminal without what can be done without."""
    return that_fit(STUDIES, rows, room, _SPARED_OF_STUDIES)


def trial_columns(study: Row, room: int) -> list[Column]:
    """In a narrow terminal without what can be done without."""
    steps = whole_steps(study)
    columns = [
        Column("TRIAL", lambda row: str(row["number"]), right=True),
        Column("JOB", lambda row: str(row["job"] or ""), right=True),
        Column("STATE", lambda row: str(row["state"]), style=_style),
        Column("STEPS", lambda row: f"{row['steps']}/{steps}", right=True),
        Column("VALUE", _last_value, right=True),
        Column("BEST", lambda row: value_text(row["best"]), right=True),
        Column("ON", place, least=5),
        Column("SETTINGS", _settings_and_reason, least=16),
    ]
    return columns if room >= _WIDE else [own for own in columns if own.title not in _SPARED]


def _last_value(trial: Row) -> str:
    """The daemon tells null for what was no finite number, and for nothing yet."""
    return "nan" if trial["points"] and trial["value"] is None else value_text(trial["value"])


def _settings_and_reason(trial: Row) -> str:
    told = settings_text(trial["settings"])
    return f"{told} ({trial['reason']})" if trial.get("reason") else told


def steps_made(trials: Iterable[Row]) -> int:
    return sum(trial["steps"] for trial in trials)


def points_of(trial: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [(point[0], value_of(point[1])) for point in trial["points"]]
