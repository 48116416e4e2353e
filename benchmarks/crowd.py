"""A large cluster in the middle of its life: most GPUs or all CPUs in use, thousands of jobs waiting."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dovetail.core.entries import NodeJoined, Start, Started, Submitted
from dovetail.core.model import Estimate, Interruption, Job, JobId, Node
from dovetail.core.state import State
from dovetail.models.speed import same_for_all_pairs
from dovetail.models.workload import Arrival, Going
from dovetail.policies.placement import consolidated
from dovetail.worlds.simulated import SimulatedCluster

USERS = 200
_GANGS = ((1, 0.5), (2, 0.2), (4, 0.15), (8, 0.1), (16, 0.05))
_CPUS = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # a GPU
_MEMORY_GB = (8.0, 16.0, 32.0, 64.0, 96.0)  # a GPU
_MEAN_S = 7200.0
_REFUSED = 40  # jobs in a row for which there is no place: then the cluster is full
_EARLIER_S = 36_000.0  # before the moment at which all begins


@dataclass(frozen=True)
class Crowd:
    """How large it is, and whether its jobs ask for CPUs and memory beside GPUs."""

    nodes: int
    queued: int
    asking: bool
    seed: int = 1

    def state_and_world(self, coming: int) -> tuple[State, SimulatedCluster]:
        """The state as of now, and the world that goes on from there; so many jobs are yet to come."""
        chance = Random(f"crowd/{self.seed}")
        nodes = [Node(f"n{i}", 8, cpus=32.0, memory_gb=256.0) for i in range(self.nodes)]
        state = State(5000)
        for node in nodes:
            state.record(NodeJoined(0.0, node))
        going = self._running(chance, state)
        for number in range(self.queued):
            job = _job(chance, len(going), self.asking)
            state.record(Submitted(_EARLIER_S * (0.5 + 0.5 * number / self.queued), job))
            going.append(Going(job, _left_s(job, chance)))
        state.settle()
        world = SimulatedCluster(
            nodes,
            self._coming(chance, len(going), coming, state),
            going=going,
            now=state.now,
            interference=same_for_all_pairs(0.6),
        )
        return state, world

    def _running(self, chance: Random, state: State) -> list[Going]:
        """Jobs on GPUs until there is no place for the next ones."""
        going: list[Going] = []
        refused, at = 0, 0.0
        while refused < _REFUSED:
            job = _job(chance, len(going), self.asking)
            at += 0.45 * _EARLIER_S / (2.5 * self.nodes)
            state.record(Submitted(min(at, 0.5 * _EARLIER_S), job))
            found = consolidated(state.room, state.tracks[job.id].shape)
            left_s = _left_s(job, chance)
            if found is None:
                refused += 1
                going.append(Going(job, left_s))
                continue
            refused = 0
            state.record(Start(job.id, found))
            state.record(Started(state.now, job.id))
            going.append(Going(job, left_s, has_run=True, placement=found))
        return going

    def _coming(self, chance: Random, first: int, number: int, state: State) -> list[Arrival]:
        """As many a second as end."""
        rate = len(state.running) / _MEAN_S
        at, found = state.now, []
        for i in range(first, first + number):
            at += chance.expovariate(rate)
            job = _job(chance, i, self.asking)
            found.append(Arrival(at, job, _left_s(job, chance)))
        return found


def _job(chance: Random, number: int, asking: bool) -> Job:
    gpus = chance.choices([size for size, _ in _GANGS], [weight for _, weight in _GANGS])[0]
    host = asking
    user, said_s = f"u{chance.randrange(USERS)}", _MEAN_S * chance.lognormvariate(-0.7, 1.2)
    return Job(
        JobId(f"j{number}"),
        gpus,
        user=user,
        priority=float(chance.randrange(3)),
        deadline=_EARLIER_S + chance.uniform(1.0, 8.0) * said_s,
        cpus=chance.choice(_CPUS) * gpus if host else 0.0,
        memory_gb=chance.choice(_MEMORY_GB) * gpus if host else 0.0,
        estimate=Estimate(60.0 * (said_s // 60.0 + 1.0)),
        interruption=Interruption(5.0, 10.0, 0.0),
    )


def _left_s(job: Job, chance: Random) -> float:
    """Users say more than it takes, most of them."""
    assert job.estimate is not None
    return job.estimate.seconds * chance.choice([0.1, 0.3, 0.5, 0.8, 1.0, 1.2])
