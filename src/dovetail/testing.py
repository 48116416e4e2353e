"""For tests of Dovetail and of what extends it: builders, worlds made by chance, and the contract
that every policy keeps.

A policy of your own is tested in one line: `check_policy(lambda: MyPolicy())`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Any, Final, TypeAlias, TypeGuard, final

from dovetail.backends.simulated import Interference, NodeEvent, SimulatedCluster, Speed
from dovetail.core.entries import (
    Action,
    Cancelled,
    Displaced,
    Event,
    Failed,
    Finished,
    Interrupted,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Preempt,
    Refuse,
    Resize,
    Start,
    Stayed,
    Stop,
    Submitted,
    TenantSet,
    Wake,
)
from dovetail.core.journal import JournalWriter, read
from dovetail.core.loop import Backend, Policy, run
from dovetail.core.model import (
    WHOLE_GPU,
    Interruption,
    Job,
    JobId,
    Node,
    Placement,
    Seconds,
    Slice,
    Tenant,
)
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, View
from dovetail.models.speed import by_kind_and_placement, same_for_all_pairs
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import HistoryMean, NoisyOracle, Oracle, Predictor, UserEstimate

MakePolicy: TypeAlias = Callable[[], Policy]
_ROUNDING = 1e-6  # sums of floats in another order may differ by that much

# ---------------------------------------------------------------------------------------- builders


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
    **rest: Any,
) -> Arrival:
    """A job and its truth; everything else is a field of the job."""
    return Arrival(at, job(job_id, gpus, **rest), work_s, failures, cancel_at)


def nodes(number: int, gpus: int, **rest: Any) -> tuple[Node, ...]:
    """Equal nodes n0, n1, …"""
    return tuple(Node(f"n{i}", gpus, **rest) for i in range(number))


def placement(*pieces: tuple[int, int], share: int = WHOLE_GPU) -> Placement:
    """From pairs of a node's number and a mask of its GPUs."""
    return Placement(tuple(Slice(node, mask) for node, mask in pieces), share)


# -------------------------------------------------------------------------------------------- worlds


@dataclass(frozen=True)
class World:
    """A trace and the cluster it runs on."""

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    node_events: Sequence[NodeEvent] = ()
    speed: Speed | None = None
    interference: Interference | None = None

    def cluster(self) -> SimulatedCluster:
        return SimulatedCluster(
            self.nodes,
            self.arrivals,
            tenants=self.tenants,
            node_events=self.node_events,
            speed=self.speed,
            interference=self.interference,
        )

    def durations(self) -> dict[JobId, Seconds]:
        return {arrival.job.id: arrival.work_s for arrival in self.arrivals}


def knowledge(world: World) -> Knowledge:
    """Everything a policy may be told of this world, the truth included."""
    durations = world.durations()
    predictors: dict[str, Predictor] = {
        "oracle": Oracle(durations),
        "noisy-oracle": NoisyOracle(durations),
        "history-mean": HistoryMean(10.0),
        "user-estimate": UserEstimate(10.0),
    }
    services = tuple(sorted(a.work_s * a.job.gpus for a in world.arrivals))
    return Knowledge(predictors, "oracle", services)


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
    events = _random_node_events(chance, cluster)
    if chance.random() < 0.8:
        return World(arrivals, cluster, tenants, events)
    speed = by_kind_and_placement({"old": 0.5}, across_nodes=0.8, across_racks=0.9)
    pairs = same_for_all_pairs(chance.choice([0.4, 0.6]))
    return World(arrivals, cluster, tenants, events, speed, pairs)


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


def _random_node_events(chance: Random, cluster: Sequence[Node]) -> list[NodeEvent]:
    """Nodes go and come; each that goes comes back or leaves, so that no job waits for ever."""
    events: list[NodeEvent] = []
    for node in cluster:
        if chance.random() < 0.75:
            continue
        at = chance.choice([0.0, 2.0, 10.0, 31.0])
        fails = chance.random() < 0.5
        events.append(NodeDown(at, node.id) if fails else NodeDraining(at, node.id))
        back = at + chance.choice([0.0, 7.0, 50.0])
        leaves = chance.random() < 0.3
        events.append(NodeLeft(back, node.id) if leaves else NodeUp(back, node.id))
    if chance.random() < 0.2:
        events.append(NodeJoined(chance.choice([0.0, 6.0]), Node("late", 4)))
    return events


