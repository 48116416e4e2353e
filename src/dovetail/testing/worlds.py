"""Jobs, nodes, arrivals and placements in one short call each; and worlds: a cluster, its jobs and its
troubles, made by hand or by chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any

from dovetail.core.entries import (
    GpusClosed,
    GpusOpened,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
)
from dovetail.core.loop import Policy
from dovetail.core.model import (
    WHOLE_GPU,
    Interruption,
    Job,
    JobId,
    Node,
    Option,
    Placement,
    Seconds,
    Slice,
    Tenant,
)
from dovetail.models.failures import NodeFailures
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import HistoryMean, Predictor, UserEstimate
from dovetail.worlds.simulated import Interference, NodeEvent, SimulatedCluster, Speed


def job(job_id: str = "j", gpus: int = 1, **rest: Any) -> Job:
    return Job(JobId(job_id), gpus, **rest)


def arrival(
    job_id: str,
    at: Seconds = 0.0,
    work_s: Seconds = 10.0,
    gpus: int = 1,
    *,
    failures: tuple[Seconds, ...] = (),
    cancel_at: Seconds | None = None,
    cancel_after_s: Seconds | None = None,
    **rest: Any,
) -> Arrival:
    """A job and its truth; everything else is a field of the job."""
    own = job(job_id, gpus, **rest)
    return Arrival(at, own, work_s, failures, cancel_at, cancel_after_s)


def nodes(number: int, gpus: int, **rest: Any) -> tuple[Node, ...]:
    """Equal nodes n0, n1, …"""
    return tuple(Node(f"n{i}", gpus, **rest) for i in range(number))


def placement(*pieces: tuple[int, int], share: int = WHOLE_GPU) -> Placement:
    """From pairs of a node's number and a mask of its GPUs."""
    return Placement(tuple(Slice(node, mask) for node, mask in pieces), share)


@dataclass(frozen=True)
class World:
    """A trace and the cluster it runs on."""

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    node_events: Sequence[NodeEvent] = ()
    speed: Speed | None = None
    interference: Interference | None = None
    failures: NodeFailures | None = None

    def cluster(self) -> SimulatedCluster:
        return SimulatedCluster(
            self.nodes,
            self.arrivals,
            tenants=self.tenants,
            node_events=self.node_events,
            failures=self.failures,
            speed=self.speed,
            interference=self.interference,
        )

    def durations(self) -> dict[JobId, Seconds]:
        return {arrival.job.id: arrival.work_s for arrival in self.arrivals}


def knowledge(world: World) -> Knowledge:
    """Everything a policy may be told of this world, the truth included."""
    guesses: dict[str, Predictor] = {
        "history-mean": HistoryMean(10.0),
        "user-estimate": UserEstimate(10.0),
    }
    services = tuple(sorted(a.work_s * a.job.gpus for a in world.arrivals))
    facts = {"durations": world.durations(), "seed": 0}
    return Knowledge(guesses, "oracle", services, facts=facts)


def policy_for(world: World, text: str, place: str = "consolidated") -> Policy:
    return make(text, PLACEMENTS[place], knowledge(world))


