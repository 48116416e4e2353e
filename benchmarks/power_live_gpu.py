"""Power limits on a real GPU, live: chosen by `frugal`, set through NVML, put back, whatever happens to
the daemon. Its output belongs into docs/energy_gpu.md.

    PYTHONPATH=$PWD/src:$PWD python3 -m benchmarks.power_live_gpu [--out FILE]

Needs a GPU, PyTorch, leave to set power limits (root), and of Dovetail nothing but its sources and what
they import. It takes two minutes; the card ends with the limit that it had. `--dry` runs jobs that do
nothing, for machines where something else stands in for NVML.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.energy_gpu import SCRIPT, machine_told
from dovetail.core.model import Node
from dovetail.worlds.local import machine
from dovetail.worlds.local.gpus.power import Meter

MODEL = "attention"
# Parts of the largest power limit, with seconds a step and watts there; measured on an H200.
MEASURED = ((1.0, 0.2657, 689), (0.8, 0.2889, 552), (0.65, 0.3211, 447), (0.5, 0.3954, 348))
CHOSEN = 0.8  # what `frugal` takes for a job without a deadline
JOB_S = 60.0
AT_WORK_WITHIN_S, WATCHED_S = 120.0, 5.0


class Bench:
    """A daemon of its own in a folder, one card, and what was found."""

    def __init__(self, folder: Path, node: Node, dry: bool) -> None:
        self.home = folder / "home"
        self.node = node
        self.uuid = node.labels[0][1]
        self.dry = dry
        self.missed = 0
        self.full = round(node.gpu_watts)
        self.limit = round(CHOSEN * node.gpu_watts)
        self.table = folder / "power.csv"
        rows = [f"{MODEL},{round(part * self.full)},{s},{w}" for part, s, w in MEASURED]
        self.table.write_text("\n".join(["model,power_limit,time,watts", *rows]) + "\n")

    def dovetail(self, *words: str) -> str:
        command = [sys.executable, "-m", "dovetail.cli.main", "--home", str(self.home), *words]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            raise SystemExit(f"dovetail {' '.join(words)}: {found.stderr.strip()}")
        return found.stdout

    def up(self, *words: str) -> str:
        return self.dovetail("up", *words)

    def submit(self) -> str:
        command = ["sleep", "600"] if self.dry else [sys.executable, SCRIPT, MODEL, "1000000"]
        way = f"{self.node.kind}:1={JOB_S:g}s"
        said = self.dovetail("submit", "--model", MODEL, "--option", way, "-q", "--", *command)
        return said.strip()

    def show(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.dovetail("show", job, "--json"))
        return found

    def kill_daemon(self) -> None:
        os.kill(json.loads((self.home / "daemon.json").read_text())["pid"], signal.SIGKILL)

    def kill_job(self, job: str) -> None:
        """Its first run."""
        keeper = json.loads((self.home / "runs" / job / "1" / "keeper.json").read_text())
        os.kill(keeper["child"], signal.SIGKILL)

    def allowed(self) -> int:
        """Watts, by the card."""
        with machine.nvml() as library:
            handle = library.nvmlDeviceGetHandleByUUID(self.uuid)
            return int(library.nvmlDeviceGetPowerManagementLimit(handle)) // 1000

    def comes_to(self, watts: int, within_s: float = 20.0) -> bool:
        return self.comes(lambda: self.allowed() == watts, within_s)

    @staticmethod
    def comes(happened: Callable[[], bool], within_s: float = 20.0) -> bool:
        until = time.monotonic() + within_s
        while not happened():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def line(self, well: bool, what: str) -> str:
        self.missed += not well
        return f"- {'ok' if well else 'MISS'}: {what} (the card says {self.allowed()} W)"


def told(bench: Bench) -> Iterator[str]:
    yield f"- On {machine_told(bench.node)}."
    table = ("--policy", "frugal", "--power-table", f"{bench.node.kind}={bench.table}")
    greeting = bench.up(*table)
    refused = [line for line in greeting.splitlines() if "no power limits" in line]
    yield bench.line(not refused, f"limits can be set here{' '.join(['', *refused])}")
    job = bench.submit()
    yield bench.line(bench.comes_to(bench.limit), f"a job starts with {bench.limit} W as chosen")
    yield from drawn(bench)
    yield from preempted(bench, job)
    yield from killed(bench, job)
    yield from ended_meanwhile(bench)
    bench.dovetail("down", "--cancel")
    yield bench.line(bench.comes_to(bench.full), "after `down --cancel` there is no limit of ours")


def drawn(bench: Bench) -> Iterator[str]:
    """Does the card draw what the books have?"""
    if bench.dry:
        return
    hot = bench.comes(lambda: machine.power_watts()[bench.uuid] > bench.limit / 2, AT_WORK_WITHIN_S)
    time.sleep(1.0)
    with closing(Meter([bench.uuid])) as meter:
        time.sleep(WATCHED_S)
        watts = meter.joules() / WATCHED_S
    well = hot and watts < 1.03 * bench.limit
    expected = next(watts for part, _, watts in MEASURED if part == CHOSEN)
    yield bench.line(well, f"at work it draws {watts:.0f} W; {expected} W are charged")


def preempted(bench: Bench, job: str) -> Iterator[str]:
    bench.dovetail("pause", job)
    gone = bench.comes(lambda: bench.show(job)["phase"] == "suspended")
    yield bench.line(gone and bench.comes_to(bench.full), "preempted, it leaves no limit behind")
    bench.dovetail("resume", job)
    back = bench.comes(lambda: bench.show(job)["phase"] == "running")
    yield bench.line(back and bench.comes_to(bench.limit), "it goes on with its limit")


def killed(bench: Bench, job: str) -> Iterator[str]:
    bench.kill_daemon()
    time.sleep(1.0)
    yield bench.line(bench.allowed() == bench.limit, "the daemon is killed, the job goes on")
    bench.up()
    held = bench.show(job)["placement"][0]["power_limit_watts"] == bench.limit
    time.sleep(1.0)
    yield bench.line(
        held and bench.allowed() == bench.limit, "the next daemon knows its limit and keeps it"
    )
    bench.dovetail("cancel", job)
    yield bench.line(bench.comes_to(bench.full), "the job is cancelled, its limit put back")
    charged = json.loads(bench.dovetail("costs", "--json"))["energy_kwh"]
    seconds = bench.show(job)["run_s"]
    watts = charged * 3.6e6 / seconds
    expected = next(watts for part, _, watts in MEASURED if part == CHOSEN)
    yield bench.line(
        abs(watts / expected - 1) < 0.01, f"charged were {watts:.0f} W over {seconds:.0f} s"
    )


def ended_meanwhile(bench: Bench) -> Iterator[str]:
    job = bench.submit()
    set_again = bench.comes_to(bench.limit)
    bench.comes(lambda: bench.show(job)["phase"] == "running")
    bench.kill_daemon()
    bench.kill_job(job)
    time.sleep(2.0)
    left = bench.allowed() == bench.limit
    bench.up()
    well = set_again and left and bench.comes_to(bench.full)
    yield bench.line(well, "killed daemon, then its job: the next daemon puts the limit back")


@contextmanager
def card_as_it_was(bench: Bench) -> Iterator[None]:
    """Whatever goes wrong; and nothing of ours goes on."""
    try:
        yield
    finally:
        bench.dovetail("down", "--cancel")
        with machine.nvml() as library:
            handle = library.nvmlDeviceGetHandleByUUID(bench.uuid)
            if bench.allowed() != bench.full:
                library.nvmlDeviceSetPowerManagementLimit(handle, bench.full * 1000)


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, help="write the answer there, too")
    options.add_argument("--dry", action="store_true", help="with jobs that do nothing")
    chosen = options.parse_args(words)
    node = machine.machine_nodes()[0]
    if not node.labels:
        raise SystemExit(machine.gpu_trouble() or "there is no GPU here")
    began, lines = time.monotonic(), []
    with TemporaryDirectory(prefix="dovetail-power-") as name:
        bench = Bench(Path(name), node, chosen.dry)
        with card_as_it_was(bench):
            for line in told(bench):
                print(line, flush=True)
                lines.append(line)
                if chosen.out is not None:  # what there is so far, should it be cut short
                    chosen.out.write_text("\n".join(lines) + "\n")
    print(f"- {bench.missed} missed, in all {time.monotonic() - began:.0f} s.")
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
