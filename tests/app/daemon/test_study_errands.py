"""Trials that begin from what others have saved, and trials that are chosen by what others showed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dovetail.tune.rules import Copy, Verdict
from dovetail.tune.study import Study, Trial
from live_box import Box, box
from study_box import closed, open_study, page, steps_told


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path / "box", policy="fifo-skip") as made:
        yield made


def test_what_trials_have_in_common_is_trained_once(here: Box) -> None:
    """Four trials of six steps that differ from step 3 on: 3 + 4 x 3 steps instead of 24."""
    space = {"lr": {"choice": [0.1]}, "decay": {"choice": [1, 2, 3, 4], "from_step": 3}}
    fields = {"space": space, "sampler": "grid", "trials": 4, "steps": 6, "checkpoint": {}}
    jobs = open_study(here, **fields, pace=0.1)
    assert len(jobs) == 5
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


@dataclass(frozen=True)
class TakesOver:
    """Trial 1 goes on from the weights of trial 0 after its second step."""

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        if trial.number == 1 and trial.steps == 2 and "mark" not in trial.settings:
            return Copy(study.trials[0], {"lr": 0.5, "mark": True})
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
    assert second["settings"] == {"lr": 0.5, "mark": True}
    begun = here.log(second["job"]).splitlines()[0]
    assert begun.split(" on ")[0] in ("begins at 1", "begins at 2", "begins at 3")
    assert steps_told(found)[1] == sorted(set(steps_told(found)[1]))
    assert steps_told(found)[1][-1] == 6
    assert here.job(jobs[1])["phase"] == "cancelled"


@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="without optuna")
def test_a_learning_sampler_names_trials_one_after_the_other(here: Box) -> None:
    jobs = open_study(here, sampler="tpe", trials=6, steps=1, pace=0.05, policy="fifo")
    assert len(jobs) == 2
    assert page(here)["planned"] == 6
    found = closed(here)
    assert len(found["trials"]) == 6
    assert found["done"] == 6
    assert len({trial["settings"]["lr"] for trial in found["trials"]}) == 6
