"""Policies on this trace: a table, and the gains with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.analysis.conclusions import Verdict
from dovetail.analysis.contenders import BASELINE
from dovetail.analysis.policy_choice import gain_text, percent
from dovetail.analysis.policy_contest import Contest, Tried
from dovetail.analysis.sections.html import (
    Cell,
    ChartsDrawn,
    PageColumn,
    at,
    charts,
    finding,
    paragraph,
    policy_link,
    section,
    table,
    unmeasured,
)
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

COLUMNS = (
    PageColumn("Policy"),
    PageColumn("told durations by", is_text=True),
    PageColumn("mean completion time"),
    PageColumn("saved of fifo's", "95 % interval"),
    PageColumn("median"),
    PageColumn("p99"),
    PageColumn("mean wait"),
    PageColumn("preemptions"),
    PageColumn("GPU time lost to them"),
    PageColumn("refused"),
    PageColumn("best in", "of resamples"),
)


def contest_section(own: Contest | None, verdict: Verdict, drawn: ChartsDrawn, problem: str) -> str:
    title = "6. Policies on this trace"
    if own is None or not own.tried:
        return section("contest", title, unmeasured(own.not_measured if own else (problem,)))
    extent = "the whole trace" if own.whole else "a stretch of it that follows the usual load"
    load = f", load {percent(own.load)}" if own.load else ""
    intervals = (
        f"Intervals are from resampling {own.blocks} of submissions, the same for all policies. "
        if own.tried[0].low is not None
        else ""
    )
    chosen = {choice.policy for choice in verdict.choices}
    kinds = [
        "reference" if row.reference else "chosen-row" if row.policy in chosen else ""
        for row in own.tried
    ]
    star = "A star marks the three to try." if verdict.choices else ""
    return section(
        "contest",
        title,
        paragraph(
            f"Simulated on {extent}: {counted(own.jobs, 'job')}{load}. Policies that need "
            f"durations were told what the predictor {own.predictor} believes, never the truth; the "
            f"oracles (grey) are there to compare with. {intervals}{star}"
        ),
        charts(_gains(own, drawn)),
        table("Policies on this trace", COLUMNS, map(_cells, own.tried), "summary", kinds),
        _kept(own) if own.kept else "",
        finding(verdict.worth_knowing[:1]),
        unmeasured(own.not_measured),
    )


def _gains(own: Contest, drawn: ChartsDrawn) -> str:
    rows = [row for row in own.tried if row.policy != BASELINE]
    if not rows:
        return ""
    best = next((row for row in rows if not row.reference), rows[0])
    return drawn.figure(
        f"{best.policy} saves most of fifo's mean completion time: "
        f"{gain_text(best.gain, best.low, best.high)}"
        if best.gain > 0
        else "No policy saves anything of fifo's mean completion time",
        {
            "kind": "rows",
            "rows": [
                {
                    "name": row.policy.replace("predictor=", ""),
                    "values": [at(row.mean_jct_s, row.mean_low_s, row.mean_high_s)],
                    "hollow": row.reference,
                }
                for row in own.tried
            ],
            "series": ["mean completion time"],
            "as": "seconds",
            "log": True,
            "across": "mean completion time, 95 % interval (logarithmic; hollow: knows the truth)",
        },
        wide=True,
    )


def _short(row: Tried) -> str:
    """Without who told it lengths: that has a column of its own."""
    told = f"predictor={row.told}"
    return row.policy.removesuffix(f":{told}").removesuffix(f":left=predicted/{told}")


def _cells(row: Tried) -> Sequence[Cell]:
    return (
        Cell(policy_link(row.policy, _short(row)), html=True),
        Cell(row.told.replace("services", "distribution of service") or "nobody"),
        Cell(duration_text(row.mean_jct_s), row.mean_jct_s),
        Cell("–" if row.policy == BASELINE else gain_text(row.gain, row.low, row.high), row.gain),
        Cell(duration_text(row.p50_jct_s), row.p50_jct_s),
        Cell(duration_text(row.p99_jct_s), row.p99_jct_s),
        Cell(duration_text(row.mean_wait_s), row.mean_wait_s),
        Cell(f"{row.preemptions:,}", row.preemptions),
        Cell(percent(row.lost), row.lost),
        Cell(f"{row.refused:,}", row.refused),
        Cell("–" if row.reference or row.low is None else percent(row.best), row.best),
    )


KEPT = (
    PageColumn("Policy"),
    PageColumn("Told durations by", is_text=True),
    PageColumn("Baseline", is_text=True),
    PageColumn("Mean completion time under it"),
    PageColumn("with predictions"),
    PageColumn("with the truth"),
    PageColumn("Kept of the oracle's gain", "95 % interval"),
)


def _kept(own: Contest) -> str:
    """The part of the oracle's gain that remains."""
    rows = [
        (
            Cell(row.policy),
            Cell(row.predictor),
            Cell(row.baseline),
            Cell(duration_text(row.baseline_s), row.baseline_s),
            Cell(duration_text(row.predicted_s), row.predicted_s),
            Cell(duration_text(row.oracle_s), row.oracle_s),
            Cell("–" if row.share is None else gain_text(row.share, row.low, row.high), row.share),
        )
        for row in own.kept
    ]
    return f"<h3>What predictions kept of the oracle's gain</h3>{table('Kept', KEPT, rows)}"
