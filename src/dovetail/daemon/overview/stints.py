"""The stints of jobs, read from the journal: who had which GPUs, from when to when.

The journal is read as it was written, on the thread of who asks: the loop has no part in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dovetail.core.journal import placement_from
from dovetail.core.model import JobId, Placement, Seconds

# By the tag of the entry: what it makes of a job that has GPUs.
_ENDS = {
    "finished": "finished",
    "failed": "failed",
    "cancelled": "cancelled",
    "stop": "cancelled",
    "branch": "cancelled",
    "preempt": "preempted",
    "interrupted": "interrupted",
    "displaced": "interrupted",
}
_MARKS = tuple(f',"{tag}":' for tag in (*_ENDS, "start", "resize", "stayed"))


@dataclass(slots=True)
class GpuStay:
    """`since` and `until` in seconds of the journal."""

    job_id: JobId
    since: Seconds
    on: Placement
    until: Seconds | None = None
    end: str = ""


@dataclass(slots=True)
class StintBook:
    """Open and closed stints, as the lines that were read tell them."""

    open: dict[JobId, GpuStay] = field(default_factory=dict)
    closed: list[GpuStay] = field(default_factory=list)
    unknown: dict[JobId, tuple[Seconds, str]] = field(default_factory=dict)  # with no start

    def read(self, lines: Iterable[str]) -> None:
        for entry in of_stints(lines):
            self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        at, tag = entry["at"], next(name for name in entry if name != "at")
        job_id = JobId(str(entry[tag]))
        if tag in ("start", "resize") or tag == "stayed":
            self._close(job_id, at, "moved")
            self.open[job_id] = GpuStay(job_id, at, placement_from(entry["on"]))
        elif not self._close(job_id, at, _ENDS[tag]):
            self.unknown.setdefault(job_id, (at, _ENDS[tag]))

    def _close(self, job_id: JobId, at: Seconds, end: str) -> bool:
        stint = self.open.pop(job_id, None)
        if stint is None:
            return False
        stint.until, stint.end = at, end
        if at > stint.since:
            self.closed.append(stint)
        return True


def of_stints(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if any(mark in line for mark in _MARKS):
            entry = json.loads(line)
            tag = next(name for name in entry if name != "at")
            if tag in _ENDS or tag in ("start", "resize", "stayed"):
                yield entry
