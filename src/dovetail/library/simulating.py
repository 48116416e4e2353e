"""One trace under one policy, and what came of it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from csv import DictWriter
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dovetail.core.entries import JournalEntry
from dovetail.core.errors import BadInput
from dovetail.core.journal import decode
from dovetail.core.loop import Policy
from dovetail.core.model import Node, Tenant
from dovetail.experiments.experiment import Experiment
from dovetail.experiments.experiment import simulate as run_experiment
from dovetail.library.frames import as_frame
from dovetail.library.trace_files import TraceGiven, as_trace
from dovetail.results.fairness import finish_time_fairness
from dovetail.results.record import JobOutcome, RunRecord
from dovetail.traces.clusters.cluster_text import read_cluster, read_cluster_tenants

PolicyGiven: TypeAlias = str | Policy
_GROUPS = ("user", "tenant", "gpus", "outcome")


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
        return as_frame(job_rows(self), frame)

    def csv(self, path: str | PathLike[str], *columns: str) -> Path:
        """Write the jobs as CSV: these columns, or all."""
        rows = job_rows(self)
        known = list(rows[0]) if rows else []
        if unknown := [name for name in columns if name not in known]:
            raise BadInput(f"there is no column {unknown[0]!r}; there are {', '.join(known)}")
        with open(path, "w", encoding="utf-8", newline="") as file:
            table = DictWriter(file, columns or known, extrasaction="ignore")
            table.writeheader()
            table.writerows(rows)
        return Path(path)

    def by(self, column: str, frame: str | None = None) -> Any:
        """The means over the jobs of each `user`, `tenant`, number of `gpus` or `outcome`."""
        if column not in _GROUPS:
            raise BadInput(f"by {column!r}: {', '.join(_GROUPS)} are known")
        groups: dict[Any, list[JobOutcome]] = {}
        for own in self.rows:
            groups.setdefault(getattr(own, column), []).append(own)
        fairness = {own.job_id: fair for own, fair in zip(self.rows, _fairness(self), strict=True)}
        rows = [{column: value, **_means(own, fairness)} for value, own in sorted(groups.items())]
        return as_frame(rows, frame)

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


def job_rows(simulation: Simulation) -> list[dict[str, Any]]:
    return [
        {**own._asdict(), "slowdown": slowdown(own), "fairness": fair}
        for own, fair in zip(simulation.rows, _fairness(simulation), strict=True)
    ]


def _fairness(simulation: Simulation) -> list[float | None]:
    gpus = sum(node.gpus for node in simulation._experiment.nodes)
    return finish_time_fairness(simulation.rows, gpus)


def slowdown(own: JobOutcome) -> float | None:
    at_work = own.jct_s - (own.wait_s or 0.0)
    return own.jct_s / at_work if own.wait_s is not None and at_work > 0 else None


def _means(
    rows: Sequence[JobOutcome], fairness: Mapping[str, float | None]
) -> dict[str, float | int]:
    fair = [found for own in rows if (found := fairness[own.job_id]) is not None]
    slow = [found for own in rows if (found := slowdown(own)) is not None]
    waits = [own.wait_s for own in rows if own.wait_s is not None]
    return {
        "jobs": len(rows),
        "finished": sum(own.outcome == "finished" for own in rows),
        "mean_jct_s": fmean(own.jct_s for own in rows),
        "mean_wait_s": fmean(waits) if waits else 0.0,
        "mean_slowdown": fmean(slow) if slow else 1.0,
        "mean_fairness": fmean(fair) if fair else 1.0,
        "gpu_hours": sum(own.gpu_seconds for own in rows) / 3600,
    }
