"""Gavel's runs again, against what its own simulator recorded: job by job, reset by reset."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf
from operator import mul
from pathlib import Path
from random import Random
from time import process_time

from benchmarks import allocation_decisions, allocation_gavel_pairs
from benchmarks.lines import Line
from dovetail import traces
from dovetail.core.entries import Action, Note
from dovetail.core.loop import run
from dovetail.core.model import Job, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.leases import in_leases, steps_per_s
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.policies.gavel.beliefs import RoundBeliefs
from dovetail.policies.gavel.policy import Gavel
from dovetail.policies.gavel.problem import Allocation, AllocationProblem, RateClaim
from dovetail.policies.gavel.recorded import recorded
from dovetail.policies.gavel.rounds import RoundTurn
from dovetail.policies.gavel.solving import OBJECTIVES, WITH_PAIRS, allocated
from dovetail.predict.duration import Oracle
from dovetail.predict.speed import AsMeasured
from dovetail.traces.clusters.cluster_text import read_cluster
from dovetail.traces.clusters.speed_tables import read_speed_table

SHARED = Path(__file__).parent.parent.parent / "shared"
GOLDEN = SHARED / "golden/allocation/gavel"
TABLE = SHARED / "data/gavel/simulation_throughputs.json.gz"
WHOLE = "8x1:v100+16x1:p100+12x1:k80"
CLUSTERS: Mapping[str, tuple[str, str]] = {  # by name of the runs: trace and cluster
    "a60": ("a60", WHOLE),
    "b100": ("b100", WHOLE),
    "c40": ("c40", WHOLE),
    "c40q": ("c40", "2x1:v100+4x1:p100+3x1:k80"),
}
ROUND_S = 360.0
ALIKE_S = 1e-3
# As recorded: what it is called here, and by how much its mean may be off where only the program's
# value is unique, not the allocation (golden/allocation/README.md, "How far to trust equality").
OUTRIGHT: Mapping[str, str] = {
    "isolated": "gavel:objective=isolated",
    "fifo_perf": "gavel:objective=fifo",
    "allox": "allox",
    "allox_alpha0.5": "allox:oldest=0.5",
    "allox_alpha0.2": "allox:oldest=0.2",
}
PROGRAMS: Mapping[str, tuple[str, float]] = {
    "max_min_fairness": ("gavel:aware=false", 0.016),
    "max_min_fairness_perf": ("gavel", 0.014),
    "max_min_fairness_water_filling": ("gavel:objective=water-filling:aware=false", 0.016),
    "max_min_fairness_water_filling_perf": ("gavel:objective=water-filling", 0.014),
    "finish_time_fairness": ("gavel:objective=finish-time:aware=false", 0.031),
    "finish_time_fairness_perf": ("gavel:objective=finish-time", 0.031),
    "min_total_duration": ("gavel:objective=makespan:aware=false", 0.026),
    "min_total_duration_perf": ("gavel:objective=makespan", 0.026),
    "max_sum_throughput_perf": ("gavel:objective=max-sum", 0.028),
}
FASTER = 5.0
GAVEL_RATE = 80.0  # jobs a CPU-second at its best


@cache
def _table() -> SpeedTable:
    return read_speed_table(TABLE)


def experiment(name: str, suffix: str = "trace") -> Experiment:
    """One of Gavel's runs, without its policy."""
    trace, cluster = CLUSTERS[name]
    table, nodes = _table(), read_cluster(cluster)
    found = traces.read(GOLDEN / "traces" / f"{trace}.{suffix}", speeds=table)
    kinds = list(dict.fromkeys(node.kind for node in nodes))
    arrivals = in_leases(found.arrivals, table, kinds, ROUND_S)
    return Experiment(arrivals, nodes, speed_table=table, round_s=ROUND_S)


@dataclass(frozen=True)
class GavelRun:
    """One run beside the recorded one."""

    furthest_s: Seconds  # from the recorded end of any job
    mean: float  # completion time over the recorded
    makespan: float
    cpu_s: float
    jobs: int


def replayed(name: str, policy_recorded: str, policy: str) -> GavelRun:
    record = simulate(experiment(name), policy, rows=True)
    cpu_s = len(record.jobs) / float(record.summary["jobs_per_cpu_second"])
    told = {row["job"]: row for row in _rows("jobs", name, policy_recorded)}
    ends = {row.job_id: row.end_s for row in record.jobs}
    apart = max(abs(ends[job] - float(row["completion"])) for job, row in told.items())
    jct = sum(float(row["jct"]) for row in told.values()) / len(told)
    last = max(float(row["completion"]) for row in told.values())
    mean, span = float(record.summary["mean_jct_s"]) / jct, max(ends.values()) / last
    return GavelRun(apart, mean, span, cpu_s, len(told))


