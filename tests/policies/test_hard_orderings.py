"""Orderings that hold on every run: a light load leaves nothing to gain, sharing gains half at most."""

import pytest

from dovetail import traces
from dovetail.core.model import Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.testing import arrival

ROUND_S = 60.0
ROUNDS = "round_s=10:reset_s=0"
ALLOCATING = [
    *("optimus", "afs", "afs:lengths=false", "sia", "pollux:generations=2", "flex"),
    *("chronus", "elasticflow", "genie", "powercap"),
    *(f"{name}:{ROUNDS}" for name in ("allox", "gandiva-fair", "gavel", "gavel:aware=false")),
    *(f"gavel:objective={name}:{ROUNDS}" for name in ("finish-time", "makespan", "isolated")),
]


@pytest.mark.parametrize("policy", ALLOCATING)
def test_under_a_light_load_nobody_waits_longer_than_for_the_next_round(policy: str) -> None:
    arrivals = traces.generate(
        traces.Recipe(jobs=12, load=0.12, c2=1, mean_duration_s=600.0, seed=3)
    )
    cluster = [Node(f"n{number}", 8) for number in range(8)]
    run = simulate(Experiment(arrivals, cluster), policy, rows=True)
    assert not run.refusals
    work_s = {str(one.job.id): one.work_s for one in arrivals}
    for row in run.jobs:
        assert row.end_s - row.submit_s <= work_s[row.job_id] * (1 + 1e-9) + ROUND_S


def sharing(parts: float) -> Experiment:
    """Four jobs on two GPUs; beside another each does that part of what it does alone."""
    model, gpu = ModelType("x"), Hardware("v100")
    pairs = {(model, model): {gpu: (10.0 * parts, 10.0 * parts)}}
    table = SpeedTable({model: {gpu: 10.0}}, "v100", pairs)
    jobs = [arrival(f"j{number}", 0.0, 500.0, model="x") for number in range(4)]
    return Experiment(jobs, [Node("n0", 2, kind="v100")], speed_table=table, speeds="oracle")


PACKING = [f"gavel:packing=true:{ROUNDS}", f"gavel:objective=makespan:packing=true:{ROUNDS}"]


@pytest.mark.parametrize("policy", [*PACKING, "gandiva:quantum_s=10"])
def test_sharing_without_harm_halves_the_makespan_at_most(policy: str) -> None:
    run = simulate(sharing(1.0), policy).summary
    assert 500.0 <= float(run["makespan_s"]) <= 520.0  # 1,000 s of work for each GPU


@pytest.mark.parametrize("policy", PACKING)
def test_sharing_that_only_harms_is_no_sharing(policy: str) -> None:
    alone = policy.replace("packing=true:", "")
    for parts in (0.4, 0.5):
        harmed = simulate(sharing(parts), policy, rows=True).jobs
        assert harmed == simulate(sharing(parts), alone, rows=True).jobs


def test_gandiva_is_hardly_slower_where_sharing_only_harms() -> None:
    """A pair is tried for an instant before it is parted."""
    packed = simulate(sharing(0.4), "gandiva:quantum_s=10").summary
    alone = simulate(sharing(0.4), "gandiva:quantum_s=10:pack=false").summary
    assert packed["makespan_s"] == pytest.approx(alone["makespan_s"], rel=0.02)
