"""What the first decision about 500 jobs costs on 1,000 GPUs of three kinds, by policy."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import process_time
from typing import Final

from benchmarks.lines import Line
from dovetail.core.model import Job, JobId, Node
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival

GPUS, JOBS, WIDTH = 1000, 500, 4
KINDS: Final = {"v100": 0.25, "p100": 0.45, "k80": 0.3}
HEURISTIC_S, SOLVER_S = 0.05, 1.0
HEURISTICS: Final = ("optimus", "afs", "genie", "chronus", "elasticflow", "powercap", "flex")
SOLVERS: Final = ("gandiva-fair", "allox", "sia", "pollux")  # and gavel, measured beside its runs


def measured(table: SpeedTable) -> Iterator[Line]:
    """All jobs come at one instant: the most there is ever to be decided."""
    for elastic in (False, True):
        one, kind = _experiment(table, elastic), "elastic" if elastic else "rigid"
        for name in (*HEURISTICS, *SOLVERS):
            most_s = HEURISTIC_S if name in HEURISTICS else SOLVER_S
            seconds = _decision(one, name)
            what = f"{name}: a decision, {GPUS:,} GPUs, {JOBS} {kind} jobs at once"
            yield Line(what, f"{seconds:.2f} s", f"{most_s:g} s", seconds < most_s)


def _experiment(table: SpeedTable, elastic: bool) -> Experiment:
    chance = Random(f"decisions/{elastic}")
    nodes = [
        Node(f"{kind}-{number}", WIDTH, kind=kind)
        for kind, part in KINDS.items()
        for number in range(round(GPUS * part / WIDTH))
    ]
    known = [model for model, rows in table.speeds.items() if len(rows) >= len(KINDS)]
    arrivals = []
    for number in range(JOBS):
        gpus, work_s = chance.choice([1, 2, 4, 4, 8]), chance.uniform(1e3, 1e5)
        job = Job(
            JobId(str(number)),
            gpus,
            model=str(chance.choice(known)),
            user=chance.choice("uvw"),
            deadline=work_s * chance.uniform(1.0, 4.0),
            min_gpus=1 if elastic else None,
            max_gpus=8 if elastic else None,
        )
        arrivals.append(Arrival(0.0, job, work_s))
    return Experiment(arrivals, nodes, speed_table=table, speeds="oracle")


def _decision(one: Experiment, text: str) -> float:
    policy, world, state = one.policy(text), one.world(), State()
    for event in world.observe():
        state.record(event)
    began = process_time()
    list(policy.decide(state))
    return process_time() - began
