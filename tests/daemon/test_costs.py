"""A daemon that knows costs: frugal runs live, and the journal is charged as simulations are."""

from __future__ import annotations

import json
import time
from datetime import datetime
from math import inf
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.api.wire import plain
from dovetail.core.entries import Finished, Paced, Start
from dovetail.core.errors import BadInput
from dovetail.core.journal import decode
from dovetail.core.model import Job, JobId, Node, Option
from dovetail.daemon.foresight.why import why
from dovetail.daemon.history.as_trace import trace
from dovetail.daemon.history.costs import charged, costs_here
from dovetail.daemon.history.usage import WantedJobs
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.models.workload import Arrival
from dovetail.store import Filter
from live_box import box
from typed_here import typing

NODE = Node("here", 2, "cpu")


def costs_file(folder: Path, text: str = "price = 0.5\n[watts]\ncpu = [1000, 1500]\n") -> str:
    path = folder / "costs.toml"
    path.write_text(text)
    return str(path)


def test_a_live_run_is_charged_by_the_clock_and_the_busy_slots(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        job = made.submit("sleep 0.5", options={"cpu": {"1": "1s"}}, deadline="+1s")
        (row,) = made.wait(job)
        found = charged(made.journal(), made.daemon.costs, made.daemon.clock())
    assert found["energy_kwh"] == pytest.approx(row["run_s"] / 3600, rel=1e-6)
    assert found["energy_cost"] == pytest.approx(0.5 * row["run_s"] / 3600, rel=1e-6)


def test_lateness_is_charged_at_the_jobs_own_rate(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        job = made.submit(
            "sleep 0.8", options={"cpu": {"1": "0.8s"}}, deadline="+0.3s", late_cost="60/min"
        )
        (row,) = made.wait(job)
        found = charged(made.journal(), made.daemon.costs, made.daemon.clock())
    late_s = row["ended_at"] - row["deadline"]
    assert late_s > 0.3
    assert found["tardiness_cost"] == pytest.approx(late_s, rel=1e-3)


def test_frugal_lets_a_job_with_slack_wait_for_company(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        ways = {"cpu": {"1": "2s"}}
        first = made.submit("sleep 0.2", options=ways, deadline="+1h")
        time.sleep(0.5)
        assert made.phase(first) == "queued"
        second = made.submit("sleep 0.2", options=ways, deadline="+1h")
        # Together they begin. Whoever is left behind alone may have to wait for company again.
        made.wait_for(lambda: all(made.job(own)["started_at"] for own in (first, second)))


def test_a_job_runs_in_the_way_the_policy_chose_and_knows_it(tmp_path: Path) -> None:
    """Two slots make it twice as fast at a fraction of the cost, and time is short."""
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        job = made.submit(
            "echo slots $DOVETAIL_GPUS",
            options={"cpu": {"1": "10s", "2": "2s"}},
            deadline="+3s",
            late_cost="1/s",
        )
        made.wait(job)
        assert made.log(job) == "slots 2\n"
        entries = made.journal()
    assert [e.placement.gpus for e in entries if isinstance(e, Start)] == [2]
    assert [e.speed for e in entries if isinstance(e, Paced)] == [5.0]


def test_of_options_for_several_machines_those_of_this_one_count(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="fifo") as made:
        ways = {"V100": {"1": "1h"}, "cpu": {"2": "2h"}}
        (row,) = made.wait(made.submit("echo $DOVETAIL_GPUS", options=ways))
        assert made.log(row["id"]) == "2\n"
    assert row["phase"] == "finished"


def test_the_cost_file_is_remembered_and_can_be_forgotten(tmp_path: Path) -> None:
    with box(tmp_path / "home", costs=costs_file(tmp_path)) as made:
        assert made.daemon.costs.watts("cpu", 2) == 1500
    with box(tmp_path / "home") as made:
        assert made.daemon.costs.watts("cpu", 2) == 1500
    with box(tmp_path / "home", costs="none") as made:
        assert made.daemon.costs.watts("cpu", 2) == 0


def test_a_table_of_24_hours_goes_by_the_wall_clock(tmp_path: Path) -> None:
    (tmp_path / "price.csv").write_text("price\n" + "".join(f"{hour}\n" for hour in range(24)))
    path = costs_file(tmp_path, 'price = "price.csv"\n')
    epoch = datetime(2026, 11, 3, 14, 37).timestamp()
    price = costs_here(path, [NODE], epoch).price
    assert price.at(0.0) == 14
    assert price.changes_after(0.0) == 23 * 60
    assert price.at(23 * 60) == 15
    assert price.total(0.0, 46 * 60) == pytest.approx(23 * 60 * (14 + 15))


def test_a_table_that_would_end_is_refused_by_a_daemon(tmp_path: Path) -> None:
    (tmp_path / "price.csv").write_text("price\n" + "1\n" * 30)
    with pytest.raises(BadInput, match="30 hours; a daemon may run for ever"):
        costs_here(costs_file(tmp_path, 'price = "price.csv"\n'), [NODE], 0.0)


def test_a_simulated_journal_is_charged_as_the_simulation_was(tmp_path: Path) -> None:
    costs = Costs({"cpu": NodeRates((0.0, 60.0, 90.0))}, Hourly([0.25]))
    jobs = [
        Job(JobId(f"j{i}"), kinds=("cpu",), deadline=30.0 * i + 20, late_cost_per_s=0.01,
            options=(Option("cpu", 1, 20.0 + i), Option("cpu", 2, 12.0 + i)))
        for i in range(5)
    ]  # fmt: skip
    arrivals = [Arrival(3.0 * i, job, job.options[0].seconds) for i, job in enumerate(jobs)]
    path = tmp_path / "journal.jsonl"
    summary = simulate(Experiment(arrivals, [NODE], costs=costs), "frugal", journal=path).summary
    entries = [decode(line) for line in path.read_text().splitlines()]
    found = charged(entries, costs, 0.0)
    for name, value in found.items():
        assert value == pytest.approx(summary[name]), name
    middle = max(e.at for e in entries if isinstance(e, Finished)) / 2
    later = charged(entries, costs, 0.0, since=middle)
    assert 0 < later["energy_cost"] < found["energy_cost"]
    assert set(charged(entries, costs, 0.0, since=1e6).values()) == {0}


def test_what_is_on_is_charged_up_to_now(tmp_path: Path) -> None:
    with box(tmp_path / "home", costs=costs_file(tmp_path)) as made:
        made.wait_until(made.submit("sleep 30"), "running")
        entries, now = made.journal(), made.daemon.clock()
        sooner = charged(entries, made.daemon.costs, now)
        later = charged(entries, made.daemon.costs, now + 3600)
    assert later["energy_kwh"] - sooner["energy_kwh"] == pytest.approx(1.0)
    assert inf > later["energy_cost"] > 0


def test_costs_since_then_are_nothing_where_nothing_has_run_since(tmp_path: Path) -> None:
    with box(tmp_path / "home", costs=costs_file(tmp_path)) as made:
        made.wait(made.submit("sleep 0.2"))
        entries, now = made.journal(), made.daemon.clock()
        known = made.daemon.costs
        assert charged(entries, known, now)["energy_kwh"] > 0
        for since in (now + 20, now + 1e9):
            assert set(charged(entries, known, now + 60, since).values()) == {0}


def test_a_job_that_ran_then_already_is_charged_from_then_on(tmp_path: Path) -> None:
    with box(tmp_path / "home", costs=costs_file(tmp_path)) as made:
        made.wait_until(made.submit("sleep 30"), "running")
        entries, now = made.journal(), made.daemon.clock()
        found = charged(entries, made.daemon.costs, now + 7200, since=now + 3600)
    assert found["energy_kwh"] == pytest.approx(1.0)


def test_a_simulation_takes_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s\n0,3600\n")
    type_ = typing(monkeypatch, capsys)
    words = ["--cluster", "1x2:cpu", "--policy", "fifo", "--json", "--costs", costs_file(tmp_path)]
    said = type_("simulate", tmp_path / "jobs.csv", *words)
    assert json.loads(said.out)["energy_cost"] == pytest.approx(0.5)


def test_why_says_that_a_job_has_time(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        job = made.submit("true", options={"cpu": {"1": "2s"}}, deadline="+1h")
        found = plain(why(made.service, job))
    assert "it has time" in found["text"]


def test_the_history_is_a_trace_with_options_and_late_costs(tmp_path: Path) -> None:
    with box(tmp_path / "home", policy="frugal", costs=costs_file(tmp_path)) as made:
        ways = {"cpu": {"1": "10s", "2": "2s"}}
        job = made.submit("sleep 0.5", options=ways, deadline="+3s", late_cost="1/s")
        (row,) = made.wait(job)
        (tmp_path / "past.csv").write_text(trace(made.service, WantedJobs(Filter()), "csv"))
    assert row["gpus"] == 2
    (arrival,) = traces.read(str(tmp_path / "past.csv")).arrivals
    assert arrival.job.options == (Option("cpu", 1, 10.0), Option("cpu", 2, 2.0))
    assert arrival.job.late_cost_per_s == 1.0
    worked_s = row["run_s"] - row["lost_gpu_s"] / 2
    assert arrival.work_s == pytest.approx(5 * worked_s), "it would have taken so long on one"
