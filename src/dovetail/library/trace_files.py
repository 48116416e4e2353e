"""Traces as Python code gets them."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from dovetail import traces
from dovetail.traces import Trace

TraceGiven = Trace | str | PathLike[str]


def read_trace(path: str | PathLike[str], format: str | None = None) -> Trace:
    """The jobs of a file; its format is found out unless it is named."""
    return traces.read(fspath(path), format) if format else traces.read(fspath(path))


def generate_trace(jobs: int = 1000, gpus: int = 64, **recipe: Any) -> Trace:
    """Jobs made by chance for a cluster of so many GPUs: load=0.9, c2=10, seed=1, …"""
    made = traces.generate(traces.Recipe(jobs=jobs, gpus=gpus, **recipe))
    return Trace(list(made), source=f"{jobs} jobs made by chance")


def as_trace(given: TraceGiven) -> Trace:
    return given if isinstance(given, Trace) else read_trace(given)
