"""The digits study with the tools that people use, beside ours: the same 27 settings in the same ten
orders, two workers, real training in short epochs.

    python -m benchmarks tune_vs_peers        (the others are in .venv-peers: make .venv-peers/ready)

Epochs to target are those of all trials together until the first loss at or below the target, which
is best + 0.01 x (median - best) of the 27 settings trained alone. A tool that never gets there has
thrown the best setting away: it is counted with all its epochs and its whole time, and as a miss.
Ours is stopped at the target, since it throws nothing away and would go on to the last epoch. Times
are from the call of the command on; memory is that of all processes of a run, shared parts once.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import digits, studies
from benchmarks.digits import ROOT, Curve
from benchmarks.lines import Line
from benchmarks.memory import MARK, Memory

ORDERS = 10
EXAMPLES = 1500  # an epoch: a twentieth of a second or more
PEERS = ("optuna-hyperband", "optuna-halving", "optuna-median", "ray-asha")
OURS = "dovetail"
ENVIRONMENT = ROOT / ".venv-peers"
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Event:
    """One epoch of one trial; `at` is seconds since the command was called."""

    at: float
    loss: float


@dataclass(frozen=True, slots=True)
class Run:
    events: Sequence[Event]  # in the order of time
    seconds: float  # until all was over
    peak_mb: float

    @property
    def best(self) -> float:
        return min(event.loss for event in self.events)

    def to_target(self, target: float) -> tuple[float, int, bool]:
        """Seconds, epochs, and whether it got there at all."""
        for number, event in enumerate(self.events, 1):
            if event.loss <= target:
                return event.at, number, True
        return self.seconds, len(self.events), False


def measured(orders: int = ORDERS, tools: Sequence[str] = (OURS, *PEERS)) -> Iterator[Line]:
    """The digits study in ten orders, ours beside Optuna's pruners and Ray Tune's ASHA."""
    if not (ENVIRONMENT / "ready").exists():
        print(f"     {ENVIRONMENT.name} is not there (make .venv-peers/ready): left out")
        return
    with TemporaryDirectory(prefix="dovetail-peers-") as name:
        folder = Path(name)
        more = ["--examples", str(EXAMPLES)]
        commands = [digits.command(chosen, *more) for chosen in digits.settings()]
        curves = digits.alone_or_known(commands, folder)
        target = digits.target(curves)
        print(f"     target {target:.6f}, best {min(map(min, curves)):.6f}, 27 settings alone")
        scripts = digits.write_scripts(commands, folder)
        runs: dict[str, list[Run]] = {tool: [] for tool in tools}
        for order in range(orders):
            for tool in tools:
                place = folder / f"{tool}-{order}"
                place.mkdir()
                run = (
                    our_run(scripts, digits.order(order), target, place)
                    if tool == OURS
                    else peer_run(tool, digits.order(order), place)
                )
                runs[tool].append(run)
                seconds, epochs, there = run.to_target(target)
                told = f"{epochs} epochs, {seconds:.1f} s" if there else "missed"
                print(f"     order {order}, {tool}: {told}; {len(run.events)} in all", flush=True)
        print(table(runs, target))
        yield from judged(runs, target)
        if OURS in tools:
            yield goes_on(scripts, curves, target, folder / "killed")


def our_run(scripts: Sequence[str], order: Sequence[int], target: float, folder: Path) -> Run:
    """By the commands `dovetail up` and a study handed in; the daemon's start counts."""
    mark = folder.name
    os.environ[MARK] = mark  # for the daemon, which the command starts
    began = time.time()
    try:
        with Memory(mark) as memory, studies.daemon(folder / "home", slots=2) as client:
            ready = time.time() - began
            spec = digits.as_study("default", scripts, order, target=target)
            found = studies.study(client, spec, {**digits.as_we_run(), MARK: mark})
            seconds = time.time() - began
    finally:
        del os.environ[MARK]
    events = [Event(point.at + ready, point.value) for point in found.points]
    return Run(events, seconds, memory.peak_mb)


def peer_run(tool: str, order: Sequence[int], folder: Path) -> Run:
    settings = digits.settings()
    request: dict[str, Any] = {
        "tool": tool,
        "settings": [settings[number] for number in order],
        "fixed": {"examples": EXAMPLES, "epochs": digits.described()["steps"]},
        "folder": str(folder),
    }
    environment = {
        **digits.as_we_run(),
        "PYTHONPATH": f"{digits.FOLDER}:{ROOT / 'src'}",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        MARK: folder.name,
    }
    began = time.time()
    with Memory(folder.name) as memory:
        python, script = ENVIRONMENT / "bin" / "python", ROOT / "benchmarks" / "peer_runs.py"
        done = subprocess.run(
            [str(python), str(script), json.dumps(request)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        seconds = time.time() - began
    if done.returncode:
        raise SystemExit(f"{tool} failed:\n{done.stderr[-2000:]}")
    lines = (folder / "events.jsonl").read_text().splitlines()
    events = [Event(said["at"] - began, said["loss"]) for said in map(json.loads, lines)]
    return Run(sorted(events, key=lambda event: event.at), seconds, memory.peak_mb)


# -------------------------------------------------------------------------------- what came of it


def table(runs: dict[str, list[Run]], target: float) -> str:
    head = (
        "tool", "epochs to target", "seconds to target", "misses", "epochs in all", "best loss",
        "first epoch after s", "peak MB",
    )  # fmt: skip
    rows = [head, ("---",) * len(head)]
    for tool, own in runs.items():
        reached = [run.to_target(target) for run in own]
        rows.append(
            (
                tool,
                f"{fmean(epochs for _, epochs, _ in reached):.1f}",
                f"{fmean(seconds for seconds, _, _ in reached):.1f}",
                f"{sum(not there for _, _, there in reached)} of {len(own)}",
                f"{fmean(len(run.events) for run in own):.0f}",
                f"{fmean(run.best for run in own):.4f}",
                f"{fmean(run.events[0].at for run in own):.1f}",
                f"{max(run.peak_mb for run in own):.0f}",
            )
        )
    return "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def judged(runs: dict[str, list[Run]], target: float) -> Iterator[Line]:
    def epochs(tool: str) -> float:
        return fmean(run.to_target(target)[1] for run in runs[tool])

    for tool in runs:
        if tool != OURS:
            ours, theirs = epochs(OURS), epochs(tool)
            yield Line(
                f"epochs to target, ours and {tool}",
                f"{ours:.1f}, {theirs:.1f}",
                "fewer",
                ours < theirs,
            )


def goes_on(scripts: Sequence[str], curves: Sequence[Curve], target: float, folder: Path) -> Line:
    """The daemon is killed in the middle and started again: is any epoch lost, or made twice?"""
    order = digits.order(0)
    spec = digits.as_study("default", scripts, order, target=target)
    found = studies.study_killed_half_way(folder, spec, digits.as_we_run())
    same = all(
        tuple(curve) == curves[order[number]][: len(curve)]
        for number, curve in found.curves().items()
    )
    _, epochs = found.to_target(target)
    return Line(
        "daemon killed half-way and started again",
        f"{epochs} epochs to target",
        "every epoch once, same bits as alone",
        same,
    )
