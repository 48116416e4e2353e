"""The conclusions in plain words, from all that could be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.analysis.contenders import BASELINE
from dovetail.analysis.disagreement import disagreements
from dovetail.analysis.dominant import dominant, moving
from dovetail.analysis.measurements import Measurements
from dovetail.analysis.policy_choice import (
    CLOSE,
    PolicyChoice,
    all_alike,
    choices,
    gain_text,
    percent,
)
from dovetail.analysis.policy_contest import Contest, KeptRuns, Tried
from dovetail.analysis.question import Question
from dovetail.insight.evidence import DERIVABLE, MISSING
from dovetail.insight.feature_catalogue import UNREAD, FeatureCatalogue, Item
from dovetail.predict.boosting import missing
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

LITTLE = 0.01  # of the baseline's mean completion time: too little to speak of
FEW = 1000  # jobs
SURE = 0.95  # of the resamples: fewer make no clear lead


@dataclass(frozen=True, slots=True)
class Verdict:
    dominant: tuple[str, ...]
    disagreements: tuple[str, ...]
    choices: tuple[PolicyChoice, ...]
    sureness: tuple[str, ...]
    worth_knowing: tuple[str, ...]  # what better predictions could bring at most
    record: tuple[Advice, ...]


def verdict(question: Question, found: Measurements) -> Verdict:
    return Verdict(
        dominant=(
            *dominant(found.workload, found.predictive, found.decision, found.contest),
            *moving(found.workload, found.factors),
        ),
        disagreements=tuple(disagreements(found)),
        choices=choices(found.contest),
        sureness=tuple(_sureness(question, found.contest)),
        worth_knowing=tuple(_worth_knowing(found.contest)),
        record=tuple(advice(found.catalogue)),
    )


def _sureness(question: Question, contest: Contest | None) -> Iterator[str]:
    if contest is None or not contest.tried:
        why = f" {contest.not_measured[-1]}" if contest and contest.not_measured else ""
        yield f"No policy could be simulated on this trace, so none is recommended.{why}"
        return
    extent = "the whole trace" if contest.whole else "a stretch of the trace with the usual load"
    load = f", load {percent(contest.load)}" if contest.load else ""
    fair = [row for row in contest.tried if not row.reference]
    resampled = fair[0].low is not None
    intervals = f"intervals are from resampling {contest.blocks}" if resampled else "no intervals"
    yield (
        f"Every policy was simulated on {extent} ({counted(contest.jobs, 'job')}{load}); "
        f"{intervals}."
    )
    if contest.jobs < FEW:
        yield (
            f"{counted(contest.jobs, 'job')} {'says' if contest.jobs == 1 else 'say'} little: "
            "which policy comes first may be chance. Bring more before you decide."
        )
    yield _lead(fair)
    if not any(a.job.interruption.restore_s for a in question.trace.arrivals):
        yield (
            f"The trace records no cost of interruption; {question.save_s:g} s to save and "
            f"{question.restore_s:g} s to restore are assumed. More speaks for policies that "
            "interrupt nobody."
        )
    if question.quick:
        yield "This is the quick analysis: fewer jobs and repeats, wider intervals."


def _lead(rows: Sequence[Tried]) -> str:
    first = rows[0]
    close = [row.policy for row in rows[1:] if row.mean_jct_s <= CLOSE * first.mean_jct_s]
    sure = f"{first.policy} is the best in {percent(first.best)} of the resamples"
    if len(rows) == 1:
        return "Only one policy could be tried."
    if all_alike(rows):
        return "No policy is better than another here: all means lie within 5 %."
    if first.low is None:
        sure = f"{first.policy} has the shortest mean"
    if not close and first.low is not None and first.best >= SURE:
        return f"{sure}, with a clear lead."
    if not close:
        longer = rows[1].mean_jct_s / max(first.mean_jct_s, 1e-9) - 1.0
        return f"{sure}; {rows[1].policy} is next, its mean {percent(longer)} longer."
    return (
        f"{sure}; {', '.join(close[:4])} {'is' if len(close) == 1 else 'are'} as good within 5 %."
    )


def _worth_knowing(contest: Contest | None) -> Iterator[str]:
    if contest is None:
        return
    for kept in contest.kept:
        gain = 1.0 - kept.oracle_s / kept.baseline_s if kept.baseline_s else 0.0
        if kept.share is None or gain < LITTLE:
            yield (
                f"{kept.policy} with the truth gains next to nothing over {kept.baseline} here "
                f"({percent(max(gain, 0.0))}), so predictions have nothing to keep."
            )
            continue
        around = f" (95 % interval {percent(kept.low)} to {percent(kept.high)})"
        yield (
            f"{kept.policy} with predictions ({kept.predictor}) kept {percent(kept.share)}"
            f"{around if kept.low is not None else ''} of the oracle's gain over {kept.baseline}: "
            f"mean completion time {duration_text(kept.baseline_s)} under {kept.baseline}, "
            f"{duration_text(kept.predicted_s)} with predictions, {duration_text(kept.oracle_s)} "
            "with the truth."
            f"{_also(kept, contest.kept)}"
        )
    if contest.kept and missing():
        yield f"Predictions are means of the recent past: {missing()}."


def _also(kept: KeptRuns, others: Sequence[KeptRuns]) -> str:
    """Against plain FIFO every policy looks good if one large job holds up all jobs behind it."""
    for own in others:
        same = (own.policy, own.predictor) == (kept.policy, kept.predictor)
        if not same or kept.baseline != BASELINE or own.baseline == BASELINE or own.share is None:
            continue
        if own.share <= 0:
            return f" It loses against {own.baseline}: {duration_text(own.baseline_s)}."
        return f" Over {own.baseline} it kept {gain_text(own.share, own.low, own.high)}."
    return ""


# ------------------------------------------------------------------------ what to record from now on

# What most is missing where it is missing: first what predictors and policies could use tomorrow.
RECORD_FIRST = (
    *("J30", "J1", "J4", "J6", "J32", "J31", "J8", "J7", "J11", "J16", "J27", "J35", "J14", "J26"),
    *("J19", "J18", "J21", "J22", "J20", "C7", "J37", "J10"),
)
ADVISED = 6


@dataclass(frozen=True, slots=True)
class Advice:
    id: str
    name: str
    why: str
    how: str


def advice(table: FeatureCatalogue | None) -> Iterator[Advice]:
    lacking = {item.id: item for item in table.items if _lacks(item)} if table else {}
    wanted = [lacking[name] for name in RECORD_FIRST if name in lacking]
    for item in wanted[:ADVISED]:
        there = f" (there is {item.evidence})" if item.status == DERIVABLE else ""
        yield Advice(item.id, item.name, _use(item), f"{item.record}{there}")


def _lacks(item: Item) -> bool:
    """Missing, or in the file in a form that Dovetail does not read but could under another name."""
    unread = item.status == DERIVABLE and item.evidence.endswith(UNREAD)
    return item.status == MISSING or unread


def _use(item: Item) -> str:
    users = []
    if item.policies:
        named = item.policies[:4]
        users.append(f"{', '.join(named)} {'uses' if len(named) == 1 else 'use'} it")
    if item.also:
        users.append(f"{item.also} use it")
    if item.predicts:
        users.append("predictors of durations learn from it")
    return "; ".join(users) or item.effect
