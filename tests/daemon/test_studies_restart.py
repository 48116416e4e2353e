"""The daemon is killed with SIGKILL in the middle of a study: it goes on where it was."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.journal import decode
from dovetail.store import JournalReader
from dovetail.testing import Audit
from dovetail.worlds.local.runs.run import ProcessRun
from study_box import study
from waiting import until

Start = Callable[..., Any]
STEPS = 10


def opened(live: Any, **fields: Any) -> Any:
    body = {"spec": study(**fields), "workdir": str(live.folder)}
    return live.ask("POST", "/v1/studies", {**body, "environment": {"PATH": os.environ["PATH"]}})


def page(live: Any) -> Any:
    return live.get("/v1/studies/digits")


def kill(live: Any) -> None:
    live.process.send_signal(signal.SIGKILL)
    live.process.wait()


def test_curves_turns_and_the_queue_outlive_the_daemon(start: Start, tmp_path: Path) -> None:
    live = start(tmp_path, policy="fifo-skip")
    opened(live, trials=6, steps=STEPS, at_once=2, pace=0.4)
    seen: list[list[Any]] = [[] for _ in range(6)]
    for _ in range(2):
        found = after_steps(live, 3)
        for points, trial in zip(seen, found["trials"], strict=True):
            assert trial["points"][: len(points)] == points  # nothing is forgotten or told anew
            points[:] = trial["points"]
        kill(live)
        time.sleep(0.3)
        live = start(tmp_path)
    found = until(lambda: (own := page(live))["state"] == "closed" and own)
    assert found["reason"] == "all trials are done"
    for trial, points in zip(found["trials"], seen, strict=True):
        assert [point[0] for point in trial["points"]] == list(range(1, STEPS + 1))
        assert trial["points"][: len(points)] == points
        log = live.text(f"/v1/jobs/{trial['job']}/log")
        assert log.count("begins at") == 1  # its process outlived them all
    assert audited(tmp_path) == 6


def is_frozen(live: Any, job_id: str) -> bool:
    way = live.get(f"/v1/jobs/{job_id}")["preemption"]
    return way is not None and way["rung"] == "freeze"


def after_steps(live: Any, number: int) -> Any:
    """The page once so many steps more are made."""
    before = made(page(live))
    return until(lambda: made(own := page(live)) >= before + number and own)


def made(found: Any) -> int:
    return sum(len(trial["points"]) for trial in found["trials"])


def audited(folder: Path) -> int:
    """How many jobs ended, in a journal that breaks no law of the cluster."""
    reader = JournalReader(folder / "dovetail.db")
    entries, now = [], 0.0
    for _, line in reader.lines_after(0):
        entry = decode(line)
        now = getattr(entry, "at", now)
        entries.append((now, entry))
    reader.close()
    return len(Audit().read(entries).ended)


def test_a_study_outlives_the_processes_of_its_trials(start: Start, tmp_path: Path) -> None:
    """As after a restart of the machine: those that ran begin anew, and the curves are whole."""
    live = start(tmp_path)
    jobs = opened(live, trials=3, steps=6, pace=0.3, policy="fifo")["trials"]
    until(lambda: made(page(live)) >= 3)
    kill(live)
    running = [
        run for job_id in jobs if (run := ProcessRun(tmp_path / "runs" / job_id / "1")).is_alive()
    ]
    for run in running:
        keeper = run.keeper_pid()
        assert keeper is not None
        os.kill(
            keeper, signal.SIGKILL
        )  # alone: its job goes with it, and nobody says how that ended
    assert running
    live = start(tmp_path)
    found = until(lambda: (own := page(live))["state"] == "closed" and own)
    assert found["reason"] == "all trials are done"
    assert [len(trial["points"]) for trial in found["trials"]] == [6, 6, 6]


def test_what_is_reported_in_an_outage_counts_before_a_budget_that_ran_out_in_it(
    start: Start, tmp_path: Path
) -> None:
    """And as if it had been reported evenly, since nobody noted when."""
    live = start(tmp_path)
    opened(live, trials=1, steps=100, pace=0.1, budget={"time": 2})
    until(lambda: made(page(live)) >= 1)
    kill(live)
    time.sleep(2.5)
    live = start(tmp_path)
    found = until(lambda: (own := page(live))["state"] == "closed" and own)
    assert "budget of 2 s" in found["reason"]
    (trial,) = found["trials"]
    assert len(trial["points"]) > 5
    times = [point[2] for point in trial["points"]]
    assert times == sorted(times)
    assert sum(time < times[-1] - 0.7 for time in times) > len(times) / 4


def test_a_stopped_study_is_stopped_after_a_restart_and_goes_on_when_resumed(
    start: Start, tmp_path: Path
) -> None:
    live = start(tmp_path)
    jobs = opened(live, trials=2, steps=5, pace=0.4)["trials"]
    until(lambda: made(page(live)) >= 2)
    live.ask("POST", "/v1/studies/digits/stop")
    until(lambda: all(is_frozen(live, job_id) for job_id in jobs))
    kill(live)
    live = start(tmp_path)
    assert page(live)["state"] == "stopped"
    live.ask("POST", "/v1/studies/digits/resume")
    found = until(lambda: (own := page(live))["state"] == "closed" and own)
    assert made(found) == 10


@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="without optuna")
def test_a_sampler_that_learns_goes_on_after_a_restart(start: Start, tmp_path: Path) -> None:
    live = start(tmp_path)
    opened(live, trials=6, steps=2, sampler="tpe", policy="fifo", pace=0.2)
    until(lambda: made(page(live)) >= 3)
    before = [trial["settings"] for trial in page(live)["trials"]]
    kill(live)
    live = start(tmp_path)
    found = until(lambda: (own := page(live))["state"] == "closed" and own)
    assert [trial["settings"] for trial in found["trials"]][: len(before)] == before
    assert found["done"] == 6


def test_the_api_answers_in_one_line_what_is_wrong(start: Start, tmp_path: Path) -> None:
    live = start(tmp_path)
    opened(live, steps=100)
    body = {"workdir": str(tmp_path), "environment": {"PATH": os.environ["PATH"]}}
    status, answer = live.try_to("POST", "/v1/studies", {**body, "spec": study()})
    assert (status, "'digits' is open" in answer["error"]) == (409, True)
    wrong = {**study(name="b"), "space": {"lr": {"float": [1, 0]}}}
    status, answer = live.try_to("POST", "/v1/studies", {**body, "spec": wrong})
    assert (status, "space.lr" in answer["error"]) == (400, True)
    status, answer = live.try_to("GET", "/v1/studies/nothing")
    assert (status, "there is no study" in answer["error"]) == (404, True)
    assert [row["name"] for row in live.get("/v1/studies")["studies"]] == ["digits"]
