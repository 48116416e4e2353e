"""A study's own curves, replayed under the rules it did not run under."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, inf, isfinite
from statistics import fmean, median

from dovetail.api.study_row import StudyPage, TrialRow
from dovetail.client.study_rows import is_minimised, value_of, value_text, whole_steps
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

RULES = (
    "default", "fifo", "round-robin", "slaq", "hermes", "median-stop",
    "successive-halving:pause=true", "hyperband", "asha-stop", "asha-promote", "pasha", "pop",
    "freeze-thaw",
)  # fmt: skip
_LEFT_OUT = {
    "pbt": "which changes settings half-way",
    "hypersched": "which needs a deadline",
}
ENOUGH_S = 20.0  # of replaying; rules left then are left out, and the page says so
MOST_WORK = (
    3_000_000  # trials x trials x steps: what replaying a rule takes in seconds grows with it
)
_LEAST_STEPS = 9


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """The result of one rule. Times are in seconds, infinite for never."""

    policy: str
    own: bool  # is it the study's?
    to_target_s: float
    best_done_s: float
    best_killed: bool
    steps: int
    switches: int
    peak_suspended: int
    speedup: float = 0.0  # over fifo


@dataclass(frozen=True, slots=True)
class Others:
    """One row for each rule, the fastest first, and remarks."""

    rows: Sequence[ReplayRow] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """The study as a replay needs it: whole curves of losses, times of steps, slots."""

    curves: tuple[tuple[float, ...], ...]
    step_s: tuple[float, ...]  # of each trial's steps
    slots: int
    switch_s: float
    start_s: float  # of a trial's processes, before its first step begins
    unfinished: int
    unbegun: int
    target: float
    stride: int = 1


def others_of(study: StudyPage, rules: Sequence[str] = RULES) -> Others:
    trials, steps = len(study.trials), whole_steps(study)
    stride = ceil(trials * trials * steps / MOST_WORK)
    if stride > 1 and steps // stride < _LEAST_STEPS:
        return Others(notes=[f"{counted(trials, 'trial')} are too many to replay for a page."])
    found = recorded(study)
    if found is None:
        return Others(notes=["There are too few curves to replay under other policies."])
    own = study.policy
    found = _coarser(found, stride)
    asked = list(rules) if _is_left_out(own) else list(dict.fromkeys([own, *rules]))
    rows, failed = _replays(found, asked, own)
    fifo = next((row.to_target_s for row in rows if row.policy == "fifo"), inf)
    rows = [
        replace(row, speedup=fifo / row.to_target_s) if row.to_target_s < inf else row
        for row in rows
    ]
    rows.sort(key=lambda row: row.to_target_s)
    return Others(rows, [*_notes(study, found), *failed])


# ---------------------------------------------------------------------------- what a replay needs


def recorded(study: StudyPage) -> Recorded | None:
    """None if there are fewer than two curves."""
    sign = 1.0 if is_minimised(study) else -1.0
    steps = whole_steps(study)
    told = [_losses(trial, sign, study.report_every or 1, steps) for trial in study.trials]
    first = [loss for curve in told for loss in curve[:1] if isfinite(loss)]
    if len(told) < 2 or not first:
        return None
    # Diverged and unknown values count as worse than all first values.
    worst = max(first) + 0.5 * abs(max(first))
    curves = tuple(_whole(curve, steps, worst) for curve in told)
    switch_s = study.switch.seconds
    every = study.report_every or 1
    times = [_step_s(trial, every, switch_s) for trial in study.trials]
    known = [own for own in times if own is not None]
    usual = median(known) if known else 1.0
    step_s = tuple(usual if own is None else own for own in times)
    return Recorded(
        curves,
        step_s,
        slots=_most_at_once(study),
        switch_s=switch_s,
        start_s=_start_s(study.trials, step_s, every),
        unfinished=sum(1 for curve in told if 0 < len(curve) < steps),
        unbegun=sum(1 for curve in told if not curve),
        target=_target(study, curves, sign),
    )


def _losses(trial: TrialRow, sign: float, every: int, steps: int) -> list[float]:
    """The loss after each step, as the rule saw it."""
    from dovetail.tune.board import age_at, losses_since
    from dovetail.tune.study import bounded

    losses: list[float] = []
    for step, told, _ in trial.points:
        age = min(age_at(step, trial.points[0][0], every), steps)
        losses += losses_since(losses, age, bounded(sign * value_of(told)))
    return losses


def _whole(curve: Sequence[float], steps: int, worst: float) -> tuple[float, ...]:
    """A curve that was not seen to its end continues with its last value."""
    seen = [loss if isfinite(loss) else worst for loss in curve] or [worst]
    return (*seen, *[seen[-1]] * (steps - len(seen)))


def _step_s(trial: TrialRow, every: int, switch_s: float) -> float | None:
    """Seconds of a step, from consecutive reports of one stint; without any, from its time on a GPU."""
    begins = [begun for begun, _, _ in trial.stints]
    found = [
        (after[2] - before[2]) * every / max(after[0] - before[0], 1e-9)
        for before, after in pairwise(trial.points)
        if bisect_right(begins, before[2]) == bisect_right(begins, after[2])
    ]
    if not found and trial.points:
        until = trial.points[-1][2]
        on_gpus = [
            (until if ended is None else min(ended, until)) - begun - switch_s
            for begun, ended, _ in trial.stints
            if begun < until
        ]
        found = [sum(on_gpus) / max(trial.steps, 1)]
    return median(found) if found and median(found) > 0 else None


def _start_s(trials: Sequence[TrialRow], step_s: Sequence[float], every: int) -> float:
    """For trials that reported in their first stint: the seconds to the first report less its steps."""
    from dovetail.tune.board import age_at

    found = []
    for trial, own_s in zip(trials, step_s, strict=True):
        if trial.points and trial.stints:
            begun, ended, _ = trial.stints[0]
            step, _, at = trial.points[0]
            if ended is None or at <= ended:
                found.append(max(at - begun - age_at(step, step, every) * own_s, 0.0))
    return median(found) if found else 0.0


def _most_at_once(study: StudyPage) -> int:
    changes = [
        change
        for trial in study.trials
        for begun, ended, _ in trial.stints
        for change in ((begun, 1), (inf if ended is None else ended, -1))
    ]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return max(most, 1)


def _target(study: StudyPage, curves: Sequence[Sequence[float]], sign: float) -> float:
    """The study's own target if it was reached, else a value close to its best."""
    from dovetail.tune.replay import WITHIN
    from dovetail.tune.study import bounded

    if study.target is not None and study.reached_s is not None:
        return bounded(sign * float(study.target))
    ends = [min(curve) for curve in curves]
    return min(ends) + WITHIN * (median(ends) - min(ends))


