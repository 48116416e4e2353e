"""The data of a study's page, within the capacity of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, inf, isfinite
from typing import Any

from dovetail.api.study_row import StudyPage, TrialRow
from dovetail.client.study_rows import is_minimised, loss_of, value_of, whole_steps
from dovetail.reports.importance import importance, importance_note
from dovetail.text.curves import Scale, scale_of, with_room

MOST_POINTS = 150_000  # of all curves; more are thinned, evenly
MOST_POINTS_EACH, LEAST_POINTS_EACH = 400, 16
MOST_STINTS = 8_000
_TEXT = 80
_LINE = 200  # characters of the last line that a failed trial printed


def data_of(study: StudyPage, last_lines: Mapping[int, str]) -> dict[str, Any]:
    """As the scripts of the page read it."""
    trials = study.trials
    minimise = is_minimised(study)
    finite = [v for trial in trials for p in trial.points if isfinite(v := value_of(p[1]))]
    target = study.target
    scale = scale_of(finite, target, minimise) if finite else None
    ends = with_room(scale) if scale else Scale(0.0, 1.0)
    seconds = _seconds(study)
    places = _places(trials)
    parameters = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    shares = importance(trials, minimise)
    each = max(min(MOST_POINTS_EACH, MOST_POINTS // max(len(trials), 1)), LEAST_POINTS_EACH)
    shown = _shown_trials(study, last_lines, parameters, places, each)
    return {
        "metric": study.metric,
        "steps": whole_steps(study),
        "target": target,
        "top": study.best.trial if study.best else None,
        "seconds": seconds,
        "last_step": max([study.steps, *(t.points[-1][0] for t in trials if t.points)]),
        "low": ends.low,
        "high": ends.high,
        "log": bool(scale and scale.is_log),
        "parameters": [_cut(name) for name in parameters],
        "importance": [None if share is None else round(share, 3) for _, share in shares],
        "importance_note": importance_note(shares),
        "places": list(places),
        "best": best_over_time(trials, minimise),
        "trials": shown,
        "curves_note": _curves_note(trials, finite, scale and (scale.low, scale.high), each),
        "gpus_note": _gpus_note(trials, sum(len(own["stints"]) for own in shown)),
    }


def _shown_trials(
    study: StudyPage,
    last_lines: Mapping[int, str],
    parameters: Sequence[str],
    places: Mapping[str, int],
    points: int,
) -> list[dict[str, Any]]:
    """`points` of each curve at the most."""
    trials, seconds = study.trials, _seconds(study)
    ranks = _ranks(trials, is_minimised(study))
    shortest = _shortest_shown(trials, seconds)
    return [
        {
            "number": trial.number,
            "job": trial.job,
            "state": trial.state,
            "reason": _cut(trial.reason),
            "last_line": _cut(last_lines.get(trial.number, ""), _LINE),
            "steps": trial.steps,
            "value": _short(value_of(trial.value)),
            "best": _short(value_of(trial.best)),
            "settings": [_setting(trial.settings.get(name)) for name in parameters],
            "rank": ranks.get(trial.number),
            "curve": _curve(trial.points, points),
            "stints": _stints(trial, places, seconds, shortest),
        }
        for trial in trials
    ]


def _seconds(study: StudyPage) -> float:
    """The seconds since the study began; the page of a new study has an axis, too."""
    ends = [to for trial in study.trials for _, to, _ in trial.stints if to is not None]
    told = [point[2] for trial in study.trials for point in trial.points[-1:]]
    return max([*ends, *told, study.age_s if study.state != "closed" else 0.0, 1.0])


def best_over_time(trials: Sequence[TrialRow], minimise: bool) -> list[tuple[float, float, int]]:
    """Each report of a value better than all before: at, value, trial."""
    sign = 1.0 if minimise else -1.0
    better: list[tuple[float, float, int]] = []
    for trial in trials:
        lowest = inf
        for _, told, at in trial.points:
            loss = sign * value_of(told)
            if loss < lowest and isfinite(loss):
                lowest = loss
                better.append((float(at), loss, trial.number))
    found: list[tuple[float, float, int]] = []
    lowest = inf
    for at, loss, number in sorted(better):
        if loss < lowest:
            lowest = loss
            found.append((round(at, 3), float(f"{sign * loss:.6g}"), number))
    return found


def _ranks(trials: Sequence[TrialRow], minimise: bool) -> dict[int, float]:
    """From 0, the best, to 1, the worst; trials without a value have none."""
    losses = {trial.number: loss_of(trial, minimise) for trial in trials}
    ordered = sorted((n for n, loss in losses.items() if isfinite(loss)), key=losses.__getitem__)
    return {n: round(place / max(len(ordered) - 1, 1), 4) for place, n in enumerate(ordered)}


# ------------------------------------------------------------------------------------------- curves


def _curve(points: Sequence[Sequence[Any]], most: int) -> dict[str, list[Any]]:
    kept = _thinned(points, most)
    return {
        "steps": [point[0] for point in kept],
        "values": [_short(value_of(point[1])) for point in kept],
        "times": [round(point[2], 2) for point in kept],
    }


def _thinned(points: Sequence[Sequence[Any]], most: int) -> Sequence[Sequence[Any]]:
    stride = ceil(len(points) / most)
    if stride <= 1:
        return points
    kept = list(points[::stride])
    return kept if kept[-1] is points[-1] else [*kept, points[-1]]


def _curves_note(
    trials: Sequence[TrialRow],
    finite: Sequence[float],
    ends: tuple[float, float] | None,
    each: int,
) -> str:
    told = []
    points = sum(len(trial.points) for trial in trials)
    if points > len(finite):
        told.append(
            f"{points - len(finite):,} values were no finite numbers: gaps in their curves."
        )
    off = sum(1 for value in finite if ends and not ends[0] <= value <= ends[1])
    if off:
        told.append(f"{off:,} values lie beyond the scale and are drawn at its edge.")
    if any(len(trial.points) > each for trial in trials):
        told.append(f"Curves of more than {each:,} points are drawn with that many.")
    return " ".join(told)


# --------------------------------------------------------------------------------------------- GPUs


def _places(trials: Sequence[TrialRow]) -> dict[str, int]:
    """The row of each GPU, in natural order."""
    names = {where for trial in trials for _, _, where in trial.stints}
    return {name: row for row, name in enumerate(sorted(names, key=_by_number))}


def _by_number(name: str) -> list[tuple[int, int, str]]:
    pieces = re.split(r"(\d+)", name)
    return [(1, int(own), "") if own.isdigit() else (0, 0, own) for own in pieces]


def _shortest_shown(trials: Sequence[TrialRow], seconds: float) -> float:
    lengths = [_length(own, seconds) for trial in trials for own in trial.stints]
    return sorted(lengths)[-MOST_STINTS] if len(lengths) > MOST_STINTS else 0.0


def _length(stint: Sequence[Any], seconds: float) -> float:
    return float((seconds if stint[1] is None else stint[1]) - stint[0])


def _stints(
    trial: TrialRow, places: Mapping[str, int], seconds: float, shortest: float
) -> list[tuple[int, float, float]]:
    return [
        (places[where], round(begun, 2), round(seconds if ended is None else ended, 2))
        for begun, ended, where in trial.stints
        if _length((begun, ended), seconds) >= shortest
    ]


def _gpus_note(trials: Sequence[TrialRow], drawn: int) -> str:
    stints = sum(len(trial.stints) for trial in trials)
    told = "The stronger the colour, the better the trial's best value; the best of all in green."
    if drawn < stints:
        told += f" Showing the {drawn:,} longest of {stints:,} stints."
    exchanged = sum(
        before[1] is not None and before[1] < after[0]
        for trial in trials
        for before, after in pairwise(trial.stints)
    )
    if exchanged:
        told += f" Trials came back after a pause {exchanged:,} times."
    return told


# ------------------------------------------------------------------------------------------- numbers


def _short(value: float) -> float | None:
    """None for a value that is not finite: JSON cannot express it."""
    return float(f"{value:.6g}") if isfinite(value) else None


def _setting(value: object) -> object:
    if isinstance(value, float):
        return _short(value) if isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value if not isinstance(value, bool) else ("true" if value else "false")
    return _cut(str(value))


def _cut(text: str, most: int = _TEXT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
