"""What a decision costs on a large cluster, and how long a snapshot holds the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Final

from benchmarks import snapshots
from benchmarks.crowd import Crowd
from benchmarks.lines import Line
from dovetail.core.entries import Action, Event
from dovetail.core.loop import Backend, run
from dovetail.daemon.garbage import seldom_collected
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import BUILTIN, Knowledge, make
from dovetail.predict.duration import UserEstimate

NODES, QUEUED = 1250, 16_000
TURNS, BEFORE = 400, 60  # measured, and before that: from one policy's order to another's
MEDIAN_MS, WORST_MS, SOLVER_MS = 5.0, 50.0, 250.0
TWICE = 2.3
SNAPSHOT_MS = 20.0
SOLVERS = ("frugal",)
# They solve programs, search or promise for all jobs together: `allocation` measures them with 500.
FOR_ALL_TOGETHER = (
    *("pollux", "flex", "elasticflow", "chronus", "sia", "gavel", "allox", "gandiva-fair", "pop"),
)
_SERVICES = tuple(60.0 * 1.3**i for i in range(40))


@dataclass(frozen=True)
class Took:
    """Milliseconds an event, and the time at which each was: a decision may be taken in parts."""

    turns_ms: Sequence[float]
    at: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.turns_ms)

    @property
    def mean(self) -> float:
        return sum(self.turns_ms) / len(self.turns_ms)

    @property
    def worst(self) -> float:
        """The 99th percentile."""
        return sorted(self.turns_ms)[int(0.99 * len(self.turns_ms))]

    @property
    def longest_instant(self) -> float:
        """The most that all events of one instant took together."""
        took: dict[float, float] = {}
        for turn_ms, at in zip(self.turns_ms, self.at, strict=True):
            took[at] = took.get(at, 0.0) + turn_ms
        return max(took.values())


class Timed:
    """A world whose turns are timed: from what it tells to the next question, its own work apart."""

    def __init__(self, world: Backend, turns: int) -> None:
        self._world: Final = world
        self._left = turns
        self._since = 0.0
        self.took_s: Final[list[float]] = []
        self.at: Final[list[float]] = []

    def observe(self) -> Sequence[Event]:
        if self._since:
            self.took_s.append(process_time() - self._since)
        self._left -= 1
        events = self._world.observe() if self._left >= 0 else ()
        if events:
            self.at.append(events[-1].at)
        self._since = process_time()
        return events

    def act(self, action: Action) -> None:
        began = process_time()
        self._world.act(action)
        self._since += process_time() - began


def measure(policy: str, crowd: Crowd, turns: int = TURNS) -> Took:
    """Every turn of the loop: recording what happened, deciding, recording what was decided."""
    state, world = crowd.state_and_world(turns + BEFORE)
    knowledge = Knowledge({"user": UserEstimate()}, "user", _SERVICES)
    timed = Timed(world, turns + BEFORE)
    with seldom_collected():  # as in the daemon
        run(timed, [make(policy, PLACEMENTS["consolidated"], knowledge)], state)
    return Took([1000.0 * took for took in timed.took_s[BEFORE:]], timed.at[BEFORE:])


def policies() -> list[str]:
    left_out = [name for name in BUILTIN if name.startswith("andreas-") or name in FOR_ALL_TOGETHER]
    return [name for name in BUILTIN if name not in left_out]


def measured() -> Iterator[Line]:
    """1,250 nodes of 8 GPUs, 16,000 queued, 200 users; then twice the nodes and the queue."""
    for asking in (True, False):
        # With GPUs alone `gandiva` puts two jobs on one GPU, with 0.6 of their speed each.
        what = "GPUs, CPUs and memory" if asking else "GPUs alone"
        for policy in policies():
            once = measure(policy, Crowd(NODES, QUEUED, asking))
            twice = measure(policy, Crowd(2 * NODES, 2 * QUEUED, asking))
            yield from _lines(f"{policy}, {what}", once, twice, policy in SOLVERS)
    yield from _snapshot_lines()


def _snapshot_lines() -> Iterator[Line]:
    rounds = snapshots.measured_rounds()
    for what, times in (
        ("a round for a snapshot", rounds.for_snapshots),
        ("a round beside one", rounds.beside),
        ("a round without any", rounds.without),
    ):
        longest, most_cpu = max(times)[0], max([cpu for _, cpu in times])
        yield Line(
            f"{what}, {snapshots.TRACKS:,} tracks",
            f"at most {longest:.1f} ms ({most_cpu:.1f} ms of the processor), of {len(times)}",
            f"at most {SNAPSHOT_MS:g} ms" if times is not rounds.without else "to compare",
            times is rounds.without or longest <= SNAPSHOT_MS,
        )


def _lines(what: str, once: Took, twice: Took, solves: bool) -> Iterator[Line]:
    most, worst = (SOLVER_MS, SOLVER_MS) if solves else (MEDIAN_MS, WORST_MS)
    yield Line(
        what, f"{once.median:.2f}, {once.worst:.2f} ms (an instant {once.longest_instant:.0f} ms)",
        f"median under {most:g}, 99 % {worst:g} ms",
        once.median < most and once.worst < worst,
    )  # fmt: skip
    yield Line(
        f"{what}: twice the nodes and queue", f"{twice.median / once.median:.2f} x",
        f"at most {TWICE:g}", twice.median <= TWICE * once.median,
    )  # fmt: skip
