"""Which property of workload and cluster moves what policies gain, on made-up workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp

from dovetail.analysis.sections import html
from dovetail.insight.factors import MORRIS, SOBOL, Factors, Flip, Screened, SobolIndex
from dovetail.reports.summary_html import number
from dovetail.text.counting import either

MOST_FLIPS = 4  # drawn; the table has them all


def factors_section(own: Factors | None, drawn: html.ChartsDrawn, problem: str) -> str:
    title = "5. What moves the gain: factors"
    if own is None:
        return html.section("factors", title, html.unmeasured((problem,)))
    return html.section(
        "factors",
        title,
        html.paragraph(
            f"{own.runs:,} simulations of made-up workloads of {own.jobs:,} jobs, each factor turned "
            "through its range, the same for every trace. "
            "The outcome is log(JCT / JCT of FIFO): what a policy gains, not what the load does to "
            "everybody."
        )
        if own.runs
        else "",
        html.charts(*_morris(own, drawn), *_sobol(own, drawn), *_along(own, drawn)),
        _ranges(own),
        _flips(own.flips) if own.flips else "",
        html.unmeasured(own.not_measured),
    )


def _morris(own: Factors, drawn: html.ChartsDrawn) -> Iterator[str]:
    if not own.morris:
        return
    found = {(row.policy, row.factor): row for row in own.morris}
    yield drawn.figure(
        f"Screening: {either(own.leading(MORRIS))} moves the gain most over all policies (Morris)"
        f"{_unsure(own.leading(MORRIS))}",
        html.row_chart(
            [(name, [_screened(found, p, name) for p in own.policies]) for name in _names(own)],
            "mean effect over the range (mu*), of log(JCT / JCT of FIFO), 95 % interval",
            own.policies,
        ),
    )


def _screened(found: Mapping[tuple[str, str], Screened], policy: str, factor: str) -> object:
    row = found.get((policy, factor))
    return None if row is None else html.at(row.mu_star, row.low, row.high)


def _sobol(own: Factors, drawn: html.ChartsDrawn) -> Iterator[str]:
    for policy in own.policies:
        rows = [row for row in own.sobol if row.policy == policy]
        if not rows:
            continue
        rows.sort(key=lambda row: -row.total)
        leaders = own.leading(SOBOL, policy)
        yield drawn.figure(
            f"{policy}: {either(leaders)} explains most of how its gain varies, "
            f"{_share(rows[0])} (Sobol){_unsure(leaders)}",
            html.row_chart(
                [(row.factor, _first_and_total(row)) for row in rows],
                "part of the variance of log(JCT / JCT of FIFO), 95 % interval",
                ["alone (first)", "with all it does together with others (total)"],
                unit="percent",
            ),
        )


def _first_and_total(row: SobolIndex) -> list[object]:
    return [
        html.at(row.first, row.first_low, row.first_high),
        html.at(row.total, row.total_low, row.total_high),
    ]


def _unsure(names: Sequence[str]) -> str:
    return "; these runs cannot tell which" if len(names) > 1 else ""


def _share(row: SobolIndex) -> str:
    low, high = (f"{100 * max(0.0, end):.0f}" for end in (row.total_low, row.total_high))
    return f"{row.factor} {low} to {high} %"


def _along(own: Factors, drawn: html.ChartsDrawn) -> Iterator[str]:
    """Where the best policy changes, how each does along the factor."""
    scales = {factor.name: factor for factor in own.factors}
    flips = sorted(
        (flip for flip in own.flips if flip.best_changes), key=lambda flip: not flip.sure
    )
    for flip in flips[:MOST_FLIPS]:
        factor = scales[flip.factor]
        lines = [
            {
                "name": policy,
                "points": [[x, exp(g[i])] for x, g in zip(flip.at, flip.gains, strict=True)],
            }
            for i, policy in enumerate(own.policies)
        ]
        sure = "" if flip.sure else ", but not beyond chance"
        yield drawn.figure(
            f"Over {flip.factor} the best policy changes from {flip.rankings[0][0]} to "
            f"{flip.rankings[-1][0]}{sure}",
            {
                "kind": "lines",
                "x": {"title": f"{flip.factor}: {factor.unit}", "log": factor.logarithmic},
                "y": {"title": "mean completion time over that of FIFO", "zero": False},
                "lines": lines,
                "levels": [{"at": 1.0, "name": "FIFO"}],
            },
        )


def _names(own: Factors) -> list[str]:
    most = {row.factor: 0.0 for row in own.morris}
    for row in own.morris:
        most[row.factor] = max(most[row.factor], row.mu_star)
    return sorted(most, key=lambda name: -most[name])


def _ranges(own: Factors) -> str:
    columns = (
        html.PageColumn("Factor"),
        html.PageColumn("Meaning", is_text=True),
        html.PageColumn("From"),
        html.PageColumn("To"),
    )
    rows = [
        (
            html.Cell(factor.name),
            html.Cell(factor.unit + (", on a logarithmic scale" if factor.logarithmic else "")),
            html.Cell(number(factor.low), factor.low),
            html.Cell(number(factor.high), factor.high),
        )
        for factor in own.factors
    ]
    return (
        f"<h3>Factors and their ranges</h3>{html.table('Factors', columns, rows)}" if rows else ""
    )


def _flips(flips: Sequence[Flip]) -> str:
    columns = (
        html.PageColumn("Factor"),
        html.PageColumn("Best first, from its low to its high end", is_text=True),
        html.PageColumn("Kendall's tau", "1: same order"),
        html.PageColumn("The best changes", is_text=True),
        html.PageColumn("Beyond chance", is_text=True),
    )
    flipped = html.table("Flips", columns, _flip_rows(flips))
    return f"<h3>Where the ranking of policies flips</h3>{flipped}"


def _flip_rows(flips: Sequence[Flip]) -> Iterable[Sequence[html.Cell]]:
    for flip in flips:
        rankings = "; ".join(
            f"at {number(value)}: {', '.join(ranking)}"
            for value, ranking in zip(flip.at, flip.rankings, strict=False)
        )
        yield (
            html.Cell(flip.factor),
            html.Cell(rankings),
            html.Cell(f"{flip.tau:.2f}", flip.tau),
            html.Cell("yes" if flip.best_changes else "no"),
            html.Cell("–" if not flip.best_changes else "yes" if flip.sure else "no"),
        )