def _rows(folder: str, name: str, policy: str) -> list[dict[str, str]]:
    path = GOLDEN / folder / f"{name}.{policy}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------------------------- objectives


@dataclass(frozen=True, kw_only=True)
class ProbedGavel(Gavel):
    """Gives the recorded shares, and notes what ours would have been worth."""

    found: list[float]

    def shares(self, problem: AllocationProblem) -> Allocation:
        ours = allocated(problem, self.objective, self.aware)
        assert ours.objective is not None
        self.found.append(ours.objective)
        return replace(recorded(self.allocations, problem), standings=ours.standings)


def objectives_along(name: str, policy_recorded: str) -> list[tuple[float, float]]:
    """Ours and theirs at every reset: along the recorded allocations or, where none are recorded and
    only the set of jobs counts, for the jobs that were there."""
    told = [
        float(row["objective"]) for row in _rows("resets", name, policy_recorded) if row["status"]
    ]
    alloc = GOLDEN / "alloc" / f"{name}.{policy_recorded}.csv"
    text, _ = PROGRAMS[policy_recorded]
    if alloc.exists():
        ours = _along(name, f"{text}:allocations={alloc}")
    elif "max_min" in policy_recorded or "max_sum" in policy_recorded:
        ours = _for_those_there(name, policy_recorded, text)
    else:
        return []
    return list(zip(ours, told, strict=True))


def _along(name: str, text: str) -> list[float]:
    one, found = experiment(name), list[float]()
    made = one.policy(text)
    assert isinstance(made, Gavel)
    values = {item.name: getattr(made, item.name) for item in fields(made) if item.init}
    run(one.world(), [ProbedGavel(**values, found=found)], State())
    return found


def _for_those_there(name: str, policy_recorded: str, text: str) -> list[float]:
    one = experiment(name)
    made = one.policy(text)
    assert isinstance(made, Gavel)
    ends = {row["job"]: float(row["completion"]) for row in _rows("jobs", name, policy_recorded)}
    kinds = tuple(dict.fromkeys(node.kind for node in one.nodes))
    counts = tuple(float(sum(node.kind == kind for node in one.nodes)) for kind in kinds)
    found = []
    for row in _rows("resets", name, policy_recorded):
        at = float(row["time"])
        there = [a for a in one.arrivals if a.at <= at < ends[a.job.id] - ALIKE_S]
        claims = [
            RateClaim(a.job.id, a.job.gpus, tuple(steps_per_s(_table(), a.job, k) for k in kinds))
            for a in there
        ]
        if not row["status"]:
            continue
        problem = AllocationProblem(kinds, counts, tuple(claims))
        ours = allocated(problem, made.objective, made.aware).objective
        assert ours is not None
        found.append(ours)
    return found


# ------------------------------------------------------------------------------------------- figures


def measured() -> Iterator[Line]:
    """Gavel's recorded runs."""
    if not GOLDEN.exists():
        print("     Gavel's recorded results are not here: left out")
        return
    yield from _outright()
    yield from _replays()
    yield from _objectives()
    yield from allocation_gavel_pairs.measured(experiment("b100"))
    yield from _whole_runs()
    yield from _scale()


