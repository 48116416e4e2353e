"""pollux and sia against what the authors' own simulators gave, and how long a large decision takes.

Sia's tables are not ours to ship: `DOVETAIL_SIA` names the folder `sia-simulator/traces` of its
public repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import mean
from time import perf_counter, process_time

from benchmarks.lines import Line
from dovetail import traces
from dovetail.core.entries import NodeJoined, Reported, Start, Started, Submitted, Wake
from dovetail.core.loop import Policy
from dovetail.core.model import Interruption, Job, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.epochs import RoundRules, Training
from dovetail.models.goodput import BatchRange, GradientNoise, StepTimes
from dovetail.models.goodput_agent import BatchAgent
from dovetail.models.goodput_fit import SeenStep
from dovetail.policies.goodput.dividing import solved_in_parts
from dovetail.policies.goodput.pollux import Pollux
from dovetail.policies.goodput.sia import Sia
from dovetail.traces.clusters.applications import read_applications
from dovetail.traces.clusters.applications_by_kind import read_by_kind
from dovetail.traces.clusters.cluster_text import read_cluster

SHARED = Path(__file__).parent.parent.parent / "shared"
TABLES = SHARED / "data/pollux"
PUBLISHED = {"1": 2088.76875, "2": 3322.94375, "3": 2188.49375, "4": 2720.98125}
SEEDS = (1, 2, 3, 4, 5)
SIA_CLUSTER, SIA_MEAN = "6x4:aws+2x8:dgx-ext+3x8:rtx", 1130.725
MARGIN = 0.03
POLLUX_ROUNDS, SIA_ROUNDS = 10.0, 32.0  # a CPU-second: 20 times what the originals do
JOBS, NODES, GPUS_EACH, PARTS = 500, 125, 8, 8


def measured() -> Iterator[Line]:
    """Pollux' four workloads with five seeds each, Sia's short run, and decisions at 1,000 GPUs."""
    yield from _pollux()
    yield from _sia()
    yield from _large_decisions()
    yield from _in_parts()


def _pollux() -> Iterator[Line]:
    if not TABLES.exists():
        print("     Pollux' tables are not here: left out")
        return
    training = Training(read_applications(str(TABLES)), RoundRules())
    for number, published in PUBLISHED.items():
        found = traces.read(f"{TABLES}/workloads_1_to_4.csv#{number}", training=training)
        experiment = Experiment(
            found.arrivals, read_cluster("16x4"), training=training, round_s=60.0
        )
        runs = [simulate(experiment, f"pollux:seed={seed}").summary for seed in SEEDS]
        jct = mean([float(run["mean_jct_s"]) for run in runs])
        rounds = mean([_rounds(run) for run in runs])
        yield _of_mean(f"pollux, workload {number}: mean of {len(SEEDS)} seeds", jct, published)
        yield _of_rounds(f"pollux, workload {number}", rounds, POLLUX_ROUNDS)


def _sia() -> Iterator[Line]:
    folder, workload = os.environ.get("DOVETAIL_SIA", ""), SHARED / "golden/allocation/sia"
    if not folder or not workload.exists():
        print("     Sia's tables are not here (DOVETAIL_SIA=FOLDER): left out")
        return
    nodes = read_cluster(SIA_CLUSTER)
    tables = read_by_kind(folder, list(dict.fromkeys([node.kind for node in nodes])))
    first = {name: own["aws"] for name, own in tables.applications.items()}
    training = Training(first, RoundRules(), tables)
    found = traces.read(f"{workload}/workload_saturn4_first40.csv", training=training)
    experiment = Experiment(found.arrivals, nodes, training=training, round_s=60.0)
    run = simulate(experiment, "sia").summary
    yield _of_mean("sia, 40 jobs on three GPU kinds: mean", float(run["mean_jct_s"]), SIA_MEAN)
    yield _of_rounds("sia", _rounds(run), SIA_ROUNDS)


def _rounds(run: Mapping[str, float | int | str]) -> float:
    return float(run["makespan_s"]) / 60.0 / float(run["cpu_seconds"])


def _of_mean(what: str, jct: Seconds, published: Seconds) -> Line:
    off = jct / published - 1.0
    return Line(
        what, f"{jct:.1f} ({off:+.1%})", f"{published:.1f} ± {MARGIN:.0%}", abs(off) <= MARGIN
    )


def _of_rounds(what: str, rounds: float, least: float) -> Line:
    return Line(f"{what}: rounds a CPU-second", f"{rounds:.0f}", f">= {least:g}", rounds >= least)


def _large_decisions() -> Iterator[Line]:
    for policy in (Pollux(), Sia()):
        state = large_state()
        began = perf_counter()
        list(policy.decide(state))
        seconds = perf_counter() - began
        name = type(policy).__name__.lower()
        what = f"{name}: a decision for {JOBS} jobs on {NODES * GPUS_EACH} GPUs"
        yield Line(what, f"{seconds:.2f} s", "<= 1 s", seconds <= 1.0)


def _in_parts() -> Iterator[Line]:
    """At ten times the size, by `pop`: the time of a decision, and what is lost by the parts."""
    state = large_state(10 * JOBS, 10 * NODES)
    whole, divided = (_sia_cost(state, Sia(limit_s=60.0, parts=parts)) for parts in (1, PARTS))
    yield Line(
        "sia's cost in parts, over that of the whole",
        f"{divided / whole - 1:+.2%}",
        "+2 %",
        divided <= 1.02 * whole,
    )
    for policy in (Pollux(), Sia()):
        name, parts = type(policy).__name__.lower(), policy.divided(PARTS)
        began = process_time()
        list(parts.decide(state))
        seconds = process_time() - began
        what = f"pop:k={PARTS}:policy={name}: {10 * JOBS} jobs on {10 * NODES * GPUS_EACH} GPUs"
        yield Line(what, f"{seconds:.2f} s", "<= 2 s", seconds <= 2.0)


def _sia_cost(state: State, sia: Sia) -> float:
    problem = sia.pose(state)
    assert problem is not None
    return solved_in_parts(problem.program, sia.parts, sia.limit_s).cost


def large_state(jobs: int = JOBS, nodes: int = NODES) -> State:
    """Elastic jobs, half of them at work and telling of themselves, the others waiting."""
    state, chance = State(), Random(1)
    for n in range(nodes):
        state.record(NodeJoined(0.0, Node(f"n{n}", GPUS_EACH)))
    own = [
        Job(JobId(f"j{i}"), min_gpus=1, max_gpus=32, interruption=Interruption(0.0, 30.0, 0.0))
        for i in range(jobs)
    ]
    for job in own:
        state.record(Submitted(0.0, job))
    _start(state, Sia())
    for job_id in list(state.running):
        state.record(Started(0.0, job_id))
        if chance.random() < 0.5:
            state.record(Reported(0.0, job_id, 1.0, _told(chance)))
    state.record(Submitted(6000.0, Job(JobId("last"), min_gpus=1, max_gpus=32)))
    return state


def _start(state: State, policy: Policy) -> None:
    for action in list(policy.decide(state)):
        if isinstance(action, Start):
            state.record(action)
        else:
            assert isinstance(action, Wake) or action.tag == "note"


def _told(chance: Random) -> dict[str, float | str]:
    times = StepTimes(
        chance.uniform(0.05, 0.2), chance.uniform(0.005, 0.02), 0.1, 0.01, 0.03, 0.005, 1.5
    )
    agent, batches = BatchAgent(), BatchRange(32, 1024, 8, 128)
    for nodes, gpus, local in ((1, 1, 32), (1, 2, 32), (1, 8, 16), (2, 16, 16)):
        seen = float(times.computing(local)), float(times.step(nodes, gpus, local, 0))
        noise = GradientNoise(1.0, chance.uniform(1.0, 50.0))
        agent.saw("gpu", SeenStep(nodes, gpus, local, *seen), noise, batches)
    return agent.told()
