"""`gandiva`: rigid jobs of one size share sets of nodes and take turns of a minute there."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor

from benchmarks.elasticflow.replayed import NODES, PER_NODE, SLOT, TOTAL, ReplayedJob, restart_s

_SIZES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(slots=True, eq=False)
class NodeSet:
    """Nodes for jobs of one size: `room` of them run at a time."""

    size: int
    jobs: list[ReplayedJob] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return ceil(self.size / PER_NODE)

    @property
    def room(self) -> int:
        return self.nodes * PER_NODE // self.size


class BySlicesReplay:
    def __init__(self, jobs: list[ReplayedJob]) -> None:
        by_time: dict[float, list[ReplayedJob]] = {}
        for job in jobs:
            by_time.setdefault(job.submit, []).append(job)
        self.arrivals = [(when, by_time[when]) for when in sorted(by_time)]
        self.sets: dict[int, list[NodeSet]] = {size: [] for size in _SIZES}
        self.load: dict[NodeSet, int] = {}  # jobs put there; those that end are not taken off
        self.free = NODES
        self.waiting: list[ReplayedJob] = []
        self.running: list[ReplayedJob] = []
        self.done: dict[ReplayedJob, float] = {}
        self.events = 0

    def run(self) -> None:
        now, passed = self.arrivals[0][0], 0.0
        while self.arrivals or self.waiting or self.running:
            self._balance()
            freed = self._work(now, passed)
            self._arrive(now)
            if freed:
                self._try_waiting()
            after = self._next(now)
            now, passed = after, after - now

    def _arrive(self, now: float) -> None:
        if self.arrivals and self.arrivals[0][0] == now:
            for job in self.arrivals.pop(0)[1]:
                self.done[job] = 0
                (self.running if self._place(job) else self.waiting).append(job)

    def _try_waiting(self) -> None:
        """One that starts lets the next be passed over: the list shrinks under the walk."""
        i = 0
        while i < len(self.waiting):
            if self._place(self.waiting[i]):
                self.running.append(self.waiting.pop(i))
            i += 1

    def _next(self, now: float) -> float:
        if not self.arrivals:
            return now + SLOT
        of_all = self.events > 0 and self.events % SLOT == 0
        self.events += 1
        for job in self.running:
            job.overhead = restart_s(job.gpus_asked, of_all)
        soon = [row for row in self.arrivals if row[0] - now <= SLOT]
        if soon and len(self.arrivals) > 1:
            jobs = [job for _, row in soon for job in row]
            self.arrivals[: len(soon)] = [(now + SLOT, jobs)]
        return self.arrivals[0][0]

    # ------------------------------------------------------------------------------------ placing

    def _place(self, job: ReplayedJob) -> bool:
        """Where there is room to spare, else on new nodes, else with the others in turn."""
        sets = self.sets[job.gpus_asked]
        if sets:
            sets.append(sets.pop(0))
            if self.load[sets[-1]] + 1 < sets[-1].room:
                self._join(sets[-1], job, sets)
                return True
        found = self._new_set(job.gpus_asked)
        if found is None and sets:
            sets.append(sets.pop(0))
            found = sets[-1]
        if found is None:
            return False
        self._join(found, job, sets)
        return True

    def _new_set(self, size: int) -> NodeSet | None:
        found = NodeSet(size)
        if found.nodes > self.free:
            return None
        self.free -= found.nodes
        self.load[found] = 0
        self.sets[size].append(found)
        return found

    def _join(self, found: NodeSet, job: ReplayedJob, sets: list[NodeSet]) -> None:
        found.jobs.append(job)
        self.load[found] += 1
        sets.sort(key=self.load.__getitem__)

    def _balance(self) -> None:
        """Nodes to each size as it has GPUs asked for."""
        wants = {n: n * sum(len(one.jobs) for one in sets) for n, sets in self.sets.items()}
        has = {n: PER_NODE * sum(one.nodes for one in sets) for n, sets in self.sets.items()}
        for size, sets in self.sets.items():
            if not wants[size]:
                continue
            fair = min(floor(wants[size] / sum(wants.values()) * TOTAL), wants[size])
            missing = ceil((fair - has[size]) / size) if fair > has[size] else 0
            surplus = ceil((has[size] - fair) / size)
            if missing and self._expand(size, missing):
                self._share_out([job for one in sets for job in self._emptied(one)], sets)
            elif fair < has[size]:
                gone = [sets.pop(0) for _ in range(min(surplus, len(sets) - 1))]
                self.free += sum(one.nodes for one in gone)
                self._share_out([job for one in gone for job in one.jobs], sets)

    def _expand(self, size: int, missing: int) -> bool:
        """Does the program share the jobs out anew? It asks a counter that it has used twice."""
        counter = 0
        for turn in range(1, missing + 1):
            found = self._new_set(size)
            counter = turn if found is None else found.nodes - 1
        return counter > 0

    def _emptied(self, one: NodeSet) -> list[ReplayedJob]:
        jobs, one.jobs = one.jobs, []
        if jobs:
            self.load[one] = 0
        return jobs

    def _share_out(self, jobs: list[ReplayedJob], sets: list[NodeSet]) -> None:
        for job in jobs:
            self._join(sets[0], job, sets)

    # ------------------------------------------------------------------------------------- working

    def _work(self, now: float, passed: float) -> bool:
        """Jobs advance, take turns and end; did nodes become free?"""
        freed = False
        for sets in self.sets.values():
            for one in list(sets):
                self._work_in(one, now, passed)
                if not one.jobs:
                    sets.remove(one)
                    self.free += one.nodes
                    freed = True
        return freed

    def _work_in(self, one: NodeSet, now: float, passed: float) -> None:
        ended = []
        for job in one.jobs[: one.room]:
            self.done[job] += max(passed - job.overhead, 0)
            job.overhead = 0
            if self.done[job] >= job.duration:
                end = now - (self.done[job] - job.duration)
                job.finish(end, end)
                ended.append(job)
        if now % SLOT == 0 and len(one.jobs) > one.room:
            one.jobs = [*one.jobs[one.room :], *one.jobs[: one.room]]
        for job in ended:
            one.jobs.remove(job)
            self.running.remove(job)
