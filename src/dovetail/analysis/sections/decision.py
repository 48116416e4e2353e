"""What knowing a feature is worth in the outcome of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp

from dovetail.analysis.policy_choice import percent
from dovetail.analysis.sections import html
from dovetail.insight.worth import DecisionWorth
from dovetail.text.durations import duration_text

NOTHING_S = 1e-6  # less is rounding


def decision_section(own: DecisionWorth | None, drawn: html.ChartsDrawn, problem: str) -> str:
    title = "4. What knowing it is worth"
    if own is None:
        return html.section("decision", title, html.unmeasured((problem,)))
    about = (
        f"The schedule of {own.policy} was simulated on {own.jobs:,} jobs with predictions from "
        "different sets of features; what a feature is worth is the time it saves of the mean "
        "completion time. A feature that is taken away is replaced by the best estimate from the "
        "others."
    )
    return html.section(
        "decision",
        title,
        html.paragraph(about) if own.jobs else "",
        html.charts(
            *_outcomes(own, drawn),
            *_shapley(own, drawn),
            *_noise(own, drawn),
            *_shuffled(own, drawn),
        ),
        html.unmeasured(own.not_measured),
    )


def _outcomes(own: DecisionWorth, drawn: html.ChartsDrawn) -> Iterator[str]:
    if not own.outcomes:
        return
    best = min(own.outcomes, key=lambda row: row.mean_jct_s)
    worst = max(own.outcomes, key=lambda row: row.mean_jct_s)
    longest, shortest = duration_text(worst.mean_jct_s), duration_text(best.mean_jct_s)
    yield drawn.figure(
        f"From {longest} ({worst.name}) to {shortest} ({best.name}): what the order of jobs decides "
        "in all"
        if longest != shortest
        else f"The order of jobs decides nothing: the mean completion time is {shortest} in any",
        html.row_chart(
            [(row.name, [html.at(row.mean_jct_s, row.low, row.high)]) for row in own.outcomes],
            "mean completion time (logarithmic), 95 % interval",
            unit="seconds",
            log=True,
        ),
    )


def _shapley(own: DecisionWorth, drawn: html.ChartsDrawn) -> Iterator[str]:
    if not own.shapley:
        return
    first = max(own.shapley, key=lambda row: row.seconds)
    dropped = {row.group: row for row in own.ablation}
    rows = []
    for row in own.shapley:
        alone = dropped.get(row.group)
        without = html.at(alone.seconds, alone.low, alone.high) if alone else None
        rows.append((row.group, [html.at(row.seconds, row.low, row.high), without]))
    told = (
        f"Knowing {first.group} is worth most: {duration_text(first.seconds)} of the mean "
        "completion time"
        if first.low > 0
        else "No feature shortens the schedule by anything sure"
    )
    yield drawn.figure(
        told,
        html.row_chart(
            rows,
            "time saved of the mean completion time, 95 % interval",
            ["Shapley value", "last of all: known, less this one"],
            unit="seconds",
        ),
        hint="Shapley values add up to all that knowing everything saves against knowing nothing. "
        "Where the second is small, the other features say the same.",
    )


def _noise(own: DecisionWorth, drawn: html.ChartsDrawn) -> Iterator[str]:
    if not own.noise:
        return
    known = {row.name: row.mean_jct_s for row in own.outcomes}
    stops = own.stops_paying_at
    low, high = own.stops_paying_between
    most = own.noise[-1].sigma
    upto = f"{high:.2f}" if high is not None else f"more than the {most:g} that were tried"
    around = f", 95 % interval {low:.2f} to {upto}" if low is not None else ""
    never = f"Up to errors of sigma {most:g}, predictions pay against {own.unaware}"
    if low is not None:
        never += f", but it is not sure beyond sigma {low:.2f}"
    if max(row.mean_jct_s for row in own.noise) - own.noise[0].mean_jct_s < NOTHING_S:
        never = "Errors of predictions change nothing: any order of the jobs will do"
    told = (
        f"Predictions stop paying when they are off by a factor of {exp(stops):.1f} "
        f"(sigma {stops:.2f}{around}): beyond, {own.unaware}, which needs none, is better"
        if stops is not None
        else never
    )
    levels = [{"at": known[own.unaware], "name": f"{own.unaware}, which needs no prediction"}]
    yield drawn.figure(
        told,
        {
            "kind": "lines",
            "x": {"title": "error of the durations told: sigma of their logarithm"},
            "y": {"as": "seconds", "title": "mean completion time", "zero": False},
            "lines": [
                {
                    "name": "",
                    "points": [[row.sigma, row.mean_jct_s, row.low, row.high] for row in own.noise],
                }
            ],
            "levels": levels if own.unaware in known else [],
        },
    )


def _shuffled(own: DecisionWorth, drawn: html.ChartsDrawn) -> Iterator[str]:
    if not own.shuffled:
        return
    sure = [row for row in own.shuffled if not row.low <= 1.0 <= row.high]
    first = max(sure, key=lambda row: abs(row.ratio - 1.0), default=None)
    told = (
        f"Shuffling {first.column} over the jobs changes the mean completion time by "
        f"{percent(first.ratio - 1.0)}: so much depends on which job has which"
        if first
        else "Shuffling any column over the jobs changes nothing beyond chance"
    )
    yield drawn.figure(
        told,
        html.row_chart(
            [(row.column, [html.at(row.ratio, row.low, row.high)]) for row in own.shuffled],
            "mean completion time over that of the trace as it is",
            zero=False,
            levels=[{"at": 1.0, "name": "as it is"}],
        ),
    )
