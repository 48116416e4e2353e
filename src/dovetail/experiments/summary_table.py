"""Summaries as a plain table that fits a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import TypeAlias

from dovetail.experiments.files import FailedRun
from dovetail.experiments.pareto import Objective
from dovetail.policies import registry
from dovetail.predict.registry import PREDICTORS, SPEED_PREDICTORS, source_of
from dovetail.results.intervals import figure_of
from dovetail.text.counting import counted
from dovetail.text.durations import in_one_unit
from dovetail.text.tables import figures_table, wrapped

Summary: TypeAlias = Mapping[str, float | int | str]
_COLUMNS = (
    ("policy", "policy"),
    ("finished", "done"),
    ("mean_jct_s", "mean JCT"),
    ("p50_jct_s", "median"),
    ("p99_jct_s", "p99"),
    ("mean_wait_s", "wait"),
    ("makespan_s", "makespan"),
    ("gpu_utilisation", "GPU use"),
    ("preemptions", "preempts"),
)
_MONEY = (
    ("policy", "policy"),
    ("total_cost", "total cost"),
    ("energy_cost", "energy"),
    ("tardiness_cost", "lateness"),
    ("energy_kwh", "kWh"),
    ("co2_kg", "CO2 kg"),
    ("tardiness_s", "late by"),
    ("deadline_misses", "late jobs"),
    ("migrations", "moves"),
)
TITLES = dict(_COLUMNS)
_OTHER_ENDS = ("failed", "cancelled", "refused")


def table(
    summaries: Sequence[Summary],
    objective: Objective | None = None,
    failures: Sequence[FailedRun] = (),
) -> str:
    """One row per policy; times in a readable unit. Costs follow if they are known, or the figures
    of the objective with the Pareto front. A failed run has a row with the reason."""
    lines = _block(summaries, _COLUMNS)
    for failed in failures:
        lines += wrapped(f"{failed.name}  failed: {failed.reason}")
    if objective is not None:
        lines += ["", *_block(summaries, (_COLUMNS[0], *objective.columns, ("pareto", "front")))]
        lines += _front(summaries, objective)
    elif any(summary.get("total_cost") for summary in summaries):
        lines += ["", *_block(summaries, _MONEY)]
    for summary in summaries:
        lines += other_ends(str(summary["policy"]), [summary])
    return "\n".join(lines)


def _front(summaries: Sequence[Summary], objective: Objective) -> list[str]:
    names = ", ".join(str(summary["policy"]) for summary in summaries if summary["pareto"])
    figures = f"{objective.figure.label.lower()} and {objective.against.label.lower()}"
    return wrapped(f"front: {names} (nobody is better in both {figures})")


def _block(summaries: Sequence[Summary], columns: Sequence[tuple[str, str]]) -> list[str]:
    texts = [_texts(key, summaries) for key, _ in columns]
    rows = [[title for _, title in columns], *map(list, zip(*texts, strict=True))]
    return figures_table(rows)


def told(
    policies: Sequence[str], predictor: str, speeds: str = "none", left: str = "predicted"
) -> list[str]:
    """What policies knew beyond the present: it decides how much their figures promise."""
    knowing: dict[str, list[str]] = {}
    for text in policies:
        for source in registry.sources(text, predictor, left):
            knowing.setdefault(_source(source), []).append(text)
        if (asked := registry.speeds_of(text, speeds)) is not None:
            rests_on = source_of(SPEED_PREDICTORS, asked)
            knowing.setdefault(f"speeds: {asked} ({rests_on})", []).append(text)
    return [
        line
        for source, names in knowing.items()
        for line in wrapped(f"{source} for {', '.join(names)}")
    ]


def _source(name: str) -> str:
    if name == "services":
        return "service: the distribution over the whole trace"
    return f"durations: {name} ({source_of(PREDICTORS, name)})"


def other_ends(policy: str, runs: Sequence[Summary]) -> list[str]:
    """Jobs that did not finish are reported in a line of their own, never left out."""
    sums = {key: sum(int(run[key]) for run in runs) for key in ("jobs", *_OTHER_ENDS)}
    counts = [f"{sums[key]} {key}" for key in _OTHER_ENDS if sums[key]]
    if not counts:
        return []
    jobs = counted(sums["jobs"], "job") + f" in {len(runs)} seeds" * (len(runs) > 1)
    return wrapped(f"{policy}: of {jobs} {', '.join(counts)}")


def searches_told(summaries: Sequence[Summary]) -> list[str]:
    """`andreas-random-greedy: 51,234 passes in 60 decisions, 3 of them cut short by limit_s`"""
    lines: list[str] = []
    for summary in summaries:
        if "searches" not in summary:
            continue
        told = f"{summary['search_passes']:,} passes in {summary['searches']:,} decisions"
        if summary["searches_cut"]:
            told += f", {summary['searches_cut']:,} of them cut short by limit_s"
        lines += wrapped(f"{summary['policy']}: {told}")
    return lines


def _texts(key: str, summaries: Sequence[Summary]) -> list[str]:
    """The cells of one column; times in one unit, so that they compare at a glance."""
    if not key.endswith("_s"):
        return [_cell(key, summary[key]) for summary in summaries]
    values = [figure_of(summary, key) for summary in summaries]
    known = iter(in_one_unit([value for value in values if not isnan(value)]))
    return ["-" if isnan(value) else next(known) for value in values]


def _cell(key: str, value: float | int | str) -> str:
    if key == "gpu_utilisation":
        return f"{float(value):.1%}"
    if key == "pareto":
        return "yes" if value else "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return str(value)
