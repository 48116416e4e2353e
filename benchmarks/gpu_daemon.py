"""Unmodified PyTorch jobs under a real daemon on a real GPU: they give way and come back, bit for bit.

Needs a GPU, PyTorch, and nothing of Dovetail but its sources: `PYTHONPATH=src:. python -m
benchmarks.gpu_daemon`. Its last output is in docs/gpu_preemption.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.api.wire import plain
from dovetail.core.entries import JournalEntry, Occupied, Paced, Preempt, Restored, Saved
from dovetail.core.journal import decode
from dovetail.daemon.main import Daemon
from dovetail.daemon.settings import DaemonSettings
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users.callers import caller_of
from dovetail.home import home_in
from dovetail.jobfiles.job_model import read
from dovetail.worlds.local.making import local_world

ME = caller_of(os.getuid(), os.getuid())
TRAINING = """
import sys, time, torch
steps, gigabytes = int(sys.argv[1]), float(sys.argv[2])
torch.manual_seed(7)
ballast = torch.full((int(gigabytes * 2.5e8),), 1.5, device="cuda")
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(steps):
    batch = torch.randn(512, 256, device="cuda")
    loss = ((model(batch) - batch) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(step, loss.item().hex(), flush=True)
    time.sleep(0.02)
print("ballast", bool((ballast == 1.5).all()))
"""
# Reports its steps. `heavy` keeps the whole GPU busy, else it mostly waits, as for its data.
STEPPING = """
import json, os, sys, time, torch
seconds, heavy = float(sys.argv[1]), sys.argv[2] == "heavy"
size = 6144 if heavy else 256
a = torch.randn(size, size, device="cuda")
report = open(os.environ["DOVETAIL_REPORT"], "a", buffering=1)
until, step = time.time() + seconds, 0
while time.time() < until:
    for _ in range(4):
        a = torch.tanh(a @ a)
    torch.cuda.synchronize()
    if not heavy:
        time.sleep(0.02)
    step += 1
    report.write(json.dumps({"step": step}) + "\\n")
"""
STRANGER = "import torch, time; x = torch.ones(10**8, device='cuda'); time.sleep(12)"


@contextmanager
def daemon(home: Path, policy: str) -> Iterator[Daemon]:
    made = Daemon(DaemonSettings(home_in(home), policy=policy), local_world)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        if thread.is_alive() and not made.home.state.joinpath("leave").exists():
            made.stop_and_end_jobs()
        else:
            made.stop()
        thread.join(60)


def submit(made: Daemon, steps: int, gigabytes: float, estimate_s: float) -> str:
    command = [sys.executable, "-c", TRAINING, str(steps), str(gigabytes)]
    spec = read({"command": command, "estimate": estimate_s, "name": f"train-{steps}"})
    return made.service.submit([Submission(spec, dict(os.environ), str(made.home.state))], ME)[0]


def wait_for(what: Callable[[], object], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise SystemExit("waited in vain")
        time.sleep(0.05)


def row(made: Daemon, job: str) -> dict[str, Any]:
    found: dict[str, Any] = plain(made.service.job(job))
    return found


def log(made: Daemon, job: str) -> list[str]:
    path = made.home.folder(job) / "log"
    return path.read_text().splitlines() if path.exists() else []


def finished(made: Daemon, *jobs: str) -> Callable[[], bool]:
    def all_have() -> bool:
        phases = [row(made, job)["phase"] for job in jobs]
        if "failed" in phases:
            raise SystemExit(f"a job failed: {[row(made, job)['reason'] for job in jobs]}")
        return all(phase == "finished" for phase in phases)

    return all_have


def entries(made: Daemon) -> list[JournalEntry]:
    return [decode(line) for _, line in made.reader.lines_after(0)]


def switches(made: Daemon, job: str) -> str:
    saves = [e for e in entries(made) if isinstance(e, Saved) and e.job_id == job]
    backs = [e for e in entries(made) if isinstance(e, Restored) and e.job_id == job]
    told = ", ".join(f"{s.rung} {s.seconds:.2f} s ({s.bytes / 1e9:.1f} GB)" for s in saves[:3])
    came = ", ".join(f"{b.seconds:.2f}" for b in backs[:3])
    return f"{len(saves)} times away: {told}{' …' if len(saves) > 3 else ''}; back in {came} s"


def say(text: str) -> None:
    print(f"- {text}", flush=True)


def one_gives_way(home: Path, alone: list[str]) -> None:
    with daemon(home, "srtf:predictor=user-estimate") as made:
        long = submit(made, 300, 3.0, 600)
        wait_for(lambda: len(log(made, long)) > 30)
        short = submit(made, 100, 3.0, 10)
        wait_for(finished(made, long, short))
        same = log(made, long) == alone
        say(
            f"`srtf`: a 3 GB job gives way to a shorter one. {switches(made, long)}. Bit-equal: {same}."
        )


def taking_turns(home: Path, alone: list[str]) -> None:
    with daemon(home, "round-robin:quantum_s=5") as made:
        jobs = [submit(made, 300, 3.0, 600) for _ in range(2)]
        wait_for(finished(made, *jobs), 240)
        same = all(log(made, job) == alone for job in jobs)
        for job in jobs:
            say(
                f"`round-robin`, slices of 5 s, job {job}: {switches(made, job)}. Bit-equal: {same}."
            )


def daemon_dies_meanwhile(home: Path, alone: list[str]) -> None:
    with daemon(home, "fifo") as made:
        job = submit(made, 300, 3.0, 600)
        wait_for(lambda: len(log(made, job)) > 30)
        made.service.pause([job], ME)
        wait_for(lambda: row(made, job)["preemption"])
        (home / "leave").touch()
    time.sleep(1)
    (home / "leave").unlink()
    with daemon(home, "fifo") as made:
        made.service.resume([job], ME)
        wait_for(finished(made, job))
        same = log(made, job) == alone
        say(f"Suspended, then another daemon takes over and resumes it. Bit-equal: {same}.")


def strangers(home: Path) -> None:
    with daemon(home, "fifo") as made:
        first = submit(made, 150, 0.5, 60)
        wait_for(lambda: len(log(made, first)) > 5)
        stranger = subprocess.Popen([sys.executable, "-c", STRANGER])
        wait_for(finished(made, first))
        wait_for(
            lambda: (
                any(isinstance(e, Occupied) for e in entries(made)) or stranger.poll() is not None
            )
        )
        seen = any(isinstance(e, Occupied) and e.mask for e in entries(made))
        second = submit(made, 10, 0.5, 60)
        waited = row(made, second)["phase"] == "queued"
        stranger.wait()
        wait_for(finished(made, second))
        say(f"A process that is not ours on the GPU: seen {seen}, a job waited for it {waited}.")


def paired(home: Path, load: str) -> None:
    """`gandiva` puts two on one GPU and parts them if their measured steps say so."""
    with daemon(home, "gandiva:quantum_s=3600") as made:
        command = [sys.executable, "-c", STEPPING, "45", load]
        spec = read({"command": command, "name": f"steps-{load}"})
        given = Submission(spec, dict(os.environ), str(made.home.state))
        jobs = [made.service.submit([given], ME)[0] for _ in range(2)]
        wait_for(finished(made, *jobs), 240)
        told = [e for e in entries(made) if isinstance(e, Paced)]
        speeds = ", ".join(f"{e.job_id} at {e.speed:.2f}" for e in told if e.speed < 1)
        parted = any(isinstance(e, Preempt) for e in entries(made))
        say(
            f"`gandiva`, two jobs with a {load} load: measured {speeds or 'no slower than alone'}; "
            f"parted: {'yes' if parted else 'no'}."
        )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gpu-daemon-") as folder:
        homes = (Path(folder) / str(number) for number in range(9))
        with daemon(next(homes), "fifo") as made:
            nodes = made.service.look(lambda view, now: list(view.room.nodes))
            say(f"Found: {[(node.kind, node.gpus, round(node.gpu_memory_gb)) for node in nodes]}")
            job = submit(made, 300, 3.0, 600)
            wait_for(finished(made, job))
            alone = log(made, job)
            say(f"Alone: {len(alone) - 1} steps in {row(made, job)['run_s']:.1f} s, {alone[-1]}.")
        one_gives_way(next(homes), alone)
        taking_turns(next(homes), alone)
        daemon_dies_meanwhile(next(homes), alone)
        strangers(next(homes))
        for load in ("heavy", "light"):
            paired(next(homes), load)


if __name__ == "__main__":
    main()
