"""The day of `service_day` in the simulator: the same requests, services, slots and training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.lines import Line
from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.models.workload import Arrival
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request, merged
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate

AWAY = 0.05  # how far the simulator may be from what was lived
WAKE_S, START_S = 0.2, 0.5  # of a replica of the live day: processes are frozen, servers are small
SWITCH_S = 0.05  # a training job that gives way, and that comes back


@dataclass(frozen=True, slots=True)
class Shares:
    """What the two days are compared by."""

    kept: dict[str, float]  # the part of each service's requests that kept the SLO
    taken: float  # the part of all slots that replicas had
    trained: float  # the part of the others that training had


@dataclass(frozen=True, slots=True)
class DayAsked:
    """What is the same in both."""

    due: dict[str, Sequence[float]]  # by service
    seconds: float
    slots: int
    jobs: int
    service_s: float
    at_once: int
    slo_s: float
    idle_s: float
    most: int = 3


def simulated(day: DayAsked) -> Shares:
    """A replica takes so many at once: in the simulator a batch that takes as long as one of them."""
    scene = ServingScene(
        services={name: _served(name, day) for name in day.due},
        nodes=[Node("slots", gpus=day.slots)],
        training=[_training(number, day) for number in range(day.jobs)],
    )
    streams = [
        [Request(at, name, at + day.slo_s) for at in times] for name, times in day.due.items()
    ]
    found = simulate(scene, "gateway", merged(streams))
    held, every = found.gpu_hours * 3600, day.slots * (found.ended - found.began)
    trained = found.floor.trained_s if found.floor is not None else 0.0
    tallies = {name: found.tally.by_service[name] for name in day.due}
    kept = {name: own.good / own.requests for name, own in tallies.items()}
    return Shares(kept, held / every, trained / (every - held))


def _served(name: str, day: DayAsked) -> ServedModel:
    return ServedModel(
        name,
        AffineLatency(day.service_s, 0.0),
        slo_s=day.slo_s,
        max_batch=day.at_once,
        most=day.most,
        idle_s=day.idle_s,
        wake_s=WAKE_S,
        start_s=START_S,
    )


def _training(number: int, day: DayAsked) -> Arrival:
    """Without end: training is for every slot, as long as the day lasts."""
    switch = Interruption(SWITCH_S, SWITCH_S)
    return Arrival(0.0, Job(JobId(str(number)), gpus=1, interruption=switch), 10 * day.seconds)


def compared(lived: Shares, told: Shares) -> Iterator[Line]:
    rows = [(f"{name} within its SLO", lived.kept[name], told.kept[name]) for name in lived.kept]
    rows.append(("slots that replicas had", lived.taken, told.taken))
    rows.append(("training had of the others", lived.trained, told.trained))
    for what, here, there in rows:
        away = abs(there - here) / here if here else 0.0
        yield Line(
            f"simulated: {what}",
            f"{there:.1%} ({away:.1%} off)",
            f"{here:.1%} live, within {AWAY:.0%}",
            away <= AWAY,
        )
