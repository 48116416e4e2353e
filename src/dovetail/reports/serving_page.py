"""The page of `dovetail serve simulate`: what became of the requests under each policy, over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Any

from dovetail.reports.frame import asset, framed
from dovetail.reports.page import describe_cluster
from dovetail.reports.summary_html import table, zeros_sentence
from dovetail.serving.simulation import ServingOutcome, ServingScene
from dovetail.serving.summary_table import percent
from dovetail.serving.tally import TimeHistogram
from dovetail.text.counting import counted
from dovetail.text.durations import latency_text

SCRIPTS = (
    "axes.js", "colours.js", "linechart.js", "timeline.js", "distribution.js", "tables.js",
    "legends.js", "serving_main.js",
)  # fmt: skip
CDF_POINTS = 200
_TEXT = ' class="text"'


def write_serving(
    path: Path, scene: ServingScene, outcomes: Sequence[ServingOutcome], title: str
) -> None:
    path.write_bytes(render(scene, outcomes, title).encode("utf-8", "replace"))


def render(scene: ServingScene, outcomes: Sequence[ServingOutcome], title: str) -> str:
    rows = [(own.policy, _figures(own.summary())) for own in outcomes]
    return framed(
        asset("serving.html"),
        title=title,
        facts=_facts(scene, outcomes),
        data={"runs": [_run(own) for own in outcomes]},
        scripts=SCRIPTS,
        verdict=escape(verdict(outcomes)),
        summary=table(rows),
        zeros=zeros_sentence(rows),
        services=_services(outcomes),
    )


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if isinstance(value, int | float)}


def verdict(outcomes: Sequence[ServingOutcome]) -> str:
    """Who answered most in time, and at which cost."""
    rows = sorted((own.summary() for own in outcomes), key=lambda row: -row["slo_attainment"])
    best, last = rows[0], rows[-1]
    told = f"{best['policy']} answers {percent(best['slo_attainment'])} of the requests in time"
    if len(rows) > 1:
        told += f", {last['policy']} {percent(last['slo_attainment'])}"
    return f"{told}; {best['gpu_hours']:.3g} GPU-hours."


def _facts(scene: ServingScene, outcomes: Sequence[ServingOutcome]) -> Iterator[str]:
    yield describe_cluster(scene.nodes)
    yield counted(len(scene.services), "service")
    yield f"{outcomes[0].tally.ended:,} requests"
    yield "1 policy" if len(outcomes) == 1 else f"{len(outcomes)} policies"
    if scene.training:
        yield counted(len(scene.training), "training job")


def _run(own: ServingOutcome) -> Mapping[str, object]:
    return {
        "policy": own.policy,
        "window": (0.0, max(own.ended - own.began, 1e-3)),
        "gpus": len(own.fleet.gpus),
        "series": _series(own),
        "cdfs": [_cdf(own.tally.whole().latency)],
    }


def _series(own: ServingOutcome) -> Mapping[str, Sequence[float]]:
    bins = own.tally.over_time
    count = max(int((own.ended - own.began) / bins.width) + 1, 1)
    ended, good = bins.counts[:count], bins.parts[:count]
    kept = accumulate(zip(ended, good, strict=True), _or_before, initial=1.0)
    series: dict[str, Sequence[float]] = {
        "attainment": [_rounded(part) for part in kept][1:],
        "goodput": [_rounded(number / bins.width) for number in good],
    }
    for place, name in ((0, "awake"), (1, "asleep")):
        series[name] = _means(_summed(own, place), own.began, bins.width, count)
    training = own.floor.changes if own.floor else []
    series["training"] = _means(training, own.began, bins.width, count)
    return series


def _or_before(before: float, bin_: Any) -> float:
    """The part that was in time; where nothing ended, that of before."""
    ended, good = bin_
    return good / ended if ended else before


def _summed(own: ServingOutcome, place: int) -> Iterator[tuple[float, int]]:
    """Servers of all groups together, at each change."""
    now: dict[str, int] = {}
    for at, group, *numbers in own.fleet.changes:
        now[group] = numbers[place]
        yield at, sum(now.values())


def _means(
    changes: Iterable[tuple[float, int]], began: float, width: float, count: int
) -> list[float]:
    """The mean of a step function in each bin."""
    sums, at, value = [0.0] * count, began, 0
    for when, after in (*changes, (began + count * width, 0)):
        while at < when:
            place = min(int((at - began) / width + 1e-9), count - 1)
            until = min(when, began + (place + 1) * width)
            if until <= at:
                break
            sums[place] += value * (until - at)
            at = until
        value = after
    return [_rounded(total / width) for total in sums]


def _cdf(times: TimeHistogram) -> Mapping[str, object]:
    """Values at equally spaced ranks."""
    points = min(times.count, CDF_POINTS)
    at = [times.quantile((rank + 1) / points) for rank in range(points)]
    return {"count": times.count, "at": [float(f"{own:.4g}") for own in at]}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _services(outcomes: Sequence[ServingOutcome]) -> str:
    """Each service under each policy."""
    heads = ("Service", "Policy", "Answered", "Dropped", "In SLO", "p50", "p99")
    rows = [
        (name, own.policy, f"{tally.served:,}", f"{tally.dropped:,}",
         percent(tally.good / tally.requests if tally.requests else 0.0),
         latency_text(tally.latency.quantile(0.5)), latency_text(tally.latency.quantile(0.99)))
        for name in outcomes[0].tally.by_service
        for own in outcomes
        for tally in (own.tally.by_service[name],)
    ]  # fmt: skip
    head = "".join(f'<th scope="col"{_TEXT if own == "Policy" else ""}>{own}</th>' for own in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th><td class="text">{escape(row[1])}</td>'
        + "".join(f"<td>{own}</td>" for own in row[2:])
        + "</tr>"
        for row in rows
    )
    return (
        '<table class="sortable services"><caption class="unseen">Each service under each policy'
        f'</caption><thead><tr class="keys">{head}</tr></thead><tbody>{body}</tbody></table>'
    )
