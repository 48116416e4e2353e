"""The part of others' jobs that a caller may see: that it exists, its owner, its size and progress.

Never what it runs, is set to, prints or reports: those texts are its owner's and administrators' alone.
Every answer about jobs and studies of others comes by here; what is not listed is not shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from dovetail.api.job_row import JobDetails, JobRow
from dovetail.api.study_row import StudyPage, StudyRow, TrialRow
from dovetail.daemon.holds import PUBLIC
from dovetail.daemon.users.callers import Caller

Seen = TypeVar("Seen", bound=JobRow)
SeenStudy = TypeVar("SeenStudy", StudyRow, StudyPage)

_JOB = frozenset(
    (
        *("id", "gpus", "share", "kinds", "cpus", "memory_gb", "gpu_memory_gb", "user", "tenant"),
        *("name", "group", "model", "priority", "weight", "deadline", "min_gpus", "max_gpus"),
        *(
            "retries",
            "time_limit_s",
            "after",
            "after_any",
            "after_failed",
            "preemptible",
            "restartable",
            "member",
            "last_step",
        ),
        *("late_cost_per_s", "settles", "interruption", "estimate", "options"),
    )
)
_DESIGN = frozenset(
    (
        *("id", "name", "user", "planned", "steps", "direction", "report_every", "rule"),
        *("at_once", "deadline", "budget_s", "budget_gpu_s", "seed"),
    )
)
# Of an entry about a job or a study, besides which it is.
_OPEN = frozenset(
    (
        *("at", "on", "lost_s", "exit_code", "speed", "step", "upto", "rung", "seconds", "bytes"),
        *("parked", "unneeded", "source", "left_out"),
    )
)
_EMPTY: Mapping[str, Any] = {"reason": "", "metrics": {}, "settings": []}  # a reader expects them
_ABOUT_ALL = frozenset(
    (
        *("policy", "tenant", "limit", "occupied", "gpus-closed", "gpus-opened", "woke", "wake"),
        *("node-joined", "node-down", "node-up", "node-draining", "node-left"),
    )
)
_STUDIES = frozenset(
    ("study-stopped", "study-resumed", "study-extended", "study-cancelled", "close-study")
)


def row_for(caller: Caller, row: Seen) -> Seen:
    """A job's row, or its details."""
    if caller.may_read(row.user):
        return row
    report = row.last_report
    seen = replace(
        row,
        alike=[],
        amount=None,
        reason=row.reason if row.reason.startswith(PUBLIC) else "",
        last_report=None if report is None else replace(report, metrics={}),
    )
    if isinstance(seen, JobDetails):
        seen.spec = seen.workdir = seen.log = seen.commit = None
    return seen


def study_for(caller: Caller, study: SeenStudy) -> SeenStudy:
    """A study's row or page."""
    if caller.may_read(study.user):
        return study
    seen = replace(study, reason="", quiet=None, best=None, target=None, reached_s=None)
    if isinstance(seen, StudyPage):
        seen.metric = ""
        seen.trials = [_trial_of_another(own) for own in seen.trials]
    return seen


def _trial_of_another(trial: TrialRow) -> TrialRow:
    """Where and when it ran and how many steps it made, not what came of them."""
    return replace(trial, settings={}, reason="", value=None, best=None, points=[])


class Sight:
    """The journal as one caller may see it, line by line. Whose a job or a study is says `owner_of_job`
    or `owner_of_study`; None: nobody knows, and then it is nobody's to see."""

    def __init__(
        self,
        caller: Caller,
        owner_of_job: Callable[[str], str | None],
        owner_of_study: Callable[[str], str | None],
    ) -> None:
        self._caller: Final = caller
        self._owner_of_job: Final = owner_of_job
        self._owner_of_study: Final = owner_of_study
        self._owners: Final[dict[str, str | None]] = {}  # of jobs and studies met so far

    def line(self, line: str) -> str:
        if self._caller.admin:
            return line
        entry = json.loads(line)
        seen = self._seen(entry)
        return line if seen is entry else json.dumps(seen, separators=(",", ":"))

    def _seen(self, entry: dict[str, Any]) -> dict[str, Any]:
        tag = next(name for name in entry if name != "at")
        about = entry[tag]
        if tag in _ABOUT_ALL:
            return entry
        if isinstance(about, dict):
            self._owners[about["id"]] = owner = about.get("user", "")
            if self._caller.may_read(owner):
                return entry
            shown = _DESIGN if tag == "study-opened" else _JOB
            kept = {name: value for name, value in about.items() if name in shown}
            return {
                "at": entry["at"],
                tag: {**kept, **({"metric": ""} if shown is _DESIGN else {})},
            }
        owner_known = self._owner(tag, str(about))
        if owner_known is not None and self._caller.may_read(owner_known):
            return entry
        kept = {name: value for name, value in entry.items() if name in _OPEN or name == tag}
        return {**kept, **{name: value for name, value in _EMPTY.items() if name in entry}}

    def _owner(self, tag: str, own_id: str) -> str | None:
        if own_id not in self._owners:
            find = self._owner_of_study if tag in _STUDIES else self._owner_of_job
            self._owners[own_id] = find(own_id)
        return self._owners[own_id]
