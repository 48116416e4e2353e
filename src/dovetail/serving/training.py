"""Training beside services: on every idle GPU, giving way to replicas, least loss first."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable
from math import inf
from operator import attrgetter

from dovetail.core.model import WHOLE_GPU, Job, Seconds
from dovetail.models.workload import Arrival
from dovetail.serving.engine import RequestEngine
from dovetail.serving.fleet import Fleet
from dovetail.serving.server import ServerSeat


class TrainingJob:
    """One job: what is left of it, and where it runs."""

    __slots__ = ("arrival", "ends", "gpus", "has_run", "left_s", "place", "works_from")

    def __init__(self, arrival: Arrival, place: int) -> None:
        self.arrival = arrival
        self.place = place  # in the order of submission
        self.left_s = arrival.work_s
        self.gpus: list[int] = []
        self.works_from = 0.0
        self.ends = inf
        self.has_run = False

    @property
    def job(self) -> Job:
        return self.arrival.job

    def worked_s(self, now: Seconds) -> Seconds:
        """Since it was last started."""
        return max(now - self.works_from, 0.0)


class TrainingFloor:
    """First come, first served, whoever fits; a gang is all or none. It takes GPUs that are wholly free
    and gives them up, a whole job at a time, to servers that need them."""

    def __init__(self, engine: RequestEngine, fleet: Fleet, arrivals: Iterable[Arrival]) -> None:
        self._engine = engine
        self._fleet = fleet
        self._waiting: list[TrainingJob] = []
        self._running: list[TrainingJob] = []
        self._to_come = deque(
            TrainingJob(own, place)
            for place, own in enumerate(sorted(arrivals, key=lambda own: own.at))
        )
        self.done = 0
        self.gave_way = 0
        self.trained_s = 0.0  # GPU-seconds of progress
        self.lost_s = 0.0  # GPU-seconds of saving and restoring
        self.changes: list[tuple[float, int]] = []  # when, GPUs in training

    def begin(self) -> None:
        """Times of submission count from the first request."""
        for job in self._to_come:
            self._engine.at(self._engine.began + job.arrival.at, self._submitted, job)

    def _submitted(self, job: TrainingJob) -> None:
        insort(self._waiting, job, key=attrgetter("place"))
        self.fill()

    def fill(self) -> None:
        """Whoever waits and fits starts."""
        left = []
        for job in self._waiting:
            gpus = self._room_for(job.job) if self._running_gpus() < len(self._fleet.gpus) else []
            if gpus:
                self._start(job, gpus)
            else:
                left.append(job)
        self._waiting = left

    def _room_for(self, job: Job) -> list[int]:
        """GPUs of one kind; none if there are too few."""
        fleet = self._fleet
        by_kind: dict[str, list[int]] = {}
        for gpu, room in enumerate(fleet.free):
            kind = fleet.gpus[gpu]
            if room == WHOLE_GPU and (not job.kinds or kind in job.kinds):
                by_kind.setdefault(kind, []).append(gpu)
        fitting = [gpus for gpus in by_kind.values() if len(gpus) >= job.gpus]
        return fitting[0][: job.gpus] if fitting else []

    def _start(self, job: TrainingJob, gpus: list[int]) -> None:
        restore_s = job.job.interruption.restore_s if job.has_run else 0.0
        self.lost_s += restore_s * len(gpus)
        job.gpus, job.has_run = gpus, True
        job.works_from = self._engine.now + restore_s
        job.ends = job.works_from + job.left_s
        for gpu in gpus:
            self._fleet.free[gpu] = 0
        self._running.append(job)
        self._engine.at(job.ends, self._ended, job)
        self._note()

    def _ended(self, job: TrainingJob) -> None:
        if job.ends != self._engine.now:  # it gave way meanwhile
            return
        self._leave(job)
        self.done += 1
        self.fill()

    def _leave(self, job: TrainingJob) -> None:
        """It has what it worked for; its GPUs are free."""
        worked_s = min(job.worked_s(self._engine.now), job.left_s)
        self.trained_s += worked_s * len(job.gpus)
        job.left_s -= worked_s
        # a start that did not come to work has cost no more than the time it had
        self.lost_s -= max(job.works_from - self._engine.now, 0.0) * len(job.gpus)
        job.ends = inf
        for gpu in job.gpus:
            self._fleet.free[gpu] = WHOLE_GPU
        job.gpus = []
        self._running.remove(job)
        self._note()

    # ------------------------------------------------------------------------------------ giving way

    def loss(self, seat: ServerSeat) -> float:
        """GPU-seconds that training would lose if a server got a seat now."""
        victim = self._victim(seat)
        return _loss(victim) if victim else 0.0

    def make_room(self, seat: ServerSeat) -> Seconds | None:
        """The job that loses least gives way. Returns after how long its GPUs are free, or nothing if
        no job could help."""
        victim = self._victim(seat)
        if victim is None:
            return None
        save_s, gpus = victim.job.interruption.save_s, list(victim.gpus)
        self._leave(victim)
        self.gave_way += 1
        self.lost_s += save_s * len(gpus)
        insort(self._waiting, victim, key=attrgetter("place"))
        gpus.remove(gpus[0] if seat.gpu < 0 else seat.gpu)
        for gpu in gpus:  # the others are still busy with saving
            self._fleet.free[gpu] = 0
        self._engine.at(self._engine.now + save_s, self._saved, gpus)
        return save_s

    def _saved(self, gpus: list[int]) -> None:
        for gpu in gpus:
            self._fleet.free[gpu] = WHOLE_GPU
        self.fill()

    def _victim(self, seat: ServerSeat) -> TrainingJob | None:
        able = [job for job in self._running if job.job.preemptible and self._has(job, seat)]
        return min(able, key=lambda job: (_loss(job), -job.place), default=None)

    def _has(self, job: TrainingJob, seat: ServerSeat) -> bool:
        kind = self._fleet.gpus[job.gpus[0]]
        return seat.kind in ("", kind) and (seat.gpu < 0 or seat.gpu in job.gpus)

    def close(self) -> None:
        """The run is over: progress counts to now."""
        for job in list(self._running):
            self._leave(job)

    def _running_gpus(self) -> int:
        return sum(len(job.gpus) for job in self._running)

    def _note(self) -> None:
        self.changes.append((self._engine.now, self._running_gpus()))


def _loss(job: TrainingJob) -> float:
    """All its GPUs stand still while it is saved and restored."""
    own = job.job.interruption
    return (own.save_s + own.restore_s) * len(job.gpus)
