"""Trials that hold a slot and get nowhere, as far as anybody can tell: a script that hangs, or one that
never reports the metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from dovetail.core.model import Seconds
from dovetail.workloads.study.track import StudyTrack, TrialTrack

UNHEARD_S: Final = 60.0  # in a slot, while no trial of the study has reported anything
LEAST_S: Final = 30.0
TIMES_USUAL: Final = 20.0  # the time of a step
TIMES_LONGEST: Final = 2.0  # the longest there was: a start, or a long evaluation


def quiet_in(
    study: StudyTrack, now: Seconds, told: Mapping[int, Sequence[str]]
) -> dict[str, Any] | None:
    """The running trials from which nothing has come for too long; None if there are none. `told`:
    by trial, what else than the metric it has reported."""
    running = [trial for trial in study.trials.values() if trial.since >= 0]
    silent = {trial.number: now - _last_sign(trial) for trial in running}
    if max(silent.values(), default=0.0) < LEAST_S:
        return None
    gaps = list(_gaps(study))
    usual = median(gaps) if gaps else None
    if usual is None:
        enough = UNHEARD_S
        silent = {trial.number: trial.held_by(now) for trial in running}
    else:
        enough = max(LEAST_S, TIMES_USUAL * usual, TIMES_LONGEST * max(gaps))
    late = [number for number, seconds in silent.items() if seconds >= enough]
    if not late:
        return None
    late.sort(key=silent.__getitem__, reverse=True)
    return {
        "trials": late,
        "job": study.trials[late[0]].job,
        "seconds": silent[late[0]],
        "usual_s": usual,
        "told": list(told.get(late[0], ())),
    }


def _last_sign(trial: TrialTrack) -> Seconds:
    return max(trial.since, trial.points[-1].at) if trial.points else trial.since


def _gaps(study: StudyTrack) -> Iterator[Seconds]:
    """How long each report took: since the one before, or since the trial had its slot again."""
    for trial in study.trials.values():
        begins = iter(trial.stints)
        stint = next(begins, None)
        since = before = -1.0
        for point in trial.points:
            while stint is not None and stint.since < point.at:
                since, stint = stint.since, next(begins, None)
            if since >= 0:  # else it is of a stage that another trial made
                yield point.at - max(since, before)
            before = point.at