# ---------------------------------------------------------------------------------------------- runs


@final
class Ends:
    """An index that keeps the tracks of jobs that have ended."""

    def __init__(self) -> None:
        self.watches = ENDS
        self.tracks: dict[JobId, Track] = {}

    def build(self, view: View) -> Ends:
        return self

    def waits(self, track: Track) -> None:
        """Only ends are kept."""

    def runs(self, track: Track) -> None:
        """Only ends are kept."""

    def ends(self, track: Track) -> None:
        assert track.job.id not in self.tracks, f"job {track.job.id!r} ends twice"
        self.tracks[track.job.id] = track

    def settle(self) -> None:
        """Nothing is ever tried out."""


@dataclass(frozen=True)
class Run:
    """What a run leaves behind: the state, the journal, and the track of every job that ended."""

    state: State = field(default_factory=State)
    entries: list[tuple[Seconds, JournalEntry]] = field(default_factory=list)
    ended: dict[JobId, Track] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The journal as it would be written."""
        pieces: list[str] = []
        writer = JournalWriter(pieces.append)
        for at, entry in self.entries:
            writer.add(entry, at)
        writer.flush()
        return "".join(pieces)

    @property
    def ends_at(self) -> Mapping[str, Seconds]:
        return {job_id: track.ended_at for job_id, track in self.ended.items()}

    @property
    def first_starts(self) -> Mapping[str, Seconds]:
        return {job_id: track.first_start_at for job_id, track in self.ended.items()}

    def phase(self, job_id: str) -> Phase:
        return self.ended[JobId(job_id)].phase

    def of(self, kind: type[Any]) -> list[Any]:
        """The journal's entries of one kind."""
        return [entry for _, entry in self.entries if type(entry) is kind]


def run_world(world: World, policy: Policy) -> Run:
    """Run to the end of the world, keeping everything."""
    return _go_on(world.cluster(), policy, Run())


def run_trace(
    policy: Policy | str,
    arrivals: Sequence[Arrival],
    cluster: Sequence[Node],
    *,
    place: str = "consolidated",
    **rest: Any,
) -> Run:
    """The same from its parts; the policy may be a text such as `las:quantum=10`."""
    world = World(arrivals, cluster, **rest)
    return run_world(world, policy_for(world, policy, place) if isinstance(policy, str) else policy)


def _go_on(backend: Backend, policy: Policy, so_far: Run) -> Run:
    ends = Ends()
    ends.tracks = so_far.ended
    so_far.state.index(ends)
    run(backend, [policy], so_far.state, lambda entry, at: so_far.entries.append((at, entry)))
    return so_far


@final
class Paused:
    """A world that stops telling after some turns, and can be taken up again later."""

    def __init__(self, backend: Backend, turns: int) -> None:
        self._backend: Final = backend
        self._left = turns

    def observe(self) -> Sequence[Event]:
        self._left -= 1
        return self._backend.observe() if self._left >= 0 else ()

    def act(self, action: Action) -> None:
        self._backend.act(action)


def run_with_restart(world: World, make_policy: MakePolicy, turns: int) -> Run:
    """Crash after so many turns: the state is rebuilt from the journal, the policy starts afresh, and
    the wake-up that was asked for is forgotten."""
    backend = world.cluster()
    before = _go_on(Paused(backend, turns), make_policy(), Run())
    backend.act(Wake(inf))
    after = Run(replay(before.text.splitlines()), before.entries, before.ended)
    return _go_on(backend, make_policy(), after)


def replay(lines: Iterable[str]) -> State:
    """The state that a journal's text leads to."""
    state = State()
    for entry in read(lines):
        state.record(entry)
    return state


# --------------------------------------------------------------------------------------- fingerprint