def _coarser(found: Recorded, stride: int) -> Recorded:
    """Several steps joined into one, so that a large study can be replayed in seconds."""
    if stride <= 1:
        return found
    curves = tuple(
        tuple(min(curve[at : at + stride]) for at in range(0, len(curve), stride))
        for curve in found.curves
    )
    step_s = tuple(stride * own for own in found.step_s)
    return replace(found, curves=curves, step_s=step_s, stride=stride)


# ------------------------------------------------------------------------------------- the replays


def _replays(found: Recorded, rules: Sequence[str], own: str) -> tuple[list[ReplayRow], list[str]]:
    rows: list[ReplayRow] = []
    notes: list[str] = []
    late: list[str] = []
    until = time.monotonic() + ENOUGH_S
    for name in rules:
        if time.monotonic() > until:
            late.append(name)
            continue
        try:
            rows.append(_replayed(found, name, name == own))
        # perhaps a third party's rule: its failure must not cost the page
        except Exception as error:
            notes.append(f"{name} could not be replayed: {_sentence(error)}")
    if late:
        notes.append(f"Left out, since the replays before took long: {', '.join(late)}.")
    return rows, notes


def _sentence(error: Exception) -> str:
    if isinstance(error, ArithmeticError):
        return "it cannot calculate with values as large or as small as these."
    return " ".join(str(error).split()) or type(error).__name__


def _replayed(found: Recorded, name: str, own: bool) -> ReplayRow:
    from dovetail.tune.replay import DrawnTrials, replay
    from dovetail.tune.rules import make

    mean_s = fmean(found.step_s)
    durations = tuple((step_s / mean_s,) * len(found.curves[0]) for step_s in found.step_s)
    drawn = DrawnTrials(found.curves, durations, found.target)
    run = replay(
        make(name), drawn, slots=found.slots, switch_cost=found.switch_s / mean_s,
        start_cost=found.start_s / mean_s,
    )  # fmt: skip
    return ReplayRow(
        policy=name,
        own=own,
        to_target_s=run.to_target * mean_s,
        best_done_s=run.best_done * mean_s,
        best_killed=run.best_killed,
        steps=run.steps * found.stride,
        switches=run.switches,
        peak_suspended=run.peak_suspended,
    )


def _is_left_out(rule: str) -> bool:
    return rule.partition(":")[0] in _LEFT_OUT


def _left_out(own: str) -> str:
    told = [
        f"{name}{', the policy of this study' if own.partition(':')[0] == name else ''}, {why}"
        for name, why in _LEFT_OUT.items()
    ]
    return f"Left out: {', and '.join(told)}."


def _notes(study: StudyPage, found: Recorded) -> Iterator[str]:
    sign = 1.0 if is_minimised(study) else -1.0
    measured = _measured(study, found.target, sign)
    every = "Every row" if _is_left_out(study.policy) else "Every row, this study's own policy too,"
    yield (
        f"Time until {study.metric} was {value_text(sign * found.target)} or better. {every} "
        "is a replay of the curves recorded here, in the order of "
        f"the trials' numbers, on {counted(found.slots, 'slot')}, with the measured time of each "
        f"trial's steps, {found.start_s:.2g} s for the start of a trial and {found.switch_s:.2g} s "
        "for a switch; nothing else ran beside it."
        + (f" Measured here: {duration_text(measured)}." if measured is not None else "")
    )
    if found.unfinished or found.unbegun:
        yield (
            f"{counted(found.unfinished, 'trial')} of {len(found.curves)} were not trained to the "
            f"end here, and {found.unbegun} never began. In the replays the curve of the former "
            "goes on at its last value, and the latter never get better than the worst beginning. "
            "A policy that would have trained them further might have found something better: the "
            "figures say what finding this best would have cost, not what else there was to find."
        )
    if found.stride > 1:
        yield f"To keep this page quick, {found.stride} steps are replayed as one."
    yield _left_out(study.policy)


def _measured(study: StudyPage, target: float, sign: float) -> float | None:
    """When the value was really reported, since the first trial got a slot: replays do not queue
    either."""
    begun = min((stint[0] for trial in study.trials for stint in trial.stints), default=0.0)
    return min(
        (
            at - begun
            for trial in study.trials
            for _, told, at in trial.points
            if sign * value_of(told) <= target
        ),
        default=None,
    )
