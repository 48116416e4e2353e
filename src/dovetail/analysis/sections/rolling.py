"""Predictors of durations, as they learn week by week."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp

from dovetail.analysis.policy_choice import percent
from dovetail.analysis.sections.html import Cell, ChartsDrawn, PageColumn, table
from dovetail.predict.rolling import Gain, Rolling, Week


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
        *(
            PageColumn("Predictor"),
            PageColumn("Order accuracy"),
            PageColumn("Typical error", "factor"),
        ),
        *(PageColumn("Interval covers"), PageColumn("Its width", "high over low, typical")),
        PageColumn("The mixture orders more pairs by", "95 % interval"),
    )
    gains = {gain.over: gain for gain in own.gains}
    rows = [(_predictor(name, whole, gains.get(name)), "") for name in whole.order]
    first = own.weeks[0].number if own.weeks else 1
    return (
        f"<h3>Predictors, rolled through the trace from week {first} on ({whole.jobs:,} jobs)</h3>"
        f"{table('Predictors', columns, rows)}"
    )


def _predictor(name: str, whole: Week, gain: Gain | None) -> Sequence[Cell]:
    error, covered, width = (
        figures.get(name) for figures in (whole.error, whole.coverage, whole.width)
    )
    more = f"{percent(gain.mean)} ({percent(gain.low)} to {percent(gain.high)})" if gain else "–"
    return (
        Cell(name),
        Cell(percent(whole.order[name]), whole.order[name]),
        Cell("–" if error is None else f"{exp(error):.1f} ×", error),
        Cell("–" if covered is None else percent(covered), covered),
        Cell("–" if width is None else f"{width:,.0f} ×", width),
        Cell(more, gain.mean if gain else None),
    )
