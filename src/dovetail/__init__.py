"""Dovetail schedules deep-learning work on GPU clusters.

import dovetail as dt

trace = dt.read_trace("jobs.csv")
print(dt.compare(trace, "8x8", ["fifo", "srtf", "las"], seeds=10))
dt.connect().submit(["python", "train.py"], gpus=1).wait()
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which need not be loaded for that
if TYPE_CHECKING:
    from typing import Any

    from dovetail.library.calls import JobExecutor, RemoteError
    from dovetail.library.comparing import Comparison, compare
    from dovetail.library.session import Session, SubmittedJob, connect
    from dovetail.library.simulating import ClusterNodes, Page, Simulation, cluster, simulate
    from dovetail.library.trace_files import generate_trace, read_trace
    from dovetail.results.intervals import MeanInterval

__all__ = [
    "ClusterNodes",
    "Comparison",
    "JobExecutor",
    "MeanInterval",
    "Page",
    "RemoteError",
    "Session",
    "Simulation",
    "SubmittedJob",
    "cluster",
    "compare",
    "connect",
    "generate_trace",
    "read_trace",
    "simulate",
]

# Nothing is imported before it is used: every command and every training script comes by here.
_LATER = {
    "calls": ("JobExecutor", "RemoteError"),
    "comparing": ("Comparison", "MeanInterval", "compare"),
    "session": ("Session", "SubmittedJob", "connect"),
    "simulating": ("ClusterNodes", "Page", "Simulation", "cluster", "simulate"),
    "trace_files": ("generate_trace", "read_trace"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.library.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
