"""When a study is over, and when to look again whether it is."""

from __future__ import annotations

from math import inf
from typing import Final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import Seconds
from dovetail.core.studies import DONE, FAILED, StudyTrack
from dovetail.core.view import View

FIRST_FAILURES: Final = 3  # trials in a row, from the first on, that show that none will do
_ROUNDING: Final = 1e-6


def why_over(study: StudyTrack, view: View) -> str:
    """Why the study is over; "" while it is not."""
    design, now = study.design, view.now
    if design.stop_at_target and study.reached_at >= 0 and study.best is not None:
        return f"trial {study.best[0].number} has reached the target of {design.target:g}"
    if design.deadline is not None and now >= design.deadline - _ROUNDING:
        return "its deadline has come"
    if design.budget_s is not None and study.age_s(now) >= design.budget_s - _ROUNDING:
        return f"its budget of {lasting(design.budget_s)} is spent"
    budget = design.budget_gpu_s
    if budget is not None and study.gpu_s_by(now) >= budget - _ROUNDING:
        return f"its budget of {budget / 3600:g} GPU-hours is spent"
    return _all_ended(study) or _all_failed(study)


def _all_ended(study: StudyTrack) -> str:
    trials = study.trials.values()
    if len(trials) < study.design.planned or not all(trial.is_over for trial in trials):
        return ""
    if any(trial.standing == DONE for trial in trials):
        return "all trials are done"
    return _all_failed(study) or "all trials have ended"


def _all_failed(study: StudyTrack) -> str:
    """The first few failed before they told anything: so will the others."""
    failed = [trial for trial in study.trials.values() if trial.standing == FAILED]
    if any(trial.points for trial in study.trials.values()) or not failed:
        return ""
    if len(failed) < min(FIRST_FAILURES, study.design.planned):
        return ""
    number = "its only trial" if study.design.planned == 1 else f"its first {len(failed)} trials"
    last = max(failed, key=lambda trial: trial.ended_at)
    return f"{number} failed without a report; trial {last.number}: {last.reason}"


def next_look(study: StudyTrack, now: Seconds) -> list[Action]:
    """When time or GPU-hours will be spent, if nothing else happens before."""
    design, at = study.design, inf
    if design.deadline is not None:
        at = design.deadline
    if design.budget_s is not None and not study.is_stopped:
        at = min(at, now + design.budget_s - study.age_s(now))
    if design.budget_gpu_s is not None:
        at = min(at, now + _lasts(study, design.budget_gpu_s - study.gpu_s_by(now)))
    return [Wake(max(at, now))] if at < inf else []


def _lasts(study: StudyTrack, gpu_s: float) -> Seconds:
    """For how long so many GPU-seconds last at the rate at which they are used now."""
    running = [trial for trial in study.trials.values() if trial.since >= 0]
    rate = sum([trial.stints[-1].holds for trial in running])
    return gpu_s / rate if rate else inf


def lasting(seconds: Seconds) -> str:
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"
