"""The page of runs: the figures of each policy, and which job ran when on which GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from dovetail.core.model import Node
from dovetail.experiments.pareto import Objective, point_of
from dovetail.reports import gantt
from dovetail.reports.best_policy import verdict
from dovetail.reports.binning import gpus_in_use, over_time, window_of
from dovetail.reports.busy import MAX_CELLS
from dovetail.reports.distribution import SIZE_CLASSES, completion_times, slowest, waited
from dovetail.reports.frame import asset, framed
from dovetail.reports.summary_html import table, zeros_sentence
from dovetail.results.record import JobOutcome, RunRecord
from dovetail.text.counting import counted

SCRIPTS = (
    "axes.js", "colours.js", "linechart.js", "timeline.js", "distribution.js", "front.js", "stints.js",
    "gantt.js", "tables.js", "legends.js", "main.js",
)  # fmt: skip


def render(
    runs: Sequence[RunRecord],
    title: str,
    objective: Objective | None = None,
    failed: Mapping[str, str] | None = None,
) -> str:
    summaries = [(run.policy, run.summary) for run in runs]
    told = [verdict(summaries, objective)]
    told += [f"{policy} failed: {reason}." for policy, reason in (failed or {}).items()]
    return framed(
        asset("compare.html"),
        title=title,
        facts=_facts(runs),
        data={**_data(runs), "front": _front(runs, objective)},
        scripts=SCRIPTS,
        verdict=escape(" ".join(told)),
        summary=table(summaries),
        zeros=zeros_sentence(summaries),
    )


def _facts(runs: Sequence[RunRecord]) -> list[str]:
    """The facts in the header: cluster, jobs, policies."""
    clusters = dict.fromkeys(describe_cluster(run.nodes) for run in runs)
    jobs = dict.fromkeys(counted(len(run.jobs), "job") for run in runs)
    policies = "1 policy" if len(runs) == 1 else f"{len(runs)} policies"
    return [" / ".join(clusters), " / ".join(jobs), policies] if runs else [policies]


def describe_cluster(nodes: Sequence[Node]) -> str:
    """A text such as "32 nodes × 8 V100 + 4 nodes × 4 T4 = 272 GPUs"."""
    if not nodes:
        return "no nodes"
    kinds = Counter((node.gpus, node.kind) for node in nodes)
    parts = [
        f"{counted(count, 'node')} × {gpus} {'GPU' if kind == 'gpu' else kind}"
        for (gpus, kind), count in kinds.most_common(6)
    ]
    if len(kinds) > len(parts):
        parts.append(counted(len(kinds) - len(parts), "more kind"))
    return f"{' + '.join(parts)} = {counted(sum(node.gpus for node in nodes), 'GPU')}"


def _data(runs: Sequence[RunRecord]) -> Mapping[str, object]:
    texts = gantt.Texts()
    most = gantt.MAX_RECTANGLES
    shares = gantt.budgets([gantt.count_rectangles(run, most) for run in runs], most)
    clusters: list[Sequence[Node]] = []
    shown = []
    for run, budget in zip(runs, shares, strict=True):
        if run.nodes not in clusters:  # one trace, one cluster: as a rule they are all the same
            clusters.append(run.nodes)
        shown.append(
            {
                **_run(run, gantt.PageShare(budget, MAX_CELLS // len(runs)), texts),
                "cluster": clusters.index(run.nodes),
            }
        )
    return {
        "size_classes": ("All sizes", *SIZE_CLASSES),
        "clusters": [_cluster(nodes, texts) for nodes in clusters],
        "runs": shown,
        "texts": list(texts.numbers),
    }


def _cluster(nodes: Sequence[Node], texts: gantt.Texts) -> list[tuple[int, int, int]]:
    return [(texts.number(node.id), node.gpus, texts.number(node.kind)) for node in nodes]


def _run(run: RunRecord, room: gantt.PageShare, texts: gantt.Texts) -> Mapping[str, object]:
    window = window_of(run)
    in_use = [gpus_in_use(stint[1]) for stint in run.stints]
    return {
        "policy": run.policy,
        "window": (window.start_s, window.end_s),
        "gpus": sum(node.gpus for node in run.nodes),
        "series": over_time(run, window, in_use),
        "cdfs": completion_times(run),
        "gantt": gantt.drawing(run, window, in_use, room, texts),
        "slowest": [_slow_row(row) for row in slowest(run)],
        "mean_jct_s": _finite(run.summary.get("mean_jct_s")),
        "p99_jct_s": _finite(run.summary.get("p99_jct_s")),
    }


def _front(runs: Sequence[RunRecord], objective: Objective | None) -> Mapping[str, object] | None:
    if objective is None:
        return None
    return {
        "title": objective.title,
        "x": (objective.against.label, objective.against.unit),
        "y": (objective.figure.label, objective.figure.unit),
        "points": [(*point_of(run, objective), bool(run.summary["pareto"])) for run in runs],
    }


def _finite(value: float | int | str | None) -> float | None:
    is_number = isinstance(value, int | float) and abs(value) < float("inf")
    return float(value) if is_number and value is not None else None


def _slow_row(row: JobOutcome) -> tuple[object, ...]:
    return (
        gantt.cut(row.job_id), gantt.cut(row.user), row.gpus, row.submit_s, waited(row),
        row.start_s, row.jct_s, row.preemptions, row.outcome,
    )  # fmt: skip
