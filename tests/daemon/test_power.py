"""Power limits on GPUs: set for the jobs that frugal chose them for, put back, and never made up."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import JournalEntry, Paced, Resize, Start
from dovetail.core.errors import BadInput
from dovetail.core.journal import decode
from dovetail.core.model import Job, JobId, Option
from dovetail.daemon.history.costs import charged
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.worlds.local.gpus.power import PowerLimits
from gpu_stand_in import Cards, two_gpus
from live_box import ME, Box, box

TABLE = """model,power_limit,time,watts
net,700,10.0,600
net,400,10.5,390
net,250,16.0,245
"""
HASTY = {"model": "net", "options": {"H200": {"1": "5s"}}}  # without a deadline time is worth 400 W


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    return two_gpus(tmp_path, monkeypatch)


def table(folder: Path, text: str = TABLE) -> list[str]:
    path = folder / "power.csv"
    path.write_text(text)
    return [f"H200={path}"]


def limits_in(entries: list[JournalEntry]) -> list[int]:
    return [entry.placement.limit for entry in entries if isinstance(entry, Start | Resize)]


def test_a_limit_is_set_while_its_job_runs_and_put_back_after_it(
    tmp_path: Path, cards: Cards
) -> None:
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        job = here.submit("sleep 0.7", **HASTY)
        here.wait_until(job, "running")
        here.wait_for(lambda: cards.watts == [400, 700])
        assert here.job(job)["placement"][0]["power_limit_watts"] == 400
        here.wait(job)
        here.wait_for(lambda: cards.watts == [700, 700])
        assert not here.home.power_note.exists()
        assert here.daemon.world.power.notices == []
        paces = [entry.speed for entry in here.journal() if isinstance(entry, Paced)]
    assert paces == [pytest.approx(10 / 10.5)], "it is known to be slower"


def test_another_limit_is_set_as_the_job_runs(tmp_path: Path, cards: Cards) -> None:
    """A tight deadline is met with a mix of two limits, the faster one first."""
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        job = here.submit("sleep 4", **HASTY, deadline="+7s", late_cost="1/s")
        here.wait_for(lambda: cards.watts == [400, 700])
        here.wait_for(lambda: cards.watts == [250, 700])
        here.wait(job)
        entries = here.journal()
    assert limits_in(entries) == [400, 250]
    paces = [entry.speed for entry in entries if isinstance(entry, Paced)]
    assert paces == pytest.approx([10 / 10.5, 10 / 16])


def test_a_job_that_gives_way_leaves_its_gpu_without_a_limit(tmp_path: Path, cards: Cards) -> None:
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        job = here.submit("sleep 30", **HASTY)
        here.wait_for(lambda: cards.watts == [400, 700])
        here.service.pause([job], ME)
        here.wait_until(job, "suspended")
        here.wait_for(lambda: cards.watts == [700, 700])
        here.service.resume([job], ME)
        here.wait_for(lambda: cards.watts == [400, 700])
    assert cards.watts == [700, 700], "cancelled with the daemon"


def test_what_a_killed_daemon_has_limited_the_next_one_keeps_and_puts_back(
    tmp_path: Path, cards: Cards
) -> None:
    kill_a_daemon_in_the_middle(tmp_path, cards, "sleep 3")
    with box(tmp_path / "home") as here:
        assert here.job("1")["phase"] == "running"
        assert here.daemon.costs.watts("H200", 1) == 700, "the card's usual limit, not that of now"
        assert cards.watts == [400, 700]
        here.wait("1")
        here.wait_for(lambda: cards.watts == [700, 700])


def test_a_job_that_ended_meanwhile_leaves_no_limit_behind(tmp_path: Path, cards: Cards) -> None:
    kill_a_daemon_in_the_middle(tmp_path, cards, "sleep 0.5")
    with box(tmp_path / "home", power_table=["none"]) as here:
        here.wait("1")
        here.wait_for(lambda: cards.watts == [700, 700])
        assert not here.home.power_note.exists()


def kill_a_daemon_in_the_middle(folder: Path, cards: Cards, script: str) -> None:
    """As it runs a job under a limit. It is a child of ours that makes a box of its own."""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        here = Box(folder / "home", policy="frugal", power_table=table(folder))
        here.wait_until(here.submit(script, **HASTY), "running")
        here.wait_for(lambda: cards.watts == [400, 700])
        os.write(tell, b"1")
        signal.pause()
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)


def test_what_a_limit_saves_is_charged_less(tmp_path: Path, cards: Cards) -> None:
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        (row,) = here.wait(here.submit("sleep 0.5", **HASTY))
        found = charged(here.journal(), here.daemon.costs, here.daemon.clock())
    assert found["energy_kwh"] == pytest.approx(row["run_s"] * 0.390 / 3600, rel=1e-6)


def test_without_permission_it_is_said_once_and_jobs_run_and_are_charged_without_limits(
    tmp_path: Path, cards: Cards, caplog: pytest.LogCaptureFixture
) -> None:
    cards.refuse("NoPermission")
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        (row,) = here.wait(here.submit("sleep 0.5", **HASTY))
        (notice,) = here.daemon.world.power.notices
        found = charged(here.journal(), here.daemon.costs, here.daemon.clock())
        assert limits_in(here.journal()) == [0]
        assert caplog.text.count("no power limits") == 1
    assert notice.startswith("no power limits for H200: setting them takes root")
    assert found["energy_kwh"] == pytest.approx(row["run_s"] * 0.600 / 3600, rel=1e-6)


def test_a_limit_that_is_refused_after_all_is_not_in_the_books(
    tmp_path: Path, cards: Cards
) -> None:
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        cards.refuse("NotSupported")
        first = here.submit("sleep 1.5", **HASTY)
        here.wait_until(first, "running")
        here.wait_for(lambda: limits_in(here.journal()) == [400, 0])
        here.wait(here.submit("sleep 0.2", **HASTY), first)
        assert limits_in(here.journal()) == [400, 0, 0]
        assert len(here.daemon.world.power.notices) == 1
        assert "GPU-0 was to have 400 W" in here.daemon.world.power.notices[0]
        assert not here.home.power_note.exists(), "nothing was changed"
    assert cards.watts == [700, 700]


def test_a_refusal_keeps_no_other_limit_from_being_put_back(tmp_path: Path, cards: Cards) -> None:
    limits = PowerLimits(tmp_path / "power.json")
    assert limits.hold({"GPU-0": 400})
    cards.refuse("NotSupported")
    assert not limits.hold({"GPU-0": 400, "GPU-1": 400})
    assert limits.are_held(["GPU-0"], 400)
    assert not limits.are_held(["GPU-1"], 400)
    cards.refuse("")
    limits.hold({})
    assert cards.watts == [700, 700]


def test_what_cannot_be_noted_is_not_changed(tmp_path: Path, cards: Cards) -> None:
    limits = PowerLimits(tmp_path / "gone" / "power.json")
    assert not limits.hold({"GPU-0": 400})
    assert cards.watts == [700, 700]
    assert "power.json cannot be written" in limits.notices[0]


def test_limits_beyond_what_the_cards_may_have_are_left_out_and_said(
    tmp_path: Path, cards: Cards
) -> None:
    rows = TABLE + "net,150,30.0,150\n"
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path, rows)) as here:
        assert here.daemon.world.power.notices == [
            "no power limits of 150 W: H200 may have 200 to 700 W"
        ]
        assert here.daemon.chosen.costs.power.limits("H200") == {400, 250}


def test_a_lower_limit_of_an_administrator_is_kept_to_and_put_back(
    tmp_path: Path, cards: Cards
) -> None:
    cards.tell(watts=300)
    costs = tmp_path / "costs.toml"
    costs.write_text("price = 0.25\n")
    settings = {"power_table": table(tmp_path), "costs": str(costs)}
    with box(tmp_path / "home", policy="andreas-greedy", **settings) as here:
        job = here.submit("sleep 0.7", **HASTY, deadline="+1h", late_cost="1/s")
        here.wait_for(lambda: cards.watts == [250, 300])
        here.wait(job)
        here.wait_for(lambda: cards.watts == [300, 300])


def test_processor_slots_have_no_limits_and_that_is_said(tmp_path: Path) -> None:
    own = table(tmp_path, TABLE.replace("net,", "cpu,net,").replace("model,", "kind,model,"))
    own = [own[0].removeprefix("H200=")]
    with box(tmp_path / "home", policy="frugal", power_table=own) as here:
        assert here.daemon.world.power.notices == ["no power limits: processor slots have none"]
        here.wait(here.submit("true", model="net", options={"cpu": {"1": "1s"}}))
        assert limits_in(here.journal()) == [0]
    with box(tmp_path / "other", power_table=table(tmp_path)) as here:
        assert "nothing for the GPUs here (cpu)" in here.daemon.world.power.notices[0]


def test_the_table_is_remembered_until_it_is_gone_or_to_be_forgotten(
    tmp_path: Path, cards: Cards
) -> None:
    with box(tmp_path / "home", power_table=table(tmp_path)) as here:
        assert here.daemon.costs.power
    with box(tmp_path / "home") as here:
        assert here.daemon.costs.power
    (tmp_path / "power.csv").unlink()
    with box(tmp_path / "home") as here:
        assert not here.daemon.costs.power
        assert "power.csv" in here.daemon.world.power.notices[0]
    with box(tmp_path / "home", power_table=["none"]) as here:
        assert not here.daemon.costs.power
    with pytest.raises(BadInput, match=r"power\.csv"):
        Box(tmp_path / "new", power_table=[f"H200={tmp_path / 'power.csv'}"])


def test_live_it_chooses_the_limits_that_it_chooses_simulated(tmp_path: Path, cards: Cards) -> None:
    """One job in a hurry, one with time, one that has none of the models that were measured."""
    ways = (Option("H200", 1, 0.5),)
    wishes: list[dict[str, Any]] = [
        {"model": "net"},
        {"model": "net", "deadline": 2.0, "late_cost_per_s": 1.0},
        {"model": "other"},
    ]
    with box(tmp_path / "home", policy="frugal", power_table=table(tmp_path)) as here:
        for wish in wishes:
            said = {"options": {"H200": {"1": "0.5s"}}, **wish}
            if late := said.pop("late_cost_per_s", None):
                said |= {"deadline": f"+{said['deadline']:g}s", "late_cost": f"{late:g}/s"}
            here.wait(here.submit("sleep 0.1", **said))
        entries, costs, nodes = here.journal(), here.daemon.costs, here.daemon.state.room.nodes
    jobs = [
        Job(JobId(f"{number}"), kinds=("H200",), options=ways, **wish)
        for number, wish in enumerate(wishes)
    ]
    simulated = []
    for job in jobs:
        path = tmp_path / "journal.jsonl"
        simulate(Experiment([Arrival(0.0, job, 0.5)], nodes, costs=costs), "frugal", journal=path)
        simulated += limits_in([decode(line) for line in path.read_text().splitlines()])
    assert limits_in(entries) == simulated
    assert set(simulated) == {400, 250, 0}


def test_a_note_of_another_boot_says_nothing(tmp_path: Path) -> None:
    note = tmp_path / "power.json"
    note.write_text('{"boot": "long ago", "milliwatts": {"GPU-0": 1}}')
    assert PowerLimits(note).usual_watts == {}
    note.write_text("not a note")
    assert PowerLimits(note).usual_watts == {}
