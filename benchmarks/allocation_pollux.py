"""Pollux' simulator played again: tiresias and optimus to the second, and how fast that is."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks.lines import Line
from dovetail import traces
from dovetail.core.model import Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.epochs import POLLUX_ROUND_S, RoundRules, Training
from dovetail.results.record import RunRecord
from dovetail.traces.clusters.applications import read_applications

SHARED = Path(__file__).parent.parent.parent / "shared"
TABLES, GOLDEN = SHARED / "data/pollux", SHARED / "golden/allocation/pollux"
WORKLOADS, POLICIES = (1, 2, 3, 4), ("tiresias", "optimus")
WANTED_PER_CPU_SECOND = 160.0  # twenty times the 8 of Pollux' simulator


def measured() -> Iterator[Line]:
    """Every duration of workloads 1 to 4, and jobs a CPU-second: of the run, of the whole command."""
    if not TABLES.exists() or not GOLDEN.exists():
        print("     Pollux' tables and results are not here: left out")
        return
    training = Training(read_applications(str(TABLES)), RoundRules())
    for policy in POLICIES:
        same, number, cpu_s = 0, 0, 0.0
        for workload in WORKLOADS:
            record = _run(training, workload, policy)
            known = _durations(policy, workload)
            same += sum(known[row.job_id] == int(row.jct_s) for row in record.jobs)
            number += len(known)
            cpu_s += float(record.summary["cpu_seconds"])
        yield Line(
            f"{policy}: durations as in Pollux' simulator",
            f"{same} of {number}",
            "all",
            same == number,
        )
        yield _speed(f"{policy}: jobs a CPU-second", number / cpu_s)
        yield _speed(f"{policy}: of the whole command", _of_command(policy))


def _run(training: Training, workload: int, policy: str) -> RunRecord:
    source = f"{TABLES / 'workloads_1_to_4.csv'}#{workload}"
    arrivals = traces.read(source, training=training).arrivals
    nodes = [Node(f"n{i}", 4) for i in range(16)]
    experiment = Experiment(
        arrivals, nodes, placement="emptiest", training=training, round_s=POLLUX_ROUND_S
    )
    return simulate(experiment, policy, rows=True)


def _durations(policy: str, workload: int) -> dict[str, int]:
    with (GOLDEN / f"{policy}-w{workload}.jobs.csv").open(newline="") as file:
        return {row["name"]: int(row["duration"]) for row in csv.DictReader(file)}


def _speed(what: str, per_s: float) -> Line:
    return Line(
        what, f"{per_s:.0f}", f"{WANTED_PER_CPU_SECOND:.0f}", per_s >= WANTED_PER_CPU_SECOND
    )


def _of_command(policy: str) -> float:
    """Imports, tables and all."""
    source = f"{TABLES / 'workloads_1_to_4.csv'}#1"
    words = ["simulate", source, "--applications", str(TABLES), "--cluster", "16x4", "--json"]
    program = "from dovetail.cli.main import main; main()"
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program, *words, "--policy", policy], check=True, capture_output=True
    )
    after = getrusage(RUSAGE_CHILDREN)
    return len(_durations(policy, 1)) / (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    )
