"""One measurement in a process of its own: reads a request as JSON, prints an answer as JSON.

Run with PYTHONPATH=src for the pure-Python core, without it for the installed one.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from benchmarks import bare
from dovetail import traces
from dovetail.core import state
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.traces.clusters.cluster_text import read_cluster

GANGS = ((1, 0.6), (2, 0.15), (4, 0.12), (8, 0.1), (16, 0.03))


def arrivals_for(request: dict[str, Any]) -> list[Arrival]:
    """The trace that a request names, or a generated one."""
    if "trace" in request:
        return traces.read(request["trace"]).arrivals
    recipe = traces.Recipe(
        jobs=request["jobs"],
        gpus=request["gpus"],
        load=request["load"],
        mean_duration_s=request.get("mean_duration_s", 3600.0),
        c2=10.0,
        gangs=tuple((int(size), chance) for size, chance in request.get("gangs", GANGS)),
        users=0,
        seed=request.get("seed", 1),
    )
    return traces.generate(recipe)


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Simulate, with the journal streamed to a file if asked for; the yardstick beside it if named."""
    arrivals = arrivals_for(request)
    experiment = Experiment(arrivals, read_cluster(request["cluster"]))
    answer: dict[str, Any] = {"compiled": state.__file__.endswith(".so")}
    ours, yardstick = [], []
    with TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl" if request.get("journal") else None
        for _ in range(request.get("repeat", 1)):
            if "bare" in request:
                yardstick.append(_time_bare(request["bare"], arrivals, experiment))
            record = simulate(experiment, request["policy"], journal=journal)
            ours.append(float(record.summary["cpu_seconds"]))
            answer["summary"] = dict(record.summary)
    answer["cpu_seconds"] = min(ours)
    if yardstick:
        answer["bare_cpu_seconds"] = min(yardstick)
    answer["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return answer


def _time_bare(name: str, arrivals: list[Arrival], experiment: Experiment) -> float:
    jobs = [(a.at, a.job.gpus, a.work_s) for a in arrivals]
    gpus = sum(node.gpus for node in experiment.nodes)
    loop = {"fifo": bare.fifo, "srtf": bare.srtf}[name]
    gc.collect()
    gc.freeze()
    gc.disable()  # as our own run does
    began = process_time()
    loop(jobs, gpus)
    took = process_time() - began
    gc.enable()
    gc.unfreeze()
    return took


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
