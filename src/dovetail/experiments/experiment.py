"""One trace, one cluster, one policy: put together, run to the end, and accounted for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from pathlib import Path
from random import Random
from time import process_time
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import orjson

from dovetail.core.errors import DovetailError, UnfinishedRun
from dovetail.core.journal import Journal, lines
from dovetail.core.loop import Policy, run
from dovetail.core.model import Interruption, Node, Seconds, Tenant
from dovetail.core.state import State
from dovetail.core.view import IndexSpec, View
from dovetail.experiments.given_policy import GivenPolicy, name_of
from dovetail.extras import needed_by
from dovetail.models.cost import Costs, rates_of
from dovetail.models.counted import counting
from dovetail.models.epochs import ADAPTIVE, FIXED, SHARED, Training
from dovetail.models.failures import NodeFailures
from dovetail.models.hourly import Hourly
from dovetail.models.leases import Leased
from dovetail.models.scaling import USUAL_SCALING
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.policies.registry import (
    Knowledge,
    batches_under,
    deals_leases,
    make,
    place_named,
)
from dovetail.predict.speed import AsSimilar
from dovetail.results.charges import Charges
from dovetail.results.outcomes import Outcomes, summarise
from dovetail.results.record import RunRecord
from dovetail.worlds.simulated import NodeEvent, SimulatedCluster

if TYPE_CHECKING:
    from dovetail.models.speed import Interference

_BY_TURNS = 0.5  # the speed of each of two jobs on one GPU that take turns there


@dataclass(frozen=True)
class Experiment:
    """All parts of a simulation except its policy."""

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    node_events: Sequence[NodeEvent] = ()
    failures: NodeFailures | None = None
    placement: str = "consolidated"
    predictor: str = "oracle"
    kind_speeds: Mapping[str, float] = field(default_factory=dict)
    across_nodes: float = 1.0
    across_racks: float = 1.0
    pair_speed: float | None = None
    scaling: float = USUAL_SCALING  # of elastic jobs whose speeds are in no table
    seed: int = 0
    costs: Costs | None = None  # None: only the power figures of the nodes
    speed_table: SpeedTable | None = None  # how fast models really run on which GPUs
    speeds: str = "similar"  # the predictor of speeds for policies
    believed: Costs | None = None  # the costs that policies believe; None: the truth
    training: Training | None = None  # what jobs of Pollux' workloads train
    round_s: Seconds = 0.0  # of policies that decide in rounds; 0: as they say themselves
    batches: str = ""  # of these jobs: FIXED, ADAPTIVE, or as the policy's authors have them

    def charged(self) -> Costs:
        """The costs by which the run is charged."""
        return Costs(rates_of(self.nodes)) if self.costs is None else self.costs

    def under(self, policy: str) -> Experiment:
        """As it is for that policy: with some the jobs of Pollux' workloads choose their batches; one
        that gives no leases would leave jobs idle that wait for them."""
        if self._leased and not deals_leases(policy):
            return replace(self, arrivals=[replace(a, course=None) for a in self.arrivals])
        if self.training is None:
            return self
        batches = self.batches or batches_under(policy)
        if batches == FIXED and self.training.tables is None:
            return self
        from dovetail.models.adaptive_epochs import adaptive, by_kind

        course = by_kind if batches == FIXED else adaptive
        return replace(self, arrivals=[course(a) for a in self.arrivals], batches=batches)

    @property
    def _leased(self) -> bool:
        """Do jobs work in leases of whole steps, as in Gavel's simulator?"""
        return bool(self.arrivals) and isinstance(self.arrivals[0].course, Leased)

    def policy(self, text: str, view: View | None = None) -> Policy:
        return make(text, place_named(self.placement), self.knowledge(view))

    def knowledge(self, view: View | None = None) -> Knowledge:
        """Everything that policies may ask for. The truth goes in here and nowhere else. `view`: of the
        run, for what jobs are seen to do in it."""
        durations = {arrival.job.id: arrival.work_s for arrival in self.arrivals}
        facts: dict[str, Any] = {"durations": durations, "seed": self.seed}
        if self.speed_table is not None:
            facts |= {"table": self.speed_table, "true_speeds": self.speed_table}
        if self.speed_table is not None and view is not None:
            facts |= {"simulated": view, "otherwise": AsSimilar(self.speed_table)}
        speed, left = self.speeds if self.speed_table else "none", "predicted"
        if self.training is not None:
            facts["training"] = self.training
            if self.training.tables is not None:
                speed = "one-gpu"
            elif self.batches not in (ADAPTIVE, SHARED):  # else jobs tell how fast they are
                speed, left = "packed", "iterations"
        services = tuple(sorted(a.work_s * a.job.gpus for a in self.arrivals))
        believed = self.charged() if self.believed is None else self.believed
        return Knowledge(
            predictor=self.predictor,
            services=_thinned(services),
            costs=believed,
            speed="leased" if self._leased else speed,
            whole_steps=self._leased,
            left=left,
            round_s=self.round_s,
            facts=facts,
        )

    def world(self) -> SimulatedCluster:
        from dovetail.models.speed import by_kind_and_placement, by_table

        power = self.charged().power
        uneven = (
            self.kind_speeds
            or power
            or self.across_nodes != 1.0
            or self.across_racks != 1.0
            or any(not a.job.simple and (a.job.options or a.job.elastic) for a in self.arrivals)
        )
        speed = by_kind_and_placement(
            self.kind_speeds, self.across_nodes, self.across_racks, power, self.scaling
        )
        if self.speed_table is not None:
            speed = by_table(self.speed_table, otherwise=speed)
        return SimulatedCluster(
            self.nodes,
            counting(self._told_of_each_other(), speed),
            tenants=self.tenants,
            node_events=self.node_events,
            failures=None if self.failures is None else self.failures.of_seed(),
            speed=speed if uneven or self.speed_table is not None else None,
            interference=self._interference(),
        )

    def _interference(self) -> Interference | None:
        """How fast jobs are that share GPUs: as measured, or all alike; None: by their parts of it."""
        from dovetail.models.speed import pairs_by_table, same_for_all_pairs

        if self.pair_speed is not None:
            return same_for_all_pairs(self.pair_speed)
        if self.speed_table is None or not self.speed_table.pairs:
            return None
        return pairs_by_table(self.speed_table, otherwise=_BY_TURNS)

    def _told_of_each_other(self) -> Sequence[Arrival]:
        """Made anew for each world: a run must not know what was seen in another."""
        if self.batches != SHARED:
            return self.arrivals
        from dovetail.models.adaptive_epochs import sharing

        return sharing(self.arrivals)


