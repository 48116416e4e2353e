"""The benchmarks of predicted and measured cost, as far as they need neither minutes nor a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import costing, energy_gpu
from benchmarks.costing import Training

from dovetail.core.model import Node
from dovetail.jobfiles.profile_table import ProfileTable, Timing

NODE = Node("here", 2, "cpu")
TRAININGS = [
    Training(
        "quick", ("true",), ProfileTable((Timing("cpu", 1, 4.0, 0.5), Timing("cpu", 2, 7.0, 0.5)))
    ),
    Training(
        "slow", ("true",), ProfileTable((Timing("cpu", 1, 1.0, 1.0), Timing("cpu", 2, 1.6, 1.0)))
    ),
]


def test_twenty_jobs_are_foretold_alike_every_time(tmp_path: Path) -> None:
    costs = costing.costs_in(tmp_path / "costs.toml", [NODE], 0.25, {"cpu": (60.0, 90.0)})
    plan = costing.planned(TRAININGS, (3.0, 10.0), 2.5, 2, "0.05/h", seed=1)
    assert len(plan) == 20
    assert plan == costing.planned(TRAININGS, (3.0, 10.0), 2.5, 2, "0.05/h", seed=1)
    found = costing.predicted(plan, [NODE], costs)
    assert found["finished"] == 20
    assert found["total_cost"] == costing.predicted(plan, [NODE], costs)["total_cost"]
    full = sum(own.training.table.timings[0].seconds(own.steps) for own in plan) / 2
    assert found["energy_kwh"] > 0.9 * full * 90 / 3.6e6, "every job takes its time on some slot"


def test_real_jobs_cost_about_what_was_foretold(tmp_path: Path) -> None:
    """Two of them, with steps that only sleep: the whole way of the benchmark."""
    script = tmp_path / "sleeping.py"
    script.write_text(
        "import json, sys, time\n"
        "for step in range(int(sys.argv[2])):\n"
        "    time.sleep(0.2)\n"
        '    print(json.dumps({"step": step, "loss": 1.0}), flush=True)\n'
    )
    costs = costing.costs_in(tmp_path / "costs.toml", [NODE], 0.25, {"cpu": (60.0, 90.0)})
    training = Training("sleeping", (sys.executable, str(script), "x"))
    training = costing.profiled(training, [NODE], tmp_path, 1.5, 1_000)
    plan = costing.planned([training], (1.0, 2.0), 0.1, 2, "0.05/h", seed=1)[:2]
    foreseen = costing.predicted(plan, [NODE], costs)
    found = costing.lived(plan, tmp_path / "home", tmp_path / "costs.toml", 2)
    assert set(found.took) == {"sleeping-0", "sleeping-1"}
    assert found.figures["energy_cost"] == pytest.approx(foreseen["energy_cost"], rel=0.6)


def test_the_mean_draw_of_the_jobs_counts_their_time() -> None:
    hungry = Training(
        "hungry", ("true",), ProfileTable((Timing("H200", 1, 1.0, 0.0, 0.0, 600.0, 100.0),))
    )
    modest = Training(
        "modest", ("true",), ProfileTable((Timing("H200", 1, 2.0, 5.0, 0.0, 200.0, 100.0),))
    )
    plan = costing.planned([hungry, modest], (4.0, 5.0), 1.0, 1, "1/h", seed=2)
    assert 200 < energy_gpu.mean_watts(plan) < 600
    assert energy_gpu.compared_row("x", 2.0, 2.1) == "| x | 2.000000 | 2.100000 | +5.0% |"