def fingerprint(view: View) -> dict[str, Any]:
    """Everything that a view holds, as plain values: equal fingerprints, equal states."""
    room = view.room
    return {
        "now": view.now,
        "tracks": [_track_values(track) for track in view.tracks.values()],
        "running": list(view.running),
        "ended": dict(view.ended),
        "unplaceable": dict(view.unplaceable),
        "counts": (view.waiting_count, view.suspended_count, view.peak_suspended),
        "shapes": [(str(shape), shape.lane, why) for shape, why in view.shapes],
        "capacity": list(view.capacity),
        "nodes": list(room.nodes),
        "free": list(room.free),
        "shares": dict(room.shares),
        "cpus": [round(cpus, 6) for cpus in room.cpus],
        "memory_gb": [round(memory_gb, 6) for memory_gb in room.memory_gb],
        "open": list(room.open),
        "down": set(room.down),
        "gone": set(room.gone),
        "gpus_up": room.gpus_up,
        "tenants": dict(room.tenants),
        "held": {name: round(gpus, 6) for name, gpus in room.held.items()},
        "pools": [(p.kind, p.tenant, p.width, p.free, list(p.by_count)) for p in room.pools],
    }


_TRACK_FIELDS = (
    *("job", "sequence", "submitted_at", "phase", "waiting_since", "ticket", "placement", "holds"),
    *("first_start_at", "started_at", "working_since", "ended_at", "speed", "executed_s", "held_s"),
    *("held_gpu_s", "forgiven_gpu_s", "lost_gpu_s", "preemptions", "attempts", "turn", "reason"),
)


def _track_values(track: Track) -> tuple[Any, ...]:
    return tuple(getattr(track, name) for name in _TRACK_FIELDS)


# ------------------------------------------------------------------------------------------ the audit


