"""When a study is over, and when to check again."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Final

from dovetail.core.entries import Action, Wake
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.text.durations import duration_text
from dovetail.workloads.study.track import DONE, FAILED, STOPPED, StudyTrack, TrialTrack

# failed trials after which, if no other trial has reported, all are expected to fail
FIRST_FAILURES: Final = 3
_ROUNDING: Final = 1e-6


def why_over(study: StudyTrack, view: View) -> str:
    """The reason why the study is over; "" while it is not."""
    design, now = study.design, view.now
    if design.stop_at_target and study.reached_at >= 0 and study.best is not None:
        return f"trial {study.best[0].number} has reached the target of {design.target:g}"
    if ended := _all_ended(study):
        return ended
    if design.deadline is not None and now >= design.deadline - _ROUNDING:
        return "its deadline has come"
    if design.budget_s is not None and study.age_s(now) >= design.budget_s - _ROUNDING:
        return f"its budget of {duration_text(design.budget_s)} is spent"
    budget = design.budget_gpu_s
    if budget is not None and study.gpu_s_by(now) >= budget - _ROUNDING:
        return f"its budget of {budget / 3600:g} GPU-hours is spent"
    return _all_failed(study)


def _all_ended(study: StudyTrack) -> str:
    trials = study.trials.values()
    if len(trials) < study.design.planned or not all(trial.is_over for trial in trials):
        return ""
    return _all_failed(study) or f"{_how_many_are_done(study)}{_but_nothing_finite(study)}"


def _how_many_are_done(study: StudyTrack) -> str:
    count = Counter([trial.standing for trial in study.trials.values()])
    if count[DONE] == count.total():
        return "all trials are done"
    others = [f"{count[own]} {own}" for own in (FAILED, STOPPED) if count[own]]
    done = f"{count[DONE] or 'none'} of {count.total()} trials {'are' if count[DONE] > 1 else 'is'}"
    return f"{done} done, {', '.join(others)}"


def _but_nothing_finite(study: StudyTrack) -> str:
    """Added to the reason if values were reported and none of them was finite."""
    told = sum([len(trial.points) for trial in study.trials.values()])
    if study.best is not None or not told:
        return ""
    return (
        f"; none of them reported a finite number as {study.design.metric}: {told} values were none"
    )


def _all_failed(study: StudyTrack) -> str:
    """Did every trial that has begun fail before its first report? The others will fail, too."""
    failed = _failed_so_far(study)
    if not failed or any(trial.stints and not trial.is_over for trial in study.trials.values()):
        return ""
    if study.design.planned == 1:
        number = "its only trial"
    else:
        so_far = "" if len(failed) == study.design.planned else " that were begun"
        number = f"all {len(failed)} trials{so_far}"
    last = max(failed, key=lambda trial: trial.ended_at)
    return f"{number} failed without a report; trial {last.number}: {last.reason}"


def _failed_so_far(study: StudyTrack) -> list[TrialTrack]:
    """The failed trials, if they are enough to judge by and no other has ended or reported."""
    failed = [trial for trial in study.trials.values() if trial.standing == FAILED]
    others = [trial for trial in study.trials.values() if trial.standing != FAILED]
    if len(failed) < min(FIRST_FAILURES, study.design.planned):
        return []
    if any(trial.points for trial in failed) or any(t.points or t.is_over for t in others):
        return []
    return failed


def in_doubt_for(study: StudyTrack, now: Seconds) -> Seconds:
    """Seconds for which no further trial begins: the first ones failed, and no running trial has
    lasted longer than they did. Otherwise a broken script would fail in every trial, one by one."""
    failed = _failed_so_far(study)
    running = [trial for trial in study.trials.values() if trial.since >= 0]
    if not failed or not running:
        return 0.0
    longest = max([trial.held_by(now) for trial in failed])
    return max(longest - max([trial.held_by(now) for trial in running]), 0.0)


def next_look(study: StudyTrack, now: Seconds) -> list[Action]:
    """When the time or the GPU-hours of the study will be used up, if nothing else happens before."""
    design, at = study.design, inf
    if design.deadline is not None:
        at = design.deadline
    if design.budget_s is not None and not study.is_stopped:
        at = min(at, now + design.budget_s - study.age_s(now))
    if design.budget_gpu_s is not None:
        at = min(at, now + _lasts(study, design.budget_gpu_s - study.gpu_s_by(now)))
    if doubt_s := in_doubt_for(study, now):
        at = min(at, now + doubt_s)
    return [Wake(max(at, now))] if at < inf else []


def _lasts(study: StudyTrack, gpu_s: float) -> Seconds:
    """Seconds that so many GPU-seconds last at the present rate."""
    running = [trial for trial in study.trials.values() if trial.since >= 0]
    rate = sum([trial.stints[-1].holds for trial in running])
    return gpu_s / rate if rate else inf
