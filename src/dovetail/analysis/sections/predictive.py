"""What predicts durations, and how well predictors do week by week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import expm1

from dovetail.analysis.policy_choice import percent
from dovetail.analysis.sections.html import (
    Cell,
    ChartsDrawn,
    PageColumn,
    at,
    charts,
    paragraph,
    section,
    table,
    unmeasured,
)
from dovetail.analysis.sections.rolling import predictors, weekly
from dovetail.insight.features import LEVELS
from dovetail.insight.past import GAP, RECENT
from dovetail.insight.predictive import FeatureShape, Importance, Predictive, Score
from dovetail.predict.rolling import Rolling
from dovetail.reports.summary_html import number
from dovetail.text.durations import duration_text

UNITS = {
    "gpus": " (GPUs)",
    "hour": " of the day, from the first submission",
    "weekday": ", from the first submission (0 to 6)",
    "memory": " (GB)",
    "gpu memory": " (GB)",
    "estimate": " (s)",
    "time limit": " (s)",
    "time to deadline": " (s)",
    "share": " (thousandths of a GPU)",
}
SAID = {
    "submit": "at submission",
    "history": "+ history of finished jobs",
    "profile": "+ a short profile",
    "run": "+ the first part of the run",
}


def predictive_section(
    own: Predictive | None, rolling: Rolling | None, drawn: ChartsDrawn, problems: Sequence[str]
) -> str:
    figures = (
        *(_importance(own, drawn) if own else ()),
        *(_levels(own, drawn) if own else ()),
        *(_dropped(own, drawn) if own else ()),
        *(_shapes(own.shapes, drawn) if own else ()),
        *(weekly(rolling, drawn) if rolling else ()),
    )
    return section(
        "predictive",
        "3. What predicts durations",
        paragraph(
            "Every period is predicted from what had ended before it, never from a random split. "
            "Schedulers use the order of durations, so order accuracy counts: the share of pairs of "
            "jobs that are put in the right order; 50 % is chance."
        ),
        charts(*figures),
        _scores(own.scores) if own and own.scores else "",
        predictors(rolling, rolling.whole) if rolling and rolling.whole else "",
        unmeasured(
            (
                *(own.not_measured if own else ()),
                *(rolling.not_measured if rolling else ()),
                *problems,
            )
        ),
    )


def _importance(own: Predictive, drawn: ChartsDrawn) -> Iterator[str]:
    if not own.importance:
        return
    first = own.importance[0]
    told = (
        f"{first.group} predicts durations best: without it the error grows by {first.mean:.2f}"
        if first.low > 0
        else "No group of features predicts durations beyond chance"
    )
    yield drawn.figure(
        told,
        _rows(
            own.importance, "rise of the mean absolute error of log(1 + seconds), group shuffled"
        ),
        hint="Grouped permutation on the test periods, 95 % intervals: the one to rank by.",
    )
    yield drawn.figure(
        _order_title(own.importance),
        {
            "kind": "rows",
            "rows": [
                {
                    "name": row.group,
                    "values": [at(row.order_mean, row.order_low, row.order_high)],
                }
                for row in own.importance
            ],
            "series": [""],
            "as": "percent",
            "across": "loss of order accuracy, group shuffled",
        },
    )


def _order_title(rows: Sequence[Importance]) -> str:
    first = max(rows, key=lambda row: row.order_mean)
    if first.order_low <= 0:
        return "Shuffling no group of features spoils the order of jobs beyond chance"
    return (
        f"{first.group} orders jobs best: without it the part of the pairs in the wrong order is "
        f"{100 * first.order_mean:.1f} percentage points larger"
    )


def _rows(rows: Sequence[Importance], across: str) -> dict[str, object]:
    return {
        "kind": "rows",
        "rows": [{"name": row.group, "values": [at(row.mean, row.low, row.high)]} for row in rows],
        "series": [""],
        "across": across,
    }


def _dropped(own: Predictive, drawn: ChartsDrawn) -> Iterator[str]:
    if not own.dropped:
        return
    first = max(own.dropped, key=lambda row: row.mean)
    told = (
        f"{first.group} is what the other features cannot replace"
        if first.low > 0
        else "Every group can be replaced by the others: training without it costs nothing sure"
    )
    yield drawn.figure(
        told,
        _rows(own.dropped, "rise of the mean absolute error of log(1 + seconds), trained without"),
        hint="Trained again without the group. Where this is small and the permutation large, other "
        "features say the same.",
    )


def _levels(own: Predictive, drawn: ChartsDrawn) -> Iterator[str]:
    rows = sorted(own.by_level, key=lambda score: LEVELS.index(score.level))
    if not rows:
        return
    first, last = rows[0], rows[-1]
    told = f"Known at submission: {percent(first.order_accuracy)} of pairs in the right order"
    if len(rows) > 1:
        told += f"; {SAID[last.level].removeprefix('+ ')}: {percent(last.order_accuracy)}"
    yield drawn.figure(
        told,
        {
            "kind": "rows",
            "rows": [
                {
                    "name": SAID[score.level],
                    "values": [at(score.order_accuracy, score.low, score.high)],
                }
                for score in rows
            ],
            "series": [""],
            "as": "percent",
            "zero": False,
            "levels": [{"at": 0.5, "name": "chance"}],
            "across": "order accuracy of the boosted model as more becomes known",
        },
    )


def _shapes(shapes: Sequence[FeatureShape], drawn: ChartsDrawn) -> Iterator[str]:
    """Of the features that move predictions most."""
    for shape in shapes[:4]:
        if len(shape.values) < 2:
            continue
        low, high = min(shape.factors), max(shape.factors)
        labels, unit = _labels(shape)
        yield drawn.figure(
            f"{shape.feature} alone moves the predicted duration between {low:.2g} and {high:.2g} "
            "times the typical one",
            {
                "kind": "bars",
                "labels": labels,
                "series": [{"name": "", "values": shape.factors}],
                "as": "factor",
                "up": "times the typical duration, additive model",
                "across": f"{shape.feature}{unit}",
            },
        )


def _labels(shape: FeatureShape) -> tuple[list[str], str]:
    """What stands under each bar, and its unit. Logarithms of times are told as times."""
    if shape.feature.endswith((RECENT, GAP)):
        what = "mean duration of those that ended" if shape.feature.endswith(RECENT) else "time"
        return [duration_text(expm1(float(value))) for value in shape.values], f" ({what})"
    return [_short(value) for value in shape.values], UNITS.get(shape.feature, "")


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value if len(value) <= 8 else value[:7] + "…"
    return number(value)


def _scores(scores: Sequence[Score]) -> str:
    columns = (
        *(
            PageColumn("Model"),
            PageColumn("Knows", is_text=True),
            PageColumn("Jobs"),
            PageColumn("Periods"),
        ),
        *(PageColumn("Order accuracy", "95 % interval"), PageColumn("Error of log(1 + s)", "mean")),
        *(
            PageColumn("Error", "median, of the truth"),
            PageColumn("Longer or shorter", "than the median"),
        ),
    )
    rows = [
        (
            (
                Cell(score.model),
                Cell(SAID.get(score.level, score.level)),
                Cell(f"{score.jobs:,}", score.jobs),
                Cell(f"{score.periods}", score.periods),
                Cell(
                    f"{percent(score.order_accuracy)} ({percent(score.low)} to {percent(score.high)})",
                    score.order_accuracy,
                ),
                Cell(f"{score.mae_log:.2f}", score.mae_log),
                Cell(percent(score.mdape), score.mdape),
                Cell(f"{percent(score.side)} right", score.side),
            ),
            "",
        )
        for score in scores
    ]
    return f"<h3>Models</h3>{table('Models', columns, rows)}"