def with_interruption_cost(
    arrivals: Sequence[Arrival], save_s: Seconds, restore_s: Seconds
) -> list[Arrival]:
    """The same trace; every job without an interruption cost of its own gets this one."""

    def charged(arrival: Arrival) -> Arrival:
        own = arrival.job.interruption
        if own.save_s or own.restore_s:
            return arrival
        cost = Interruption(save_s, restore_s, own.lost_s)
        return replace(arrival, job=replace(arrival.job, interruption=cost))

    return [charged(arrival) for arrival in arrivals]


def with_time_error(arrivals: Sequence[Arrival], error: float, seed: int) -> list[Arrival]:
    """The same trace; every job really takes up to that part more or less than its options say."""
    return [
        replace(
            a, work_s=a.work_s * (1.0 + error * (2.0 * Random(f"{seed}/{a.job.id}").random() - 1))
        )
        for a in arrivals
    ]


def with_errors(costs: Costs, price: float, carbon: float, seed: int) -> Costs:
    """The costs as policies may believe them: the price and carbon of every hour are up to that
    part higher or lower than the truth."""

    def wrong(table: Hourly, error: float) -> Hourly:
        chance = Random(f"{seed}/{table.what}")
        values = [value * (1.0 + error * chance.uniform(-1.0, 1.0)) for value in table.values]
        return Hourly(values, table.what)

    usual = costs.price.mean if costs.usual_price is None else costs.usual_price
    return replace(
        costs,
        price=wrong(costs.price, price) if price else costs.price,
        carbon=wrong(costs.carbon, carbon) if carbon else costs.carbon,
        usual_price=usual,
    )


