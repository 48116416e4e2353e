"""One trace under one policy, and what came of it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dovetail.core.entries import JournalEntry
from dovetail.core.errors import BadInput
from dovetail.core.journal import decode
from dovetail.core.loop import Policy
from dovetail.core.model import Node, Tenant
from dovetail.experiments.experiment import Experiment
from dovetail.experiments.experiment import simulate as run_experiment
from dovetail.experiments.files import write_table
from dovetail.library.frames import as_frame
from dovetail.library.trace_files import TraceGiven, as_trace
from dovetail.results.job_table import grouped, job_table
from dovetail.results.record import JobOutcome, RunRecord
from dovetail.traces.clusters.cluster_text import read_cluster, read_cluster_tenants

PolicyGiven: TypeAlias = str | Policy


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """Nodes, and the tenants that share them."""

    nodes: tuple[Node, ...]
    tenants: tuple[Tenant, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)


def cluster(text: str | PathLike[str]) -> ClusterNodes:
    """`8x8`, `4x8:H100+2x4:A100`, or a file, as `--cluster` takes it."""
    own = str(text)
    return ClusterNodes(tuple(read_cluster(own)), tuple(read_cluster_tenants(own)))


ClusterOrText: TypeAlias = ClusterNodes | str


@dataclass(frozen=True, slots=True)
class Page:
    """Charts as one page of HTML; a notebook shows it."""

    html: str = field(repr=False)

    def save(self, path: str | PathLike[str]) -> Path:
        found = Path(path)
        found.write_text(self.html, encoding="utf-8", errors="replace")
        return found

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="600" '
            'sandbox="allow-scripts"></iframe>'
        )


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of one run. `figures` are those of `dovetail simulate --json`."""

    policy: str
    figures: Mapping[str, float | int | str]
    rows: tuple[JobOutcome, ...] = field(repr=False)
    record: RunRecord = field(repr=False)
    _experiment: Experiment = field(repr=False)
    _given: PolicyGiven = field(repr=False)

    def __getitem__(self, figure: str) -> float | int | str:
        try:
            return self.figures[figure]
        except KeyError:
            known = ", ".join(self.figures)
            raise BadInput(f"there is no figure {figure!r}; there are {known}") from None

    def jobs(self, frame: str | None = None) -> Any:
        """A row for each job: a frame of pandas or polars if one of them is installed, else a list of
        dictionaries. `slowdown` is the time in the system by the time at work; `fairness` that of its
        finish (`results.fairness`)."""
        return as_frame(job_table(self.record), frame)

    def csv(self, path: str | PathLike[str], *columns: str) -> Path:
        """Write the jobs as CSV: these columns, or all."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            write_table(file, job_table(self.record), columns)
        return Path(path)

    def by(self, column: str, frame: str | None = None) -> Any:
        """The means over the jobs of each `user`, `tenant`, number of `gpus` or `outcome`."""
        return as_frame(grouped(self.record, column), frame)

    def plot(self) -> Page:
        """GPUs and queue over time, completion times, every job on its GPUs."""
        from dovetail.reports.page import render

        return Page(render([self.record], f"Dovetail: {self.policy}", None, {}))

    def journal(self) -> Iterator[JournalEntry]:
        """Every event and action in order. It is run once more for that, and does the same."""
        with TemporaryDirectory(prefix="dovetail-") as folder:
            path = Path(folder, "journal.jsonl")
            run_experiment(self._experiment, self._given, journal=path)
            with open(path, encoding="utf-8") as file:
                yield from (decode(line) for line in file)


def simulate(
    trace: TraceGiven,
    cluster: ClusterOrText,
    policy: PolicyGiven = "fifo",
    *,
    predictor: str = "oracle",
    **more: Any,
) -> Simulation:
    """Run the jobs of the trace on the cluster under the policy: its name with parameters
    (`las:quantum_s=600`), or an object with `decide(view)`. `more` are fields of an `Experiment`:
    placement, seed, failures, costs, speed_table, …"""
    return run(experiment_of(trace, cluster, predictor, more), policy)


def experiment_of(
    trace: TraceGiven, given: ClusterOrText, predictor: str, more: Mapping[str, Any]
) -> Experiment:
    found = given if isinstance(given, ClusterNodes) else cluster(given)
    arrivals = as_trace(trace).arrivals
    try:
        return Experiment(arrivals, found.nodes, tenants=found.tenants, predictor=predictor, **more)
    except TypeError as error:
        raise BadInput(f"simulate: {error}") from None


def run(experiment: Experiment, policy: PolicyGiven) -> Simulation:
    record = run_experiment(experiment, policy, rows=True)
    rows = tuple(record.jobs)
    return Simulation(record.policy, record.summary, rows, record, experiment, policy)