def _pairs(policies: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in CLUSTERS:
        for policy in policies:
            if (GOLDEN / "jobs" / f"{name}.{policy}.csv").exists():
                yield name, policy


def _outright() -> Iterator[Line]:
    for name, policy in _pairs(list(OUTRIGHT)):
        found = replayed(name, policy, OUTRIGHT[policy])
        yield _alike(f"Gavel {name} {policy}", found)


def _alike(what: str, found: GavelRun) -> Line:
    seconds = f"{found.furthest_s:.1e} s"
    return Line(f"{what}: furthest end", seconds, f"{ALIKE_S:g} s", found.furthest_s < ALIKE_S)


def _replays() -> Iterator[Line]:
    for name, policy in _pairs(list(PROGRAMS)):
        alloc = GOLDEN / "alloc" / f"{name}.{policy}.csv"
        if alloc.exists():
            found = replayed(name, policy, f"gavel:aware={_sees(policy)}:allocations={alloc}")
            yield _alike(f"Gavel {name} {policy}, replayed", found)
    pairs = f"gavel:packing=true:allocations={GOLDEN / 'alloc' / 'a60.gandiva.csv'}"
    yield _alike("Gavel a60 gandiva (pairs), replayed", replayed("a60", "gandiva", pairs))


def _sees(policy: str) -> str:
    return str(policy.endswith("_perf")).lower()


def _objectives() -> Iterator[Line]:
    for name, policy in _pairs([p for p in PROGRAMS if "water" not in p]):
        both = objectives_along(name, policy)
        if both:
            apart = max(abs(ours - theirs) / theirs for ours, theirs in both)
            what = f"Gavel {name} {policy}: {len(both)} objectives"
            yield Line(what, f"{apart:.1e}", "1e-6", apart < 1e-6)


def _whole_runs() -> Iterator[Line]:
    with (GOLDEN / "summary.csv").open(newline="") as file:
        cpu_s = {(row["trace"], row["policy"]): float(row["cpu_s"]) for row in csv.DictReader(file)}
    for name, policy in _pairs(list(PROGRAMS)):
        text, margin = PROGRAMS[policy]
        found = replayed(name, policy, text)
        shown = f"{found.mean - 1:+.2%}, {found.makespan - 1:+.2%}"
        holds = abs(found.mean - 1) <= margin
        yield Line(f"Gavel {name} {policy}: mean, makespan", shown, f"mean {margin:.1%}", holds)
        times, rate = cpu_s[name, policy] / found.cpu_s, found.jobs / found.cpu_s
        shown = f"{rate:.0f} ({times:.1f} times)"
        wanted = f"{FASTER * GAVEL_RATE:.0f}, or {FASTER:g} times Gavel's own run"
        holds = times >= FASTER or rate >= FASTER * GAVEL_RATE
        yield Line("  jobs a CPU-second", shown, wanted, holds)


# --------------------------------------------------------------------------------------------- scale


def _scale() -> Iterator[Line]:
    yield from allocation_decisions.measured(_table())
    packing = [f"{objective}:packing=true" for objective in WITH_PAIRS]
    for objective in (*OBJECTIVES, *packing):
        seconds, _ = _decision(f"gavel:objective={objective}", 500, 1000)
        what = f"gavel {objective}: a decision, 1,000 GPUs, 500 jobs"
        yield Line(what, f"{seconds:.2f} s", "1 s", seconds < 1.0)
    seconds, least = _decision("gavel", 5000, 10_000)
    in_parts, least_in_parts = _decision("pop:k=8:policy=gavel", 5000, 10_000)
    what = "10,000 GPUs, 5,000 jobs: whole, in 8 parts"
    yield Line(what, f"{seconds:.2f} s, {in_parts:.2f} s", "2 s", in_parts < 2.0)
    worse = 1.0 - least_in_parts / least
    yield Line("  smallest share in parts is less by", f"{worse:.2%}", "2 %", worse <= 0.02)


def _decision(text: str, jobs: int, gpus: int) -> tuple[float, float]:
    """Seconds of the first decision, and the smallest normalised share of any job in it."""
    table, chance = _table(), Random(f"scale/{jobs}")
    kinds = {"v100": 0.25, "p100": 0.45, "k80": 0.3}
    nodes = [
        Node(f"{kind}-{n}", 4, kind=kind)
        for kind, part in kinds.items()
        for n in range(round(gpus * part / 4))
    ]
    known = [model for model, rows in table.speeds.items() if len(rows) >= len(kinds)]
    arrivals = []
    for number in range(jobs):
        model, size = chance.choice(known), chance.choice([1, 2, 4, 4, 8])
        job = Job(JobId(str(number)), size, model=str(model), user=chance.choice("uvw"))
        arrivals.append(Arrival(0.0, job, chance.uniform(1e3, 1e5)))
    one = Experiment(arrivals, nodes, speed_table=table, speeds="oracle")
    policy, world, state = one.policy(text), one.world(), State()
    for event in world.observe():
        state.record(event)
    began = process_time()
    actions = list(policy.decide(state))
    seconds = process_time() - began
    return seconds, _least(one, state, actions)


def _least(one: Experiment, state: State, actions: Sequence[Action]) -> float:
    turn = RoundTurn(state, RoundBeliefs(Oracle({}), AsMeasured(_table()), ROUND_S, True), "none")
    noted = next(a.value for a in actions if isinstance(a, Note))
    counts, least = turn.claimants.counts, inf
    for track in turn.claimants.tracks:
        rates, shares = turn.claimants.rates(track), noted["jobs"][track.job.id][2]
        mixture = sum(map(mul, rates, counts)) / sum(counts)
        least = min(least, track.job.gpus * sum(map(mul, rates, shares)) / mixture)
    return least
