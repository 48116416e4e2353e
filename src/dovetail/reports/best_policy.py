"""The best policy, and by how much, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from dovetail.experiments.pareto import Figure, Objective
from dovetail.reports.summary_html import Summary, number
from dovetail.text.durations import in_unit, unit_of

_JCT = Figure("mean_jct_s", "Mean completion time", "s")
_ALIKE = 0.005  # of the best: less is no difference to speak of
_BASELINE = "fifo"


def verdict(summaries: Sequence[tuple[str, Summary]], objective: Objective | None = None) -> str:
    """A sentence such as "srtf has the lowest mean completion time, 47.2 min: 29 % less than fifo"."""
    figure = objective.figure if objective else _JCT
    known = [
        (policy, value) for policy, own in summaries if (value := _value(own, figure)) is not None
    ]
    if not known:
        return "No job finished, so there is nothing to compare."
    known.sort(key=lambda row: row[1])
    best, least = known[0]
    name = figure.label if figure.unit == "kWh" or figure.label.isupper() else _lower(figure.label)
    if len(known) == 1:
        return f"{best}: {name} {_said(least, figure)}."
    close = [policy for policy, value in known[1:] if value - least <= _ALIKE * abs(least)]
    if len(close) == len(known) - 1:
        return f"All policies do the same here: {name} {_said(least, figure)}."
    return " ".join(_sentences(known, figure, name, close))


def _sentences(
    known: Sequence[tuple[str, float]], figure: Figure, name: str, close: Sequence[str]
) -> Iterator[str]:
    best, least = known[0]
    others = dict(known[1:])
    against = _BASELINE if _BASELINE in others and _BASELINE not in close else known[-1][0]
    like = others[against]
    yield (
        f"{best} has the lowest {name}, {_said(least, figure, like)}: {_less(least, like)} "
        f"than {against} ({_said(like, figure)})."
    )
    runner_up, value = known[1]
    if close:
        yield f"{_listed(close)} {'does' if len(close) == 1 else 'do'} as well within half a percent."
    elif runner_up != against:
        yield f"Next is {runner_up}, {_said(value, figure, like)}."


def _less(least: float, other: float) -> str:
    return f"{100 * (1 - least / other):.0f} % less" if other > 0 <= least else "less"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _lower(label: str) -> str:
    return label[:1].lower() + label[1:]


def _said(value: float, figure: Figure, like: float | None = None) -> str:
    """A time in the unit of another, so that one sentence has one unit."""
    if figure.unit == "s":
        return in_unit(value, unit_of(value if like is None else like))
    return f"{number(value)} {figure.unit}".rstrip()


def _value(summary: Summary, figure: Figure) -> float | None:
    value = summary.get(figure.key)
    if isinstance(value, str) or value is None or not isfinite(value):
        return None
    if figure.key == _JCT.key and not summary.get("finished", 1):
        return None
    return float(value)
