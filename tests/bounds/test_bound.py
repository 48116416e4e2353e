"""`dovetail bound`: nobody is below the bounds, and the best schedule is as good as known."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from time import process_time

import pytest
from click.testing import CliRunner

from dovetail.bounds.by_hand import simple_bound
from dovetail.bounds.solver import solved
from dovetail.bounds.time_slots import Slotted, usual_slot_s
from dovetail.cli.main import cli
from dovetail.core.model import Node, Option
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.workload import Arrival
from dovetail.traces.readers.andreas_folder import timed_job, write_instance
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

pytest.importorskip("scipy")

RATES = {
    "big": NodeRates(per_hour=(0.0, 0.121, 0.160, 0.199, 0.237)),
    "odd": NodeRates(per_hour=(0.0, 0.5, 0.6, 1.0)),  # a third GPU is dearer than the second
}
COSTS = Costs(RATES)


def drawn(seed: int) -> tuple[list[Arrival], list[Node]]:
    chance = Random(seed)
    arrivals = []
    for i in range(7):
        at, t = 9000.0 * chance.random(), 3000.0 + 6000 * chance.random()
        options = [Option("big", 1, t), Option("big", 2, t / 1.4), Option("odd", 1, t / 1.5)]
        due = at + t * chance.uniform(0.3, 2.0)
        job = timed_job(f"j{i}", options, options, deadline=due, late_cost_per_s=0.0004)
        arrivals.append(Arrival(at, job, job.options[0].seconds))
    return sorted(arrivals, key=lambda a: a.at), [Node("n0", 4, "big"), Node("n1", 3, "odd")]


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_costs_less_than_the_bounds(seed: int) -> None:
    arrivals, nodes = drawn(seed)
    relaxed = solved(Slotted(arrivals, nodes, COSTS, usual_slot_s(arrivals), relaxed=True), 20.0)
    assert relaxed.in_time
    bound = max(relaxed.bound, simple_bound(arrivals, nodes, COSTS))
    experiment = Experiment(arrivals, nodes, costs=COSTS)
    for policy in ("andreas-greedy", "andreas-fifo", "andreas-random-greedy:repaired=true", "srtf"):
        assert float(simulate(experiment, policy).summary["total_cost"]) >= bound - 1e-9


def test_one_job_alone_costs_what_its_thriftiest_way_does() -> None:
    options = [Option("big", 1, 3600.0), Option("big", 2, 2400.0)]
    job = timed_job("j", options, options, deadline=1e5, late_cost_per_s=1.0)
    found = solved(
        Slotted([Arrival(0.0, job, 3600.0)], [Node("n", 4, "big")], COSTS, 600.0, False), 9.0
    )
    assert found.cost == pytest.approx(0.160 * 2400 / 3600)
    assert found.in_time


def test_the_best_schedule_lets_a_job_wait_to_share_a_node() -> None:
    """Two jobs that come apart: with a lot of slack they run side by side."""
    options = [Option("big", 1, 3600.0)]
    jobs = [timed_job(n, options, options, deadline=1e5, late_cost_per_s=1.0) for n in "ab"]
    arrivals = [Arrival(at, job, 3600.0) for at, job in zip((0.0, 3600.0), jobs, strict=True)]
    found = solved(Slotted(arrivals, [Node("n", 4, "big")], COSTS, 1200.0, False), 9.0)
    assert found.cost == pytest.approx(0.160)


def test_lateness_is_paid_where_it_cannot_be_avoided() -> None:
    options = [Option("big", 1, 3600.0)]
    job = timed_job("j", options, options, deadline=1800.0, late_cost_per_s=0.01)
    program = [Slotted([Arrival(0.0, job, 3600.0)], [Node("n", 4, "big")], COSTS, 600.0, relaxed)
               for relaxed in (True, False)]  # fmt: skip
    relaxed, strict = (solved(one, 9.0) for one in program)
    assert strict.cost == pytest.approx(0.121 + 0.01 * 1800)
    assert 0.01 * 1800 < relaxed.bound <= strict.cost


def test_the_command_says_how_far_policies_are_above(tmp_path: Path) -> None:
    write_instance(tmp_path, draw(Scenario(2, 4, "high", 1)))
    words = ["bound", str(tmp_path), "--optimum", "--limit", "30", "--policies", "andreas-greedy"]
    said = CliRunner().invoke(cli, words)
    assert said.exit_code == 0, said.output
    assert "above the best schedule" in said.output
    told = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert told["simple_bound"] <= told["lp_bound"] <= told["optimum"] * 1.02
    assert told["optimum"] <= told["policies"]["andreas-greedy"]
    simple = CliRunner().invoke(cli, ["bound", str(tmp_path), "--simple"])
    assert "linear" not in simple.output


def test_a_file_is_told_that_a_folder_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s\n0,10\n")
    said = CliRunner().invoke(cli, ["bound", str(tmp_path / "jobs.csv")])
    assert "jobs.csv is a file; name a folder with Lof_Selectjobs.csv" in str(said.exception)


def test_without_a_solver_the_simple_bound_and_the_policies_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_instance(tmp_path, draw(Scenario(2, 4, "high", 1)))
    monkeypatch.setitem(sys.modules, "scipy", None)
    words = ["bound", str(tmp_path), "--policies", "andreas-greedy"]
    said = CliRunner().invoke(cli, words)
    assert said.exit_code == 0
    assert "note: linear programs need SciPy; pip install 'dovetail[bounds]'" in said.stderr
    assert "above the bound" in said.stdout
    said = CliRunner().invoke(cli, [*words, "--optimum"])
    assert "linear programs need SciPy" in str(said.exception)
    assert said.output == ""


@pytest.mark.parametrize("slot", ["0.001", "0.5"])
def test_a_hopeless_number_of_slots_is_refused_at_once(tmp_path: Path, slot: str) -> None:
    write_instance(tmp_path, draw(Scenario(2, 20, "high", 1)))
    began = process_time()
    said = CliRunner().invoke(cli, ["bound", str(tmp_path), "--slot", slot])
    assert "variables, and 400,000 are the most; give longer slots" in str(said.exception)
    assert process_time() - began < 2.0


def test_putting_the_program_together_counts_against_the_limit(tmp_path: Path) -> None:
    write_instance(tmp_path, draw(Scenario(2, 4, "high", 1)))
    said = CliRunner().invoke(cli, ["bound", str(tmp_path), "--limit", "0.000001"])
    assert said.exit_code == 0, said.exception
    assert "none found: time is up; give more with --limit" in said.output


@pytest.mark.parametrize("slot", ["1e-300", "inf", "nan", "-1"])
def test_slots_of_no_sensible_length_are_refused(tmp_path: Path, slot: str) -> None:
    write_instance(tmp_path, draw(Scenario(2, 4, "high", 1)))
    said = CliRunner().invoke(cli, ["bound", str(tmp_path), "--slot", slot])
    assert f"--slot {float(slot):g}: give " in str(said.exception)
