"""Who gets how many GPUs at which power, under a cap: our reading of PowerFlow.

Every job begins in the way that needs the least energy. While the caps allow it, the one step of one
job, to the next number of GPUs or the next power, is taken that saves most time for its joules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from dovetail.core.model import Seconds


class PowerWay(NamedTuple):
    """So many GPUs of a kind under a power limit (0: none): how fast, and what they draw in all."""

    kind: str
    gpus: int
    limit: int
    rate: float  # work a second
    watts: float


Ladder: TypeAlias = Sequence[Sequence[PowerWay]]  # by number of GPUs, then by power, both ascending


@dataclass(frozen=True, slots=True)
class PowerCaps:
    """Watts drawn at once, and joules until all are done; below 0: no cap."""

    watts: float = -1.0
    joules: float = -1.0


@dataclass(frozen=True, slots=True)
class PowerJob:
    """One that wants GPUs: the work it has left, and its ways."""

    work: float
    ladder: Ladder

    def seconds(self, way: PowerWay) -> Seconds:
        return self.work / way.rate if way.rate > 0 else inf

    def joules(self, way: PowerWay) -> float:
        return way.watts * self.seconds(way) if way.watts else 0.0


@dataclass(slots=True)
class _Draft:
    """Ways taken so far, and what is left."""

    jobs: Sequence[PowerJob]
    gpus: dict[str, int]  # by kind
    caps: PowerCaps
    taken: list[tuple[int, int] | None] = field(default_factory=list)
    watts: float = 0.0
    joules: float = 0.0

    def way(self, number: int) -> PowerWay | None:
        at = self.taken[number]
        return None if at is None else self.jobs[number].ladder[at[0]][at[1]]

    def fits(self, number: int, way: PowerWay) -> bool:
        now = self.way(number)
        gpus, watts, joules = self._more(number, now, way)
        caps = self.caps
        return (
            gpus <= self.gpus.get(way.kind, 0)
            and (caps.watts < 0 or self.watts + watts <= caps.watts)
            and (caps.joules < 0 or self.joules + joules <= caps.joules)
        )

    def take(self, number: int, at: tuple[int, int]) -> None:
        job = self.jobs[number]
        way = job.ladder[at[0]][at[1]]
        gpus, watts, joules = self._more(number, self.way(number), way)
        self.gpus[way.kind] -= gpus
        self.watts += watts
        self.joules += joules
        self.taken[number] = at

    def _more(self, number: int, now: PowerWay | None, then: PowerWay) -> tuple[int, float, float]:
        job = self.jobs[number]
        if now is None:
            return then.gpus, then.watts, job.joules(then)
        return then.gpus - now.gpus, then.watts - now.watts, job.joules(then) - job.joules(now)


def shared_out(
    jobs: Sequence[PowerJob], gpus: Mapping[str, int], caps: PowerCaps
) -> list[PowerWay | None]:
    """The way of each job; None: it waits. In the order of the jobs, as long as there is room."""
    draft = _Draft(jobs, dict(gpus), caps, [None] * len(jobs))
    for number, job in enumerate(jobs):
        for at in _by_energy(job):
            if draft.fits(number, job.ladder[at[0]][at[1]]):
                draft.take(number, at)
                break
    while best := max(_steps(draft), default=None):
        draft.take(best[1], best[2])
    return [draft.way(number) for number in range(len(jobs))]


def _by_energy(job: PowerJob) -> list[tuple[int, int]]:
    """Its ways, the one of least energy first; of equals the smallest."""
    found = [
        (job.joules(way), i, k)
        for i, ways in enumerate(job.ladder)
        for k, way in enumerate(ways)
        if way.rate > 0
    ]
    return [(i, k) for _, i, k in sorted(found)]


def _steps(draft: _Draft) -> Iterator[tuple[float, int, tuple[int, int]]]:
    """Each step that saves time and is allowed: seconds saved for each joule, the job, the way."""
    for number, at in enumerate(draft.taken):
        job, now = draft.jobs[number], draft.way(number)
        if at is None or now is None:
            continue
        for i, k in ((at[0] + 1, at[1]), (at[0], at[1] + 1)):
            if i < len(job.ladder) and k < len(job.ladder[i]):
                way = job.ladder[i][k]
                saves = job.seconds(now) - job.seconds(way)
                if saves > 0 and draft.fits(number, way):
                    costs = job.joules(way) - job.joules(now)
                    yield (saves / costs if costs > 0 else inf), number, (i, k)