def _thinned(ordered: tuple[float, ...], most: int = 1000) -> tuple[float, ...]:
    """Evenly spaced quantiles: an index over a thousand samples is as good as over a million."""
    if len(ordered) <= most:
        return ordered
    return tuple(ordered[int((i + 0.5) * len(ordered) / most)] for i in range(most))


def simulate(
    experiment: Experiment,
    policy: str | Policy,
    *,
    rows: bool = False,
    journal: Path | None = None,
    progress: Callable[[int], object] | None = None,
    watching: IndexSpec | None = None,
) -> RunRecord:
    """Run the policy, named or given, to the end. Every job is accounted for, or this fails."""
    state = State()
    if is_named := isinstance(policy, str):
        experiment = experiment.under(policy)
        decider = experiment.policy(policy, state)
    else:
        decider, policy = policy, name_of(policy)
    world = experiment.world()
    counting = getattr(decider, "counting", None)
    counted = counting() if callable(counting) else None
    deciding = counted or decider
    outcomes = Outcomes(rows, progress)
    charges = Charges(experiment.charged())
    state.index(outcomes)
    state.index(charges)
    if watching is not None:
        state.index(watching)
    with _without_garbage_collection(), _journal_to(journal) as write, _blaming(policy, state):
        began = process_time()
        run(world, [deciding if is_named else GivenPolicy(policy, deciding)], state, write)
        cpu_seconds = process_time() - began
    _check_all_ended(state, len(experiment.arrivals), outcomes.ended, policy)
    summary = summarise(policy, outcomes, charges, state, cpu_seconds)
    if counted is not None:
        summary = {**summary, **counted.figures()}
    nodes, refusals = list(state.room.nodes), outcomes.refusals
    return RunRecord(policy, summary, nodes, outcomes.jobs, outcomes.stints, refusals)


def _check_all_ended(state: State, submitted: int, ended: int, policy: str) -> None:
    if not state.tracks and ended == submitted:
        return
    waiting = next(iter(state.tracks.values()), None)
    example = f"; job {waiting.job.id!r} asks for {waiting.shape}" if waiting else ""
    raise UnfinishedRun(
        f"policy {policy!r} left {submitted - ended} of {submitted} jobs unfinished at "
        f"t={state.now:g}{example}"
    )


@contextmanager
def _blaming(policy: str, state: State) -> Iterator[None]:
    """An error in a policy, perhaps a third party's, becomes one line: which policy, when and where."""
    try:
        yield
    except (DovetailError, OSError):
        raise
    except Exception as error:
        if lacks := needed_by(policy, error):
            raise lacks from error
        frame = extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
        raise DovetailError(
            f"policy {policy!r} failed at t={state.now:g}: {what} "
            f"({Path(frame.filename).name}:{frame.lineno})"
        ) from error


def unfinished(path: Path) -> Path:
    """The name of a file while it is being written."""
    return path.with_name(path.name + ".part")


@contextmanager
def _journal_to(path: Path | None) -> Iterator[Journal | None]:
    """A journal that streams into a file, which gets its name only when it is complete."""
    if path is None:
        yield None
        return
    part = unfinished(path)
    try:
        with _streaming_to(part, packed=path.suffix == ".gz") as write:
            yield write
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _streaming_to(path: Path, packed: bool) -> Iterator[Journal]:
    """The same run writes the same bytes."""
    with ExitStack() as opened:
        file: BinaryIO = opened.enter_context(open(path, "wb"))
        if packed:
            from gzip import GzipFile

            zipped = GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0)
            file = cast(BinaryIO, opened.enter_context(zipped))
        text = opened.enter_context(TextIOWrapper(file, "utf-8", newline="\n"))
        journal = Journal(lambda entries, times: text.write(lines(entries, times, quick_texts)))
        yield journal
        journal.flush()


def quick_texts(times: list[Seconds]) -> list[str]:
    """They read back equal to `repr`'s, which takes ten times as long."""
    return orjson.dumps(times)[1:-1].decode().split(",")


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Nothing in a run is cyclic, and looking for cycles among a million jobs costs a quarter of it."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
