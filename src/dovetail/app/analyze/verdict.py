"""The verdict in plain words, from whatever could be measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.app.analyze.choice import Choice, choices, percent
from dovetail.app.analyze.contenders import COMPARED
from dovetail.app.analyze.contest import Contest
from dovetail.app.analyze.question import Question
from dovetail.insight.catalogue import Catalogue, Item
from dovetail.insight.decision import Decision
from dovetail.insight.evidence import MISSING
from dovetail.insight.factors import Factors
from dovetail.insight.predictive import Predictive
from dovetail.insight.workload import Workload
from dovetail.predict.boosting import missing
from dovetail.predict.rolling import Rolling
from dovetail.traces.description_text import span

# What most is missing where it is missing: first what predictors and policies could use tomorrow.
RECORD_FIRST = (
    *("J30", "J1", "J4", "J6", "J32", "J31", "J8", "J7", "J11", "J16", "J27", "J35", "J14", "J26"),
    *("J19", "J18", "J21", "J22", "J20", "C7", "J37", "J10"),
)
ADVISED = 6
LITTLE = 0.01  # of the baseline's mean completion time: too little to speak of
CLOSE = 0.02  # gains that differ by less are called equal


@dataclass(frozen=True, slots=True)
class Advice:
    id: str
    name: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class Verdict:
    dominant: tuple[str, ...]
    disagreements: tuple[str, ...]
    choices: tuple[Choice, ...]
    sureness: tuple[str, ...]
    worth_knowing: tuple[str, ...]  # what better predictions could bring at most
    record: tuple[Advice, ...]


def verdict(question: Question, results: Mapping[str, Any]) -> Verdict:
    work, table = results["workload"], results["catalogue"]
    contest = results["contest"]
    return Verdict(
        dominant=(
            *_dominant(work, results["predictive"], results["decision"]),
            *_moving(work, results["factors"]),
        ),
        disagreements=tuple(_disagreements(results)),
        choices=choices(contest),
        sureness=tuple(_sureness(question, results)),
        worth_knowing=tuple(_worth_knowing(contest)),
        record=tuple(_advice(table)),
    )


def _dominant(
    work: Workload | None, predictive: Predictive | None, decision: Decision | None
) -> Iterator[str]:
    if work is not None and work.tail is not None:
        yield _service(work)
    ranked = [row for row in predictive.importance if row.low > 0] if predictive else []
    if ranked:
        names = ", ".join(f"{row.group} ({percent(row.share)})" for row in ranked[:3])
        yield (
            f"What predicts durations here: {names} of what all features together tell. "
            f"{_order(predictive)}"
        )
    elif predictive is not None and predictive.scores:
        yield f"No feature of this trace predicts durations beyond chance. {_order(predictive)}"
    worth = [row for row in decision.shapley if row.low > 0] if decision else []
    if worth and decision is not None:
        names = ", ".join(f"{row.group} ({span(row.seconds)})" for row in worth[:3])
        yield (
            f"What pays in the schedule ({decision.policy}), as time saved of the mean completion "
            f"time: {names}."
        )
    elif decision is not None and decision.shapley:
        yield "Knowing more about jobs before they start does not shorten this schedule measurably."


def _moving(work: Workload | None, factors: Factors | None) -> Iterator[str]:
    """What decides the gain in general, and where this workload stands in it."""
    if factors is None or not factors.sobol:
        return
    total: dict[str, float] = {}
    for row in factors.sobol:
        total[row.factor] = total.get(row.factor, 0.0) + row.total / len(factors.policies)
    ranked = sorted(total, key=lambda name: -total[name])[:3]
    told = ", ".join(f"{name} ({percent(total[name])})" for name in ranked)
    yield (
        f"What decides how much policies gain over FIFO on made-up workloads, as part of its "
        f"variance with all interactions: {told}.{_here(work, ranked)}"
    )


def _here(work: Workload | None, names: Sequence[str]) -> str:
    """The value of those factors that the trace tells."""
    if work is None:
        return ""
    large = sum(share.jobs for share in work.sizes if share.name not in ("none", "part", "1"))
    known = {
        "load": work.load and percent(work.load.overall),
        "tail weight": work.tail and f"C² {work.tail.c2:.3g}",
        "gang mix": f"{percent(large / work.jobs)} of the jobs",
        "burstiness": work.arriving and f"C² of the gaps {work.arriving.gap_c2:.3g}",
    }
    here = [f"{name} {known[name]}" for name in names if known.get(name)]
    return f" Here: {', '.join(here)}." if here else ""


def _service(work: Workload) -> str:
    assert work.tail is not None
    tail = work.tail
    text = (
        f"Size: the hundredth of the jobs that holds most GPU time holds "
        f"{percent(tail.top_percent_share)} of it (C² of GPU-seconds {tail.service_c2:.0f}; 1 is "
        "exponential)"
    )
    if work.load is None:
        return text + "."
    pressed = "and there is a queue to order" if work.load.overall > 0.7 else "but little queueing"
    return f"{text}; the load is {percent(work.load.overall)} of the cluster, {pressed}."


def _order(predictive: Predictive | None) -> str:
    scores = [score for score in predictive.scores if score.level != "run"] if predictive else []
    if not scores:
        return ""
    best = max(scores, key=lambda score: score.order_accuracy)
    return (
        f"The best model ({best.model}) puts {percent(best.order_accuracy)} of pairs of jobs in the "
        "right order; 50 % is chance."
    )


def _disagreements(results: Mapping[str, Any]) -> Iterator[str]:
    predictive: Predictive | None = results["predictive"]
    decision: Decision | None = results["decision"]
    told = [row.group for row in predictive.importance if row.low > 0] if predictive else []
    paid = [row.group for row in decision.shapley if row.low > 0] if decision else []
    if predictive and decision and predictive.importance and decision.shapley:
        if told and paid and told[0] != paid[0]:
            yield (
                f"{told[0]} predicts durations best, but {paid[0]} is worth most in the schedule: "
                "what predicts the many is not what sorts the few large jobs."
            )
        for group in told[:3]:
            if group not in paid and group in decision.groups:
                yield f"{group} predicts durations, yet knowing it shortens the schedule by nothing."
        for group in paid[:3]:
            if group not in told:
                yield f"{group} hardly predicts durations, yet the schedule is shorter for it."
    dropped = {row.group: row for row in predictive.dropped} if predictive else {}
    for group in told[:3]:
        if group in dropped and dropped[group].high <= 0.1 * _mean_of(predictive, group):
            yield (
                f"Shuffling {group} hurts predictions, training without it does not: other features "
                "say the same."
            )
    yield from _order_against_outcome(results)
    yield from _by_trace_and_by_model(results)


def _order_against_outcome(results: Mapping[str, Any]) -> Iterator[str]:
    """Predictors that order more pairs rightly, but the few large jobs worse."""
    rolling: Rolling | None = results["rolling"]
    contest: Contest | None = results["contest"]
    order = rolling.whole.order if rolling and rolling.whole else {}
    runs = {row.predictor: row for row in contest.kept if row.policy == COMPARED} if contest else {}
    known = sorted((name for name in order if name in runs), key=lambda name: -order[name])
    fastest = min(known, key=lambda name: runs[name].predicted_s, default="")
    if known and runs[fastest].predicted_s < (1 - CLOSE) * runs[known[0]].predicted_s:
        yield (
            f"{known[0]} orders more pairs of jobs rightly than {fastest} "
            f"({percent(order[known[0]])} against {percent(order[fastest])}), yet {COMPARED} is "
            f"faster with {fastest} (mean {span(runs[fastest].predicted_s)} against "
            f"{span(runs[known[0]].predicted_s)}): pairs count alike, but a schedule hangs on the "
            "few jobs that hold most of the GPUs."
        )


def _mean_of(predictive: Predictive | None, group: str) -> float:
    rows = predictive.importance if predictive else ()
    return next((row.mean for row in rows if row.group == group), 0.0)


def _by_trace_and_by_model(results: Mapping[str, Any]) -> Iterator[str]:
    """The made-up workloads against this one."""
    factors: Factors | None = results["factors"]
    chosen = choices(results["contest"])
    flips = [flip for flip in factors.flips if flip.best_changes and flip.sure] if factors else []
    if flips and chosen:
        names = ", ".join(flip.factor for flip in flips)
        yield (
            f"On made-up workloads the best policy changes with {names}: what holds on this trace "
            "need not hold when that changes."
        )


def _sureness(question: Question, results: Mapping[str, Any]) -> Iterator[str]:
    contest = results["contest"]
    if contest is None or not contest.tried:
        yield "No policy could be simulated on this trace, so none is recommended."
        return
    extent = "the whole trace" if contest.whole else "a stretch of the trace with the usual load"
    yield (
        f"Every policy was simulated on {extent} ({contest.jobs:,} jobs, load "
        f"{percent(contest.load)}); intervals are from resampling {contest.blocks}."
    )
    fair = [row for row in contest.tried if not row.reference]
    yield _lead(fair)
    if not any(a.job.interruption.restore_s for a in question.trace.arrivals):
        yield (
            f"The trace records no cost of interruption; {question.save_s:g} s to save and "
            f"{question.restore_s:g} s to restore are assumed. More speaks for policies that "
            "interrupt nobody."
        )
    if question.quick:
        yield "This is the quick analysis: fewer jobs and repeats, wider intervals."


def _lead(rows: Sequence[Any]) -> str:
    first = rows[0]
    close = [row.policy for row in rows[1:] if first.gain - row.gain < CLOSE]
    sure = f"{first.policy} is the best in {percent(first.best)} of the resamples"
    if not close:
        return f"{sure}, with a clear lead."
    return (
        f"{sure}; {', '.join(close[:4])} {'is' if len(close) == 1 else 'are'} as good within 2 %."
    )


def _worth_knowing(contest: Any) -> Iterator[str]:
    for kept in contest.kept if contest else ():
        gain = 1.0 - kept.oracle_s / kept.baseline_s if kept.baseline_s else 0.0
        if kept.share is None or gain < LITTLE:
            yield (
                f"{kept.policy} with the truth gains next to nothing over {kept.baseline} here "
                f"({percent(max(gain, 0.0))}), so predictions have nothing to keep."
            )
            continue
        around = (
            f" (95 % interval {percent(kept.low)} to {percent(kept.high)})"
            if kept.low is not None
            else ""
        )
        yield (
            f"{kept.policy} with predictions ({kept.predictor}) kept {percent(kept.share)}{around} "
            f"of the oracle's gain over {kept.baseline}: mean completion time {span(kept.baseline_s)} "
            f"under {kept.baseline}, {span(kept.predicted_s)} with predictions, "
            f"{span(kept.oracle_s)} with the truth."
        )
    if contest and contest.kept and missing():
        yield f"Predictions are means of the recent past: {missing()}."


def _advice(table: Catalogue | None) -> Iterator[Advice]:
    missing = {item.id: item for item in table.items if item.status == MISSING} if table else {}
    wanted = [missing[name] for name in RECORD_FIRST if name in missing]
    for item in wanted[:ADVISED]:
        yield Advice(item.id, item.name, _use(item), item.record)


def _use(item: Item) -> str:
    users = []
    if item.policies:
        users.append(f"{', '.join(item.policies[:4])} use it")
    if item.predicts:
        users.append("predictors of durations learn from it")
    return "; ".join(users) or item.effect
