"""Trials that begin from what others have saved, and trials that are chosen by what others showed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import Submitted
from dovetail.daemon.users.callers import Caller
from dovetail.tune.rules import Copy, Verdict
from dovetail.tune.sampling import NAMES
from dovetail.tune.study import Study, Trial
from live_box import ME, Box, box
from study_box import TRAIN, closed, open_study, opened, page, steps_told

needs_optuna = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("optuna", "cmaes", "torch", "scipy")),
    reason="without what the learning samplers need",
)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path / "box", policy="fifo-skip") as made:
        yield made


def test_what_trials_have_in_common_is_trained_once(here: Box) -> None:
    """Four trials of six steps that differ from step 3 on: 3 + 4 x 3 steps instead of 24."""
    space = {"lr": {"choice": [0.1]}, "decay": {"choice": [1, 2, 3, 4], "from_step": 3}}
    fields = {"sampler": "grid", "trials": 4, "steps": 6, "checkpoint": {}}
    answer = opened(here, ME, space=space, **fields, pace=0.1)
    jobs = answer["trials"]
    assert (answer["planned"], len(jobs)) == (4, 5)
    found = closed(here)
    assert [trial["state"] for trial in found["trials"]] == ["done"] * 4
    assert steps_told(found) == [[1, 2, 3, 4, 5, 6]] * 4
    begun = [here.log(job).splitlines()[0] for job in jobs]
    assert [line.split(" on ")[0] for line in begun] == ["begins at 0"] + ["begins at 3"] * 4
    first = [trial["points"][0] for trial in found["trials"]]
    assert first == [first[0]] * 4  # it was made once
    assert sorted(trial["settings"]["decay"] for trial in found["trials"]) == [1, 2, 3, 4]


def test_trials_whose_common_part_fails_have_failed(here: Box) -> None:
    space = {"lr": {"choice": [0.1]}, "decay": {"choice": [1, 2], "from_step": 2}}
    open_study(
        here, script="raise SystemExit(3)", space=space, sampler="grid", trials=2, checkpoint={}
    )
    found = closed(here)
    assert [trial["state"] for trial in found["trials"]] == ["failed", "failed"]
    assert "exit code 3" in str(found["reason"]) or "comes after" in str(found["reason"])


def test_a_common_part_that_does_not_end_where_it_is_told_to_fails_with_the_reason(
    here: Box,
) -> None:
    space = {"lr": {"choice": [0.1]}, "decay": {"choice": [1, 2], "from_step": 2}}
    script = TRAIN.replace('os.environ["DOVETAIL_STEPS"]', "'4'")
    fields = {"space": space, "sampler": "grid", "trials": 2, "checkpoint": {}, "pace": 0.02}
    open_study(here, script=script, **fields)
    found = closed(here)
    assert [trial["state"] for trial in found["trials"]] == ["failed", "failed"]
    assert "must end after DOVETAIL_STEPS steps, there 2" in found["trials"][1]["reason"]
    assert steps_told(found)[1] == [1, 2]


@dataclass(frozen=True)
class TakesOver:
    """Trial 1 goes on from the weights of trial 0 after its second step."""

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        if trial.number == 1 and trial.steps == 2 and trial.settings["lr"] != 1:
            return Copy(study.trials[0], {"lr": 1.2, "mark": True})
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        return leaving or next(iter(study.waiting()), None)


def test_a_trial_takes_over_the_weights_of_another_as_a_new_job(here: Box) -> None:
    here.daemon.exchange._make = lambda text: TakesOver()  # type: ignore[misc]
    jobs = open_study(here, trials=2, steps=6, checkpoint={}, policy="fifo", pace=0.2)
    found = closed(here)
    first, second = found["trials"]
    assert (first["state"], second["state"]) == ("done", "done")
    assert second["job"] not in jobs
    assert second["settings"] == {"lr": 1.0}  # the bound; and there is no mark in the space
    begun = here.log(second["job"]).splitlines()[0]
    assert begun.split(" on ")[0] in ("begins at 1", "begins at 2", "begins at 3")
    assert steps_told(found)[1] == sorted(set(steps_told(found)[1]))
    assert steps_told(found)[1][-1] == 6
    assert here.job(jobs[1])["phase"] == "cancelled"


def test_a_copy_that_one_user_stops_keeps_nobody_elses_study_waiting(
    here: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, real = tmp_path / "pid", shutil.which("cp")
    only_the_first = f'mkdir {tmp_path}/first && echo $$ > {pid} && kill -STOP $$; exec {real} "$@"'
    (tmp_path / "cp").write_text(f"#!/bin/sh\n{only_the_first}\n")
    (tmp_path / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    here.daemon.exchange._make = lambda text: TakesOver()  # type: ignore[misc]
    asked: dict[str, Any] = {
        "trials": 2,
        "steps": 6,
        "checkpoint": {},
        "policy": "fifo",
        "pace": 0.1,
    }
    opened(here, name="stopped", **asked)
    here.wait_for(lambda: pid.exists() and pid.read_text())
    opened(here, Caller(ME.uid, "eve", admin=False), name="other", **asked)
    assert [own["state"] for own in closed(here, "other")["trials"]] == ["done", "done"]
    assert page(here, "stopped")["state"] == "open"
    os.kill(int(pid.read_text()), signal.SIGCONT)
    assert [own["state"] for own in closed(here, "stopped")["trials"]] == ["done", "done"]


@needs_optuna
def test_a_learning_sampler_names_trials_one_after_the_other(here: Box) -> None:
    jobs = open_study(here, sampler="tpe", trials=6, steps=1, pace=0.05, policy="fifo")
    assert len(jobs) == 2
    assert page(here)["planned"] == 6
    found = closed(here)
    assert len(found["trials"]) == 6
    assert found["done"] == 6
    assert len({trial["settings"]["lr"] for trial in found["trials"]}) == 6


def running(here: Box, name: str) -> int:
    return sum(trial["state"] == "running" for trial in page(here, name)["trials"])


@needs_optuna
@pytest.mark.parametrize("slots", [1, 2, 4, 8])
def test_every_sampler_keeps_all_slots_busy_before_any_trial_has_ended(
    tmp_path: Path, slots: int
) -> None:
    with box(tmp_path / "box", policy="fifo-skip", slots=slots) as here:
        for sampler in NAMES:
            open_study(
                here, script="import time; time.sleep(600)", name=sampler, sampler=sampler,
                trials=20, steps=1, policy="default", space={"lr": {"int": [1, 20]}},
            )  # fmt: skip
            here.wait_for(lambda: running(here, sampler) == slots, 30)  # noqa: B023
            here.daemon.studies.cancel(sampler, ME)
            here.wait_for(lambda: running(here, sampler) == 0, 30)  # noqa: B023


@needs_optuna
def test_a_learning_sampler_names_the_next_when_one_has_started_not_when_one_has_ended(
    here: Box,
) -> None:
    script = "import time; time.sleep(600)"
    open_study(here, script=script, sampler="tpe", trials=6, steps=1, policy="fifo")
    here.wait_for(lambda: len(page(here)["trials"]) == 4)  # two run, as many are ready
    assert running(here, "digits") == 2


@needs_optuna
def test_a_learning_sampler_names_no_more_trials_than_were_asked_for(here: Box) -> None:
    open_study(here, sampler="tpe", trials=1, steps=1, pace=0.02, policy="fifo")
    assert len(closed(here)["trials"]) == 1


@needs_optuna
def test_ending_all_jobs_ends_a_study_that_would_name_others_in_their_place(here: Box) -> None:
    script = "import time; time.sleep(600)"
    open_study(here, script=script, sampler="tpe", trials=20, steps=1, policy="fifo")
    here.wait_for(lambda: running(here, "digits") == 2)
    here.daemon.stop_and_end_jobs()
    here._thread.join(120)
    assert sum(isinstance(entry, Submitted) for entry in here.journal()) <= 4
