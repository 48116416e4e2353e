"""How fast jobs that share a GPU are, measured: their steps a second beside their steps a second alone.

Only what jobs report is known. A job that shares its GPUs with another is compared with itself while
nobody else was there; whoever joins it is held back for a moment until that is known. A job that never
was alone is taken to suffer as much as its neighbour. Who reports no steps has no speed: the pair is
left as it is, and that is said.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dovetail.core.model import JobId, Seconds
from dovetail.core.paces import ReportWindow, heard
from dovetail.worlds.agent import RunId

_KNOWN_WITHIN_S = 10.0  # who has not reported by then is not waited for
_NEWS = 0.05  # a smaller change of speed is none
_SLOWEST = 0.01
ALONE = "alone.json"  # in the folder of a job: steps a second while nobody else was there

log = logging.getLogger("dovetail.local")


class PairPaces:
    """`runs` is the folder of all jobs: what one does alone is kept there, for the next daemon."""

    def __init__(self, runs: Path) -> None:
        self._runs: Final = runs
        self._windows: dict[JobId, ReportWindow] = {}  # since each has its present neighbours
        self._alone: dict[JobId, float] = {}  # steps a second

    def reported(
        self, job_id: JobId, run: RunId, neighbours: frozenset[JobId], at: Seconds, step: float
    ) -> float | None:
        """The job's part of its speed alone, if these reports tell something new about it."""
        where = f"{run.number} {','.join(sorted(neighbours))}"
        window = self._windows[job_id] = heard(self._windows.get(job_id), where, at, step)
        rate = window.rate
        if rate is None:
            return None
        if not neighbours:
            self._note_alone(job_id, rate)
            return 1.0
        alone = self.alone(job_id)
        return None if alone is None else min(max(rate / alone, _SLOWEST), 1.0)

    def is_awaited(self, job_id: JobId, since: Seconds, now: Seconds) -> bool:
        """Is it worth waiting a moment longer for what the job does alone?"""
        return self.alone(job_id) is None and now - since < _KNOWN_WITHIN_S

    def alone(self, job_id: JobId) -> float | None:
        if job_id not in self._alone:
            try:
                known = json.loads((self._runs / job_id / ALONE).read_text())
                self._alone[job_id] = float(known["steps_per_s"])
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return self._alone[job_id]

    def _note_alone(self, job_id: JobId, rate: float) -> None:
        """The best that it did: it may have warmed up."""
        known = self.alone(job_id)
        if known is not None and rate <= known * (1 + _NEWS):
            return
        self._alone[job_id] = rate
        part = self._runs / job_id / f"{ALONE}.part"
        try:
            part.write_text(json.dumps({"steps_per_s": rate}))
            os.replace(part, self._runs / job_id / ALONE)
        except OSError as error:
            log.warning("job %s: its speed alone is not kept: %s", job_id, error)

    def forget(self, job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            self._windows.pop(job_id, None)
            self._alone.pop(job_id, None)


def is_news(speed: float, told: float) -> bool:
    return abs(speed - told) > _NEWS * told
