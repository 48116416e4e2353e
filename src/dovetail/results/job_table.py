"""The jobs of a run as rows, with slow-down and fairness; and the means over groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.results.fairness import finish_time_fairness
from dovetail.results.record import JobOutcome, RunRecord

COLUMNS: Final = (*JobOutcome._fields, "slowdown", "fairness")
GROUPS: Final = ("user", "tenant", "gpus", "outcome")


def job_table(run: RunRecord) -> list[dict[str, Any]]:
    """`slowdown` is the time in the system by the time at work; `fairness` that of its finish
    (`results.fairness`). None of jobs that never worked."""
    return [
        {**own._asdict(), "slowdown": slowdown(own), "fairness": fair}
        for own, fair in zip(run.jobs, _fairness(run), strict=True)
    ]


def check_columns(names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in COLUMNS]:
        raise BadInput(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")


def grouped(run: RunRecord, column: str) -> list[dict[str, Any]]:
    """The means over the jobs of each `user`, `tenant`, number of `gpus` or `outcome`."""
    if column not in GROUPS:
        raise BadInput(f"by {column!r}: {', '.join(GROUPS)} are known")
    groups: dict[Any, list[JobOutcome]] = {}
    for own in run.jobs:
        groups.setdefault(getattr(own, column), []).append(own)
    fairness = {own.job_id: fair for own, fair in zip(run.jobs, _fairness(run), strict=True)}
    return [{column: value, **_means(own, fairness)} for value, own in sorted(groups.items())]


def slowdown(own: JobOutcome) -> float | None:
    at_work = own.jct_s - (own.wait_s or 0.0)
    return own.jct_s / at_work if own.wait_s is not None and at_work > 0 else None


def _fairness(run: RunRecord) -> list[float | None]:
    return finish_time_fairness(run.jobs, sum(node.gpus for node in run.nodes))


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
