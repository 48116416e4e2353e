"""A job that gives way twenty times computes what it would have computed alone, bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dovetail.core.entries import Saved
from live_box import ME, Box, box

TIMES = 20
PLAIN = """
import numpy as np
chance = np.random.default_rng(7)
weights = chance.normal(size=(32, 32)).astype(np.float32)
for step in range({steps}):
    batch = chance.normal(size=(256, 32)).astype(np.float32)
    out = np.tanh(batch @ weights)
    loss = float(((out - batch) ** 2).mean())
    weights -= 0.01 * batch.T @ ((out - batch) * (1 - out ** 2)) / len(batch)
    print(step, loss.hex(), flush=True)
    {pause}
"""
SAVING = """
import os, pickle, sys
sys.path.insert(0, {source!r})
import numpy as np
from dovetail import sdk
saved = sdk.checkpoint_dir() / "state.pickle"
step, chance, weights = 0, np.random.default_rng(7), None
weights = chance.normal(size=(32, 32)).astype(np.float32)
if sdk.resumed() and saved.exists():
    step, state, weights = pickle.loads(saved.read_bytes())
    chance.bit_generator.state = state
while step < {steps}:
    if sdk.should_stop():
        part = saved.with_suffix(".part")
        part.write_bytes(pickle.dumps((step, chance.bit_generator.state, weights)))
        os.replace(part, saved)
        sys.exit(0)
    batch = chance.normal(size=(256, 32)).astype(np.float32)
    out = np.tanh(batch @ weights)
    loss = float(((out - batch) ** 2).mean())
    weights -= 0.01 * batch.T @ ((out - batch) * (1 - out ** 2)) / len(batch)
    print(step, loss.hex(), flush=True)
    step += 1
    {pause}
"""
SOURCE = str(Path(__file__).parents[3] / "src")
PAUSE = "import time; time.sleep(0.02)"


def curve(text: str) -> list[str]:
    return text.splitlines()


def alone(folder: Path, steps: int) -> list[str]:
    with box(folder / "alone") as here:
        job = here.submit([sys.executable, "-c", PLAIN.format(steps=steps, pause="")])
        here.wait(job)
        return curve(here.log(job))


def give_way(here: Box, job: str, times: int) -> None:
    """Pause it and let it go on, again and again, each time after it has done something."""
    for number in range(1, times + 1):
        _wait_for_progress(here, job)
        here.service.pause([job], ME)
        _wait_for_saves(here, job, number)
        here.service.resume([job], ME)


def _wait_for_progress(here: Box, job: str) -> None:
    before = len(here.log(job))
    here.wait_for(lambda: here.phase(job) == "running" and len(here.log(job)) > before)


def _wait_for_saves(here: Box, job: str, number: int) -> None:
    here.wait_for(lambda: _saved(here, job) == number)


def _saved(here: Box, job: str) -> int:
    return sum(isinstance(e, Saved) and e.job_id == job for e in here.journal())


def rungs(here: Box, job: str) -> set[str]:
    return {e.rung for e in here.journal() if isinstance(e, Saved) and e.job_id == job}


@pytest.mark.parametrize("steps", [150])
def test_by_being_frozen(tmp_path: Path, steps: int) -> None:
    with box(tmp_path / "box", policy="fifo") as here:
        job = here.submit([sys.executable, "-c", PLAIN.format(steps=steps, pause=PAUSE)])
        give_way(here, job, TIMES)
        (row,) = here.wait(job)
        assert (row["phase"], row["preemptions"], row["lost_gpu_s"] < 5) == (
            "finished",
            TIMES,
            True,
        )
        assert rungs(here, job) == {"freeze"}
        assert curve(here.log(job)) == alone(tmp_path, steps)


def test_by_saving_itself(tmp_path: Path) -> None:
    steps = 150
    with box(tmp_path / "box", policy="fifo", suspended_gb=0.0) as here:
        script = SAVING.format(steps=steps, pause=PAUSE, source=SOURCE)
        job = here.submit([sys.executable, "-c", script])
        give_way(here, job, TIMES)
        (row,) = here.wait(job)
        assert (row["phase"], row["preemptions"]) == ("finished", TIMES)
        assert rungs(here, job) == {"cooperative"}
        assert curve(here.log(job)) == alone(tmp_path, steps)


def test_by_being_killed_and_started_again(tmp_path: Path) -> None:
    steps = 60
    with box(tmp_path / "box", policy="fifo", suspended_gb=0.0) as here:
        script = PLAIN.format(steps=steps, pause=PAUSE)
        job = here.submit([sys.executable, "-c", script], preemptible="restart")
        give_way(here, job, TIMES)
        (row,) = here.wait(job)
        assert (row["phase"], row["preemptions"]) == ("finished", TIMES)
        assert rungs(here, job) == {"kill"}
        assert curve(here.log(job))[-steps:] == alone(tmp_path, steps)
        assert row["lost_gpu_s"] > 0  # what was done twice is counted


def test_a_job_that_no_rung_works_for_stays_and_others_wait(tmp_path: Path) -> None:
    with box(
        tmp_path / "box", policy="srtf:predictor=user-estimate", slots=1, suspended_gb=0.0
    ) as here:
        stays = here.submit("sleep 1.5", estimate="1h")
        here.wait_until(stays, "running")
        other = here.submit("true", estimate="1s")
        here.wait_for(lambda: here.job(stays)["reason"].startswith("cannot give way"))
        rows = here.wait(stays, other)
        assert [row["phase"] for row in rows] == ["finished", "finished"]
        assert rows[0]["preemptions"] == 0
        assert rows[1]["started_at"] >= rows[0]["ended_at"] - 0.1
