"""What jobs have used: of real processes, and of GPUs as NVML tells."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.model import JobId
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.runs.run import Launch
from dovetail.worlds.local.watching import usage
from dovetail.worlds.local.watching.usage import UsageMeter
from waiting import until

JOB = JobId("7")
HOG = "import time; held = bytearray(200 << 20); time.sleep(600)"
WORKS = "import sys; held = bytearray(150 << 20); sum(range(20_000_000))"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    found = Folders(tmp_path / "runs", tmp_path, tmp_path / "socket", shared=False)
    (found.runs / "live").mkdir(parents=True)
    return found


def begin(folders: Folders, number: int, script: str) -> Any:
    env = folders.runs.parent / "env.json"
    env.write_text("{}")
    run = folders.run(JOB, number)
    folders.folder(JOB).mkdir(exist_ok=True)
    run.launch(Launch((sys.executable, "-c", script), "/", env, folders.log(JOB).path))
    folders.note(JOB).write_text(str(number))
    until(run.begun)
    return run


def test_peak_memory_and_processor_time_are_those_of_all_processes_of_all_runs(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = UsageMeter(folders, lambda job: ("GPU-0", "GPU-1"))
    monkeypatch.setattr(usage, "gpu_busy", lambda: {"GPU-0": 0.5, "GPU-1": 1.0, "GPU-2": 0.0})
    assert meter.used_by(JOB) is None
    first = begin(folders, 1, f"import os; os.fork(); {HOG}")

    def is_seen() -> bool:
        meter.look()
        used = meter.used_by(JOB)
        return used is not None and used.peak_memory_bytes > 390 << 20

    until(is_seen)
    first.process_group().kill()
    until(lambda: not first.is_alive())
    before = meter.used_by(JOB)
    assert before is not None
    assert before.gpu_busy == pytest.approx(0.75)
    second = begin(folders, 2, WORKS)
    until(lambda: not second.is_alive())
    folders.forget_live(JOB)
    later = UsageMeter(folders, lambda job: ()).used_by(JOB)  # the next daemon's
    assert later is not None
    assert later.cpu_s > before.cpu_s + 0.1
    assert later.peak_memory_bytes == before.peak_memory_bytes
    assert later.gpu_busy == before.gpu_busy
