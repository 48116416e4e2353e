"""`dlas-gpu`: Tiresias' queues as ElasticFlow's program has them; rigid jobs that pay for each start."""

from __future__ import annotations

from math import ceil, inf

from benchmarks.elasticflow.replayed import SLOT, TOTAL, ReplayedJob, restart_s

_LIMITS = (3250, 7200)  # GPU-seconds


class ByQueuesReplay:
    def __init__(self, jobs: list[ReplayedJob]) -> None:
        by_time: dict[float, list[ReplayedJob]] = {}
        for job in jobs:
            by_time.setdefault(job.submit, []).append(job)
        self.arrivals = [(when, by_time[when]) for when in sorted(by_time)]
        self.queues: list[list[ReplayedJob]] = [[], [], []]
        self.inside: list[ReplayedJob] = []
        self.done: dict[ReplayedJob, int] = {}
        self.running: set[ReplayedJob] = set()
        self.ending: tuple[float, list[ReplayedJob]] = (inf, [])
        self.sinks = inf  # when a job falls into the next queue
        self.events = 0

    def run(self) -> None:
        before = 0.0
        while self.arrivals or self.inside:
            arrival = self.arrivals[0][0] if self.arrivals else inf
            now = min(arrival, self.ending[0], self.sinks)
            if self.sinks >= min(arrival, self.ending[0]):
                self._end(now)
                self._arrive(now)
            self._advance(now - before)
            self._choose()
            self._look_ahead(now)
            before = now

    def _end(self, now: float) -> None:
        if self.ending[0] == now:
            for job in self.ending[1]:
                job.finish(job.end, job.end)
                self.inside.remove(job)
                self.running.discard(job)
                self.queues[self._queue(job)].remove(job)

    def _arrive(self, now: float) -> None:
        if self.arrivals and self.arrivals[0][0] == now:
            for job in self.arrivals.pop(0)[1]:
                self.inside.append(job)
                self.queues[0].append(job)
                self.done[job] = 0

    def _queue(self, job: ReplayedJob) -> int:
        return next(i for i, queue in enumerate(self.queues) if job in queue)

    def _advance(self, passed: float) -> None:
        for job in self.inside:
            if job not in self.running:
                continue
            self.done[job] += int(max(passed - job.overhead, 0))
            job.overhead = 0
            own = self._queue(job)
            if own < len(_LIMITS) and self.done[job] * job.gpus_asked >= _LIMITS[own]:
                self.queues[own].remove(job)
                self.queues[own + 1].append(job)

    def _choose(self) -> None:
        """Who fits runs, queue by queue; who does not waits behind the others of its queue."""
        free, of_all = TOTAL, self._restart_of_all()
        for queue in self.queues:
            for job in queue:
                if free < job.gpus_asked:
                    self.running.discard(job)
                    continue
                free -= job.gpus_asked
                if job not in self.running:
                    self.running.add(job)
                    job.overhead = restart_s(job.gpus_asked, of_all)
        for queue in self.queues:
            queue.sort(key=lambda job: job not in self.running)
        self.inside.sort(key=lambda job: -job.gpus_asked)

    def _restart_of_all(self) -> bool:
        return self.events > 0 and self.events % SLOT == 0

    def _look_ahead(self, now: float) -> None:
        of_all, self.ending, self.sinks = self._restart_of_all(), (inf, []), inf
        self.events += 1
        for job in [job for job in self.inside if job in self.running]:
            left: float = job.duration - self.done[job]
            if of_all:
                job.overhead = restart_s(job.gpus_asked, of_all)
                left += job.overhead
            self._may_end_first(job, now, int(now + left))
            own = self._queue(job)
            if own < len(_LIMITS):
                sinks = ceil((_LIMITS[own] - self.done[job]) / job.gpus_asked)
                self.sinks = min(self.sinks, now + sinks)
        self.sinks = max(self.sinks, now + SLOT)
        self._put_together(now)

    def _may_end_first(self, job: ReplayedJob, now: float, end: float) -> None:
        """Nobody ends sooner than a slot from now, and only the first end is looked for."""
        seen = max(now + SLOT, end)
        if seen < self.ending[0]:
            self.ending = (seen, [])
        if seen == self.ending[0]:
            self.ending[1].append(job)
            job.end = end

    def _put_together(self, now: float) -> None:
        soon = [row for row in self.arrivals if row[0] - now <= SLOT]
        if soon and len(self.arrivals) > 1:
            jobs = [job for _, row in soon for job in row]
            self.arrivals[: len(soon)] = [(now + SLOT, jobs)]