@final
class Audit:
    """Reads a journal and believes nothing: its own book of who holds which GPUs, from the entries
    alone. Raises AssertionError at the first entry that breaks a law of the cluster."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.busy_gpu_s = 0.0
        self.ended: dict[JobId, str] = {}
        self._jobs: dict[JobId, Job] = {}
        self._nodes: list[Node] = []
        self._open: set[int] = set()
        self._held: dict[JobId, Placement] = {}
        self._away: set[JobId] = set()  # preempted, and not started again
        self._quota: dict[str, float] = {}
        self._deaths: dict[JobId, int] = {}

    def read(self, entries: Iterable[tuple[Seconds, JournalEntry]]) -> Audit:
        for at, entry in entries:
            self._pass_to(at)
            try:
                self._read(entry)
            except AssertionError as error:
                raise AssertionError(f"t={at:g}, {entry!r}: {error}") from None
        left = set(self._jobs) - set(self.ended)
        assert not left, f"jobs that never ended: {sorted(left)}"
        assert not self._held, f"jobs that ended with GPUs in hand: {sorted(self._held)}"
        return self

    def _pass_to(self, at: Seconds) -> None:
        assert at >= self.now or not self._jobs, f"time runs backwards from {self.now} to {at}"
        busy = sum(p.gpus * p.share / WHOLE_GPU for p in self._held.values())
        self.busy_gpu_s += busy * (at - self.now)
        self.now = at

    def _read(self, entry: JournalEntry) -> None:
        at = getattr(entry, "at", self.now)
        assert at == self.now, f"written at t={self.now}, happened at t={at}"
        if isinstance(entry, Submitted):
            assert entry.job.id not in self._jobs, "submitted twice"
            self._jobs[entry.job.id] = entry.job
        elif isinstance(entry, Start | Resize | Stayed):
            self._given(entry)
        elif isinstance(entry, Preempt | Interrupted | Displaced) or self._is_tried_again(entry):
            self._gives_back(entry)
        elif isinstance(entry, Finished | Failed | Cancelled | Refuse | Stop):
            self._over(entry)
        elif isinstance(entry, NodeJoined | NodeUp | NodeDown | NodeDraining | NodeLeft):
            self._node(entry)
        elif isinstance(entry, TenantSet):
            self._quota[entry.tenant.name] = entry.tenant.gpu_quota

    def _gives_back(self, entry: Preempt | Interrupted | Displaced | Failed) -> None:
        """Who has given way may die meanwhile, but cannot give back what it no longer has."""
        held = self._held.pop(entry.job_id, None)
        can_be_away = isinstance(entry, Interrupted | Failed) and entry.job_id in self._away
        assert held is not None or can_be_away, "gives back what it does not have"
        if isinstance(entry, Preempt):
            self._away.add(entry.job_id)

    def _is_tried_again(self, entry: JournalEntry) -> TypeGuard[Failed]:
        if not isinstance(entry, Failed):
            return False
        self._deaths[entry.job_id] = self._deaths.get(entry.job_id, 0) + 1
        return self._deaths[entry.job_id] <= self._jobs[entry.job_id].retries

    def _over(self, entry: Finished | Failed | Cancelled | Refuse | Stop) -> None:
        assert entry.job_id not in self.ended, "ends twice"
        held = self._held.pop(entry.job_id, None)
        if isinstance(entry, Finished | Failed):
            assert held is not None or entry.job_id in self._away, "ends without GPUs"
        if isinstance(entry, Refuse | Stop):
            assert entry.reason, "is refused without a reason"
        self.ended[entry.job_id] = entry.tag

    def _node(self, entry: NodeJoined | NodeUp | NodeDown | NodeDraining | NodeLeft) -> None:
        if isinstance(entry, NodeJoined):
            self._nodes.append(entry.node)
            self._open.add(len(self._nodes) - 1)
            return
        number = [node.id for node in self._nodes].index(entry.node_id)
        (self._open.add if isinstance(entry, NodeUp) else self._open.discard)(number)
        if isinstance(entry, NodeDown | NodeLeft):
            here = [id for id, p in self._held.items() if any(s.node == number for s in p.slices)]
            assert not here, f"the node goes with {here} on it"

    def _given(self, entry: Start | Resize | Stayed) -> None:
        asked, given = self._jobs[entry.job_id], entry.placement
        assert entry.job_id not in self.ended, "starts after its end"
        if not isinstance(entry, Resize):
            assert entry.job_id not in self._held, "starts twice"
            self._away.discard(entry.job_id)
            shut = [self._nodes[s.node].id for s in given.slices if s.node not in self._open]
            assert not shut, f"starts on {shut}, down, draining or gone"
        self._held[entry.job_id] = given
        self._check_gang(asked, given)
        self._check_gpus(given)
        self._check_hosts(given)
        self._check_quota(asked.tenant)

    def _check_gang(self, asked: Job, given: Placement) -> None:
        pieces = [(s.node, gpu) for s in given.slices for gpu in _bits(s.mask)]
        assert len(set(pieces)) == len(pieces) == asked.gpus, f"asked for {asked.gpus} GPUs"
        used = [self._nodes[s.node] for s in given.slices]
        assert used, "is nowhere"
        assert len({node.kind for node in used}) == 1, "is split over GPU kinds"
        assert not asked.kinds or used[0].kind in asked.kinds, f"asked for {asked.kinds}"
        strange = [node.id for node in used if node.tenant not in ("", asked.tenant)]
        assert not strange, f"{strange} belong to another tenant"

    def _check_gpus(self, given: Placement) -> None:
        for piece in given.slices:
            assert not piece.mask >> self._nodes[piece.node].gpus, "there is no such GPU"
            for gpu in _bits(piece.mask):
                used = sum(
                    p.share
                    for p in self._held.values()
                    for s in p.slices
                    if s.node == piece.node and s.mask >> gpu & 1
                )
                assert used <= WHOLE_GPU, f"GPU {gpu} of node {piece.node} is oversold: {used}/1000"

    def _check_hosts(self, given: Placement) -> None:
        for n in {piece.node for piece in given.slices}:
            parts = [
                (self._jobs[job_id], s.mask.bit_count() / p.gpus if p.gpus else 1.0)
                for job_id, p in self._held.items()
                for s in p.slices
                if s.node == n
            ]
            cpus = sum(asked.cpus * part for asked, part in parts)
            memory_gb = sum(asked.memory_gb * part for asked, part in parts)
            node = self._nodes[n]
            assert cpus <= node.cpus + _ROUNDING, f"{node.id} has {node.cpus} CPUs, not {cpus}"
            assert memory_gb <= node.memory_gb + _ROUNDING, f"{node.id} lacks memory"

    def _check_quota(self, tenant: str) -> None:
        held = sum(
            p.gpus * p.share / WHOLE_GPU
            for job_id, p in self._held.items()
            if self._jobs[job_id].tenant == tenant
        )
        quota = self._quota.get(tenant, inf)
        assert held <= quota + _ROUNDING, f"tenant {tenant!r} holds {held} GPUs, quota {quota}"


def _bits(mask: int) -> Iterator[int]:
    return (i for i in range(mask.bit_length()) if mask >> i & 1)


# --------------------------------------------------------------------------------------- the contract


@final
class AskedTwice:
    """A policy that is asked every question three times and must give the same answer."""

    def __init__(self, policy: Policy) -> None:
        self._policy: Final = policy

    def decide(self, view: View) -> Iterable[Action]:
        before = fingerprint(view)
        first = list(self._policy.decide(view))
        view.settle()
        assert fingerprint(view) == before, f"deciding changed the view at t={view.now:g}"
        second = list(self._policy.decide(view))
        view.settle()
        assert first == second, f"asked twice at t={view.now:g}: {first} and then {second}"
        return self._policy.decide(view)


def check_ends_and_laws(world: World, make_policy: MakePolicy) -> None:
    """Every job ends exactly once, with a reason if refused; GPUs, hosts, quotas are never oversold;
    gangs are whole; nothing starts on a closed node; GPU-seconds and bounds add up."""
    done = run_world(world, make_policy())
    audit = Audit().read(done.entries)
    assert set(audit.ended) == {a.job.id for a in world.arrivals}, "jobs that were never submitted"
    assert not done.state.tracks, f"left behind: {list(done.state.tracks)}"
    held = sum(track.held_gpu_s for track in done.ended.values())
    assert _close(held, audit.busy_gpu_s), f"held {held} GPU-s, the journal says {audit.busy_gpu_s}"
    if world.speed is None and world.interference is None:
        check_service_adds_up(world, done)


def check_service_adds_up(world: World, done: Run) -> None:
    """Held = useful + lost for each finished job; no job is faster than its work."""
    for came in world.arrivals:
        track = done.ended[came.job.id]
        if track.phase is not Phase.FINISHED:
            continue
        useful = came.work_s * came.job.gpus * came.job.share / WHOLE_GPU
        assert _close(track.held_gpu_s, useful + track.lost_gpu_s), (
            f"job {came.job.id!r} held {track.held_gpu_s} GPU-s: {useful} useful and "
            f"{track.lost_gpu_s} lost"
        )
        stayed = track.ended_at - track.submitted_at
        assert stayed >= came.work_s - _ROUNDING, f"{came.job.id!r} took {stayed} s"


def check_purity(world: World, make_policy: MakePolicy) -> None:
    """Deciding twice gives the same actions, changes nothing, and leads to the same run."""
    text = run_world(world, make_policy()).text
    assert run_world(world, AskedTwice(make_policy())).text == text, "being asked changes the run"


def check_replay(world: World, make_policy: MakePolicy, turns: int) -> None:
    """The journal alone rebuilds the state, after any turn and at the end."""
    for number in (turns, 1_000_000_000):
        done = _go_on(Paused(world.cluster(), number), make_policy(), Run())
        copy = replay(done.text.splitlines())
        assert fingerprint(copy) == fingerprint(done.state), f"replay differs after {number} turns"


def check_restart(world: World, make_policy: MakePolicy, turns: int) -> None:
    """After a crash at any turn, a fresh policy on the replayed state still ends every job."""
    Audit().read(run_with_restart(world, make_policy, turns).entries)


def check_same_again(world: World, make_policy: MakePolicy) -> None:
    """The same world and policy, the same journal, byte for byte."""
    first, second = run_world(world, make_policy()), run_world(world, make_policy())
    assert first.text == second.text, "two runs of the same world differ"


def check_policy(make_policy: MakePolicy, worlds: int = 50, seed: int = 0) -> None:
    """The whole contract on so many worlds drawn by chance. `make_policy` makes a fresh one."""
    for number in range(worlds):
        chance = Random(f"{seed}/{number}")
        world, turns = random_world(chance), chance.randint(0, 20)
        try:
            check_ends_and_laws(world, make_policy)
            check_same_again(world, make_policy)
            check_purity(world, make_policy)
            check_replay(world, make_policy, turns)
            check_restart(world, make_policy, turns)
        except AssertionError as error:
            raise AssertionError(f"world {seed}/{number}: {error}") from error


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= _ROUNDING * max(1.0, abs(a), abs(b))