def random_world(chance: Random, most_jobs: int = 14) -> World:
    """A small world with a little of everything in it; every job can end in it."""
    quotas = chance.random() < 0.3
    tenants = [Tenant("a", chance.choice([2.0, 4.0, inf])), Tenant("b", 8.0)] if quotas else []
    cluster = [_random_node(chance, i) for i in range(chance.choice([1, 2, 2, 3]))]
    arrivals = [
        _random_arrival(chance, i) for i in range(chance.choice([most_jobs, most_jobs // 2, 3, 2]))
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    events = random_node_events(chance, cluster, 0.75, [0.0, 2.0, 10.0, 31.0], Node("late", 4))
    if chance.random() < 0.8:
        return World(arrivals, cluster, tenants, events)
    speed = by_kind_and_placement({"old": 0.5}, across_nodes=0.8, across_racks=0.9)
    pairs = same_for_all_pairs(chance.choice([0.4, 0.6]))
    return World(arrivals, cluster, tenants, events, speed, pairs)


def world_of_options(chance: Random, most_jobs: int = 8) -> World:
    """A small world in which every job was timed on several kinds and numbers of GPUs."""
    cluster = [
        Node(f"n{i}", gpus, kind)
        for i, (gpus, kind) in enumerate([(4, "new"), (2, "old"), (4, "new")])
    ]
    arrivals = [_timed_arrival(chance, i) for i in range(chance.randint(1, most_jobs))]
    arrivals.sort(key=lambda arrival: arrival.at)
    return World(arrivals, cluster, speed=by_kind_and_placement({}))


def crowded_world(chance: Random, jobs: int = 14) -> World:
    """Many jobs for a few GPUs, of users with different weights: who goes first matters all the time."""
    cost = chance.choice([Interruption(), Interruption(1.0, 0.5, 0.0)])
    arrivals = [
        Arrival(
            chance.choice([0.0, 0.0, 3.0, 10.0, 20.0, 45.0, 60.0]),
            Job(
                JobId(f"j{i}"),
                gpus=chance.choice([1, 1, 1, 2, 2, 4]),
                cpus=chance.choice([0.0, 0.0, 0.0, 0.0, 0.7, 1.3]),
                user=chance.choice("uvw"),
                priority=chance.choice([0.0, 1.0]),
                weight=chance.choice([1.0, 2.0]),
                interruption=cost,
            ),
            chance.choice([20.0, 40.0, 90.0, 150.0]),
        )
        for i in range(jobs)
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    return World(arrivals, [Node(f"n{i}", 4) for i in range(chance.choice([1, 2]))])


def over_nodes(world: World, chance: Random) -> World:
    """The same, where most jobs say on how many nodes they are to run; every job can end in it still,
    if only by being refused."""
    arrivals = [
        replace(came, job=_over_nodes(came.job, chance)) if chance.random() < 0.7 else came
        for came in world.arrivals
    ]
    return replace(world, arrivals=arrivals)


def _over_nodes(job: Job, chance: Random) -> Job:
    sizes = [job.gpus, *[option.gpus for option in job.options]]
    fitting = [n for n in (1, 2, 2, 3, 4) if all(size % n == 0 for size in sizes)]
    return replace(job, nodes=chance.choice(fitting))


def with_elastic_jobs(world: World, chance: Random) -> World:
    """The same, where most jobs have a range of GPUs and a deadline, and kinds of GPUs differ in speed;
    every job can end in it still, if only by being refused."""
    arrivals = [replace(came, job=_stretched(came, chance)) for came in world.arrivals]
    if world.speed is not None:
        return replace(world, arrivals=arrivals)
    cluster = [replace(node, kind=chance.choice([node.kind, "old", "new"])) for node in world.nodes]
    kinds = {kind: chance.choice([1.0, 0.5, 0.3, 2.0]) for kind in ("old", "new")}
    speed = by_kind_and_placement(kinds, across_nodes=chance.choice([1.0, 0.8]))
    return replace(world, arrivals=arrivals, nodes=cluster, speed=speed)


def _stretched(came: Arrival, chance: Random) -> Job:
    job = came.job
    if chance.random() < 0.7:
        slack = chance.choice([0.5, 1.0, 1.5, 3.0, 10.0])
        job = replace(job, deadline=max(came.at + slack * came.work_s, 0.0))
    if chance.random() < 0.3 or not job.gpus or job.share != WHOLE_GPU or job.options:
        return job
    each = max(job.nodes, 1)
    least = chance.choice([job.gpus, *range(each, job.gpus + 1, each)])
    most = job.gpus + each * chance.choice([0, 1, 2, 3, 8])
    return replace(
        job,
        min_gpus=chance.choice([None, least]),
        max_gpus=chance.choice([None, most]),
        interruption=chance.choice([job.interruption, Interruption(1.0, 2.0, 0.0)]),
    )


def _timed_arrival(chance: Random, number: int) -> Arrival:
    at, seconds = chance.choice([0.0, 0.0, 3.0, 40.0]), chance.choice([10.0, 20.0, 33.3, 60.0])
    options = [Option("new", 1, seconds), Option("old", 1, 2.3 * seconds)]
    for gpus in (2, 4):
        if chance.random() < 0.7:
            options.append(Option("new", gpus, seconds / gpus**0.5))
    asked = Job(
        JobId(f"j{number}"),
        kinds=("new", "old"),
        deadline=chance.choice([None, at + seconds, at + 3 * seconds]),
        late_cost_per_s=chance.choice([None, 0.001, 0.002]),
        options=tuple(options),
    )
    return Arrival(at, asked, seconds)


def _random_node(chance: Random, number: int) -> Node:
    gpus = chance.choice([4, 8, 4, 2])
    return Node(
        f"n{number}",
        gpus,
        kind=chance.choice(["gpu", "gpu", "gpu", "old"]),
        cpus=chance.choice([inf, 4.0 * gpus]),
        memory_gb=chance.choice([inf, 10.0 * gpus]),
        rack=chance.choice(["", "r1"]),
        island=chance.choice([0, 1]),
        tenant=chance.choice(["", "", "", "", "", "", "a"]),
    )


def _random_arrival(chance: Random, number: int) -> Arrival:
    at = chance.choice([0.0, 0.0, 1.0, 2.0, 5.0, 12.5, 30.0, 200.0])
    work_s = chance.choice([10.0, 20.0, 0.0, 1.0, 5.0, 33.3, 100.0])
    asked = Job(
        JobId(f"j{number}"),
        user=chance.choice(["", "u", "v"]),
        tenant=chance.choice(["", "a", "b"]),
        priority=chance.choice([0.0, 0.0, 1.0, -2.0]),
        deadline=chance.choice([None, at + 2 * work_s, at]),
        **_random_size(chance),
    )
    if chance.random() < 0.2:
        return Arrival(at, asked, work_s, cancel_at=at + chance.choice([0.0, 3.0, 40.0]))
    if chance.random() < 0.2:
        asked = replace(asked, retries=chance.randint(0, 2))
        return Arrival(at, asked, work_s, (chance.choice([0.0, 2.0, 20.0]), 3.0))
    if chance.random() < 0.4:
        lost_s = chance.choice([inf, 0.0, 4.0])
        return Arrival(at, replace(asked, interruption=Interruption(1.0, 0.5, lost_s)), work_s)
    return Arrival(at, asked, work_s)


def _random_size(chance: Random) -> dict[str, Any]:
    kind = chance.random()
    if kind < 0.6:
        return {"gpus": chance.choice([1, 2, 4, 3, 4, 8, 2, 16])}
    if kind < 0.7:
        return {
            "gpus": chance.choice([1, 2]),
            "kinds": chance.choice([("gpu",), ("old",), ("old", "gpu")]),
        }
    if kind < 0.85:
        return {"share": chance.choice([500, 250, 700])}
    if kind < 0.95:
        gpus = chance.choice([1, 2, 5])
        return {"gpus": gpus, "cpus": chance.choice([4.0, 3.3]) * gpus, "memory_gb": 2.0 * gpus}
    return {"gpus": 0, "cpus": 2.0}


def random_node_events(
    chance: Random,
    cluster: Sequence[Node],
    spared: float,
    times: Sequence[Seconds],
    late: Node,
    since: Seconds = 0.0,
) -> list[NodeEvent]:
    """Nodes go and come; each that goes comes back or leaves, so that no job waits for ever."""
    events: list[NodeEvent] = []
    for node in cluster:
        if chance.random() < spared:
            continue
        at = since + chance.choice(times)
        fails = chance.random() < 0.5
        events.append(NodeDown(at, node.id) if fails else NodeDraining(at, node.id))
        back = at + chance.choice([0.0, 7.0, 50.0])
        leaves = chance.random() < 0.3
        events.append(NodeLeft(back, node.id) if leaves else NodeUp(back, node.id))
    if chance.random() < 0.2:
        events.append(NodeJoined(since + chance.choice([0.0, 6.0]), late))
    return [*events, *_random_closings(cluster, events, times, since)]


def _random_closings(
    cluster: Sequence[Node], events: Sequence[NodeEvent], times: Sequence[Seconds], since: Seconds
) -> Iterator[NodeEvent]:
    """On nodes that stay, some GPUs are closed for a while. By a chance of its own: the rest of a world
    is the same as without."""
    chance = Random(f"{cluster}{len(events)}")
    going = {event.node_id for event in events if not isinstance(event, NodeJoined)}
    for node in cluster:
        if node.id in going or not node.gpus or chance.random() < 0.7:
            continue
        mask = chance.randrange(1, 1 << node.gpus)
        at = since + chance.choice(times)
        yield GpusClosed(at, node.id, mask, "for a while", False)
        yield GpusOpened(at + chance.choice([0.0, 7.0, 50.0]), node.id, mask)
