"""What this machine can do for its jobs, and what it lacks: for `dovetail doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dovetail.worlds.local.containers.engine import NoEngine, find_engine
from dovetail.worlds.local.gpus.cuda import can_suspend, driver_version
from dovetail.worlds.local.machine import find_gpus, gpu_trouble
from dovetail.worlds.world import BAD, GOOD, NOTE, Finding


def of_this_machine() -> Iterator[Finding]:
    yield from _gpus()
    yield _freezer()
    yield _images()


def _gpus() -> Iterator[Finding]:
    trouble = gpu_trouble()
    found = find_gpus()
    if trouble:
        yield Finding("GPUs", NOTE if found else BAD, trouble)
    if not found:
        if not trouble:
            yield Finding("GPUs", NOTE, "no NVIDIA GPU here: jobs run on processor slots")
        return
    kinds = ", ".join(f"{gpu.index} {gpu.kind}" for gpu in found)
    yield Finding("GPUs", GOOD, f"{kinds}; driver {driver_version()}")
    why_not = can_suspend()
    if why_not:
        told = f"{why_not}; GPU jobs give way only if they save themselves"
        yield Finding("suspend", NOTE, told)
    else:
        yield Finding("suspend", GOOD, "GPU jobs can be suspended where they are")


def _images() -> Finding:
    try:
        engine = find_engine()
    except NoEngine as error:
        return Finding("images", NOTE, f"{error}: jobs with an image are refused")
    trouble = engine.gpu_trouble() if find_gpus() else ""
    told = f"jobs with an image are run by {engine.name}"
    return Finding("images", NOTE if trouble else GOOD, f"{told}; {trouble}" if trouble else told)


def _freezer() -> Finding:
    """It matters little: a job that holds no GPU memory is stopped by a signal as well."""
    try:
        row = next(r for r in Path("/proc/self/cgroup").read_text().splitlines() if r[:3] == "0::")
        folder = Path("/sys/fs/cgroup") / row[3:].lstrip("/")
        if os.access(folder / "cgroup.procs", os.W_OK) and os.access(folder, os.W_OK):
            return Finding("freezer", GOOD, "jobs with a control group of their own can be frozen")
    except (OSError, StopIteration):
        pass
    return Finding("freezer", NOTE, "no control group of our own: jobs are stopped by SIGSTOP")
