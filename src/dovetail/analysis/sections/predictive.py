"""What predicts durations, and how well predictors do week by week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, expm1

from dovetail.analysis.policy_choice import gain_text, percent
from dovetail.analysis.sections import html
from dovetail.analysis.sections.html import Cell, ChartsDrawn, PageColumn, table
from dovetail.insight.features import GAP, LEVELS, RECENT
from dovetail.insight.predictive import FeatureShape, Importance, Predictive, Score
from dovetail.predict.rolling import Gain, Rolling, Week
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
    own: Predictive | None,
    rolling: Rolling | None,
    drawn: html.ChartsDrawn,
    problems: Sequence[str],
) -> str:
    figures = (
        *(_importance(own, drawn) if own else ()),
        *(_levels(own, drawn) if own else ()),
        *(_dropped(own, drawn) if own else ()),
        *(_shapes(own.shapes, drawn) if own else ()),
        *(weekly(rolling, drawn) if rolling else ()),
    )
    return html.section(
        "predictive",
        "3. What predicts durations",
        html.paragraph(
            "Every period is predicted from what had ended before it, never from a random split. "
            "Schedulers use the order of durations, so order accuracy counts: the share of pairs of "
            "jobs that are put in the right order; 50 % is chance."
        ),
        html.charts(*figures),
        _scores(own.scores) if own and own.scores else "",
        predictors(rolling, rolling.whole) if rolling and rolling.whole else "",
        html.unmeasured(
            (
                *(own.not_measured if own else ()),
                *(rolling.not_measured if rolling else ()),
                *problems,
            )
        ),
    )


def _importance(own: Predictive, drawn: html.ChartsDrawn) -> Iterator[str]:
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
        html.row_chart(
            _with_intervals(own.importance),
            "rise of the mean absolute error of log(1 + seconds), group shuffled",
        ),
        hint="Grouped permutation on the test periods, 95 % intervals: the one to rank by.",
    )
    yield drawn.figure(
        _order_title(own.importance),
        html.row_chart(
            [
                (row.group, [html.at(row.order_mean, row.order_low, row.order_high)])
                for row in own.importance
            ],
            "loss of order accuracy, group shuffled",
            unit="percent",
        ),
    )


def _order_title(rows: Sequence[Importance]) -> str:
    first = max(rows, key=lambda row: row.order_mean)
    if first.order_low <= 0:
        return "Shuffling no group of features spoils the order of jobs beyond chance"
    return (
        f"{first.group} orders jobs best: without it the part of the pairs in the wrong order is "
        f"{100 * first.order_mean:.1f} percentage points larger"
    )


def _with_intervals(rows: Sequence[Importance]) -> Iterator[tuple[str, list[object]]]:
    return ((row.group, [html.at(row.mean, row.low, row.high)]) for row in rows)


def _dropped(own: Predictive, drawn: html.ChartsDrawn) -> Iterator[str]:
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
        html.row_chart(
            _with_intervals(own.dropped),
            "rise of the mean absolute error of log(1 + seconds), trained without",
        ),
        hint="Trained again without the group. Where this is small and the permutation large, other "
        "features say the same.",
    )


def _levels(own: Predictive, drawn: html.ChartsDrawn) -> Iterator[str]:
    rows = sorted(own.by_level, key=lambda score: LEVELS.index(score.level))
    if not rows:
        return
    first, last = rows[0], rows[-1]
    told = f"Known at submission: {percent(first.order_accuracy)} of pairs in the right order"
    if len(rows) > 1:
        told += f"; {SAID[last.level].removeprefix('+ ')}: {percent(last.order_accuracy)}"
    yield drawn.figure(
        told,
        html.row_chart(
            [(SAID[s.level], [html.at(s.order_accuracy, s.low, s.high)]) for s in rows],
            "order accuracy of the boosted model as more becomes known",
            unit="percent",
            zero=False,
            levels=[{"at": 0.5, "name": "chance"}],
        ),
    )


def _shapes(shapes: Sequence[FeatureShape], drawn: html.ChartsDrawn) -> Iterator[str]:
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
    """The label of each bar, and its unit. Logarithms of times are shown as times."""
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
        html.PageColumn("Model"),
        html.PageColumn("Knows", is_text=True),
        html.PageColumn("Jobs"),
        html.PageColumn("Periods"),
        html.PageColumn("Order accuracy", "95 % interval"),
        html.PageColumn("Error of log(1 + s)", "mean"),
        html.PageColumn("Error", "median, of the truth"),
        html.PageColumn("Longer or shorter", "than the median"),
    )
    rows = [
        (
            html.Cell(score.model),
            html.Cell(SAID.get(score.level, score.level)),
            html.Cell(f"{score.jobs:,}", score.jobs),
            html.Cell(f"{score.periods}", score.periods),
            html.Cell(gain_text(score.order_accuracy, score.low, score.high), score.order_accuracy),
            html.Cell(f"{score.mae_log:.2f}", score.mae_log),
            html.Cell(percent(score.mdape), score.mdape),
            html.Cell(f"{percent(score.side)} right", score.side),
        )
        for score in scores
    ]
    return f"<h3>Models</h3>{html.table('Models', columns, rows)}"


# -------------------------------------------------------------------------------------- week by week


def weekly(own: Rolling, drawn: ChartsDrawn) -> Iterator[str]:
    whole = own.whole
    if whole is None or len(own.weeks) < 2:
        return
    names = list(whole.order)
    best = max(names, key=lambda name: whole.order[name])
    yield drawn.figure(
        f"Predictors as they learn: {best} orders {percent(whole.order[best])} of pairs of a week's "
        "jobs rightly, all weeks together",
        _by_week(own.weeks, names, "order", "order accuracy within the week"),
    )
    promised = [name for name in names if name in whole.coverage]
    if promised:
        name = promised[-1]
        yield drawn.figure(
            f"Intervals that promise {percent(own.level)} cover {percent(whole.coverage[name])} of "
            f"the jobs ({name}, all weeks together)",
            {
                **_by_week(own.weeks, promised, "coverage", "jobs that ended within the interval"),
                "levels": [{"at": own.level, "name": f"promised: {percent(own.level)}"}],
            },
        )


def _by_week(weeks: Sequence[Week], names: Sequence[str], field: str, up: str) -> dict[str, object]:
    lines = [
        {
            "name": name,
            "points": [
                [week.number, getattr(week, field)[name]]
                for week in weeks
                if getattr(week, field).get(name) is not None
            ],
        }
        for name in names
    ]
    return {
        "kind": "lines",
        "x": {"title": "week"},
        "y": {"as": "percent", "title": up, "zero": False},
        "lines": [line for line in lines if line["points"]],
    }


def predictors(own: Rolling, whole: Week) -> str:
    columns = (
        PageColumn("Predictor"),
        PageColumn("Order accuracy"),
        PageColumn("Typical error", "factor"),
        PageColumn("Interval covers"),
        PageColumn("Its width", "high over low, typical"),
        PageColumn("The mixture orders more pairs by", "95 % interval"),
    )
    gains = {gain.over: gain for gain in own.gains}
    rows = [_predictor(name, whole, gains.get(name)) for name in whole.order]
    first = own.weeks[0].number if own.weeks else 1
    return (
        f"<h3>Predictors, rolled through the trace from week {first} on ({whole.jobs:,} jobs)</h3>"
        f"{table('Predictors', columns, rows)}"
    )


def _predictor(name: str, whole: Week, gain: Gain | None) -> Sequence[Cell]:
    error, covered, width = (
        figures.get(name) for figures in (whole.error, whole.coverage, whole.width)
    )
    more = gain_text(gain.mean, gain.low, gain.high) if gain else "–"
    return (
        Cell(name),
        Cell(percent(whole.order[name]), whole.order[name]),
        Cell("–" if error is None else f"{exp(error):.1f} ×", error),
        Cell("–" if covered is None else percent(covered), covered),
        Cell("–" if width is None else f"{width:,.0f} ×", width),
        Cell(more, gain.mean if gain else None),
    )
