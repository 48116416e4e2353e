"""Measurements that disagree, which is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.analysis.contenders import COMPARED
from dovetail.analysis.measurements import Measurements
from dovetail.analysis.policy_choice import choices, percent
from dovetail.insight.factors import MORRIS, SOBOL, Factors
from dovetail.insight.predictive import Predictive, members
from dovetail.insight.worth import DecisionWorth
from dovetail.text.counting import either
from dovetail.text.durations import duration_text

CLEARLY = 0.02  # of the mean completion time


def disagreements(found: Measurements) -> Iterator[str]:
    predictive, decision = found.predictive, found.decision
    told = [row.group for row in predictive.importance if row.low > 0] if predictive else []
    if predictive and decision:
        yield from _predicting_against_paying(predictive, decision, told)
    dropped = {row.group: row for row in predictive.dropped} if predictive else {}
    for group in told[:3]:
        if group in dropped and dropped[group].high <= 0.1 * _mean_of(predictive, group):
            yield (
                f"Shuffling {group} hurts predictions, training without it does not: other features "
                "say the same."
            )
    for row in decision.shapley if decision else ():
        if row.high < 0:
            yield (
                f"Knowing {row.group} makes the schedule longer on average "
                f"({duration_text(-row.seconds)} of the mean completion time, over all "
                "sets of other features): what it tells misleads."
            )
    yield from _order_against_outcome(found)
    yield from _by_trace_and_by_model(found)


def _predicting_against_paying(
    predictive: Predictive, decision: DecisionWorth, told: Sequence[str]
) -> Iterator[str]:
    """Only for groups that both measured; groups shuffled together are simulated one by one."""
    paid = [row.group for row in decision.shapley if row.low > 0]
    worth = {row.group for row in decision.shapley}
    as_one = {own: row.group for row in predictive.importance for own in members(row.group)}
    both = [group for group in told if worth.issuperset(members(group))]
    if told and told[0] in both and paid and as_one.get(paid[0], told[0]) != told[0]:
        yield (
            f"{_predict(told[0])} durations best, but {paid[0]} is worth most in the schedule: "
            "what predicts the many is not what sorts the few large jobs."
        )
    for group in told[:3]:
        if group in both and not set(paid).intersection(members(group)):
            it = "it" if len(members(group)) == 1 else "them"
            yield (
                f"{_predict(group)} durations, yet knowing {it} shortens the schedule by nothing."
            )
    for group in paid[:3]:
        if group in as_one and as_one[group] not in told:
            yield f"{group} hardly predicts durations, yet the schedule is shorter for it."


def _predict(group: str) -> str:
    return f"{group} {'predicts' if len(members(group)) == 1 else 'predict'}"


def _order_against_outcome(found: Measurements) -> Iterator[str]:
    """A predictor that orders more pairs rightly, but the few large jobs worse."""
    rolling, contest = found.rolling, found.contest
    order = rolling.whole.order if rolling and rolling.whole else {}
    runs = {row.predictor: row for row in contest.kept if row.policy == COMPARED} if contest else {}
    known = sorted((name for name in order if name in runs), key=lambda name: -order[name])
    fastest = min(known, key=lambda name: runs[name].predicted_s, default="")
    if known and runs[fastest].predicted_s < (1 - CLEARLY) * runs[known[0]].predicted_s:
        yield (
            f"{known[0]} orders more pairs of jobs rightly than {fastest} "
            f"({percent(order[known[0]])} against {percent(order[fastest])}), yet {COMPARED} is "
            f"faster with {fastest} (mean {duration_text(runs[fastest].predicted_s)} against "
            f"{duration_text(runs[known[0]].predicted_s)}): pairs count alike, but a schedule "
            "hangs on the few jobs that hold most of the GPUs."
        )


def _steep_against_wide(factors: Factors) -> Iterator[str]:
    """Two methods on the same synthetic worlds; differences within chance are no disagreement."""
    steep, wide = factors.leading(MORRIS), factors.leading(SOBOL)
    if steep and wide and not set(steep).intersection(wide):
        yield (
            f"On made-up workloads {either(steep)} has the largest effects one step at a time "
            f"(Morris), {either(wide)} explains most of what varies (Sobol), both beyond chance: "
            f"the effect of {either(steep)} hangs on the others."
        )


def _mean_of(predictive: Predictive | None, group: str) -> float:
    rows = predictive.importance if predictive else ()
    return next((row.mean for row in rows if row.group == group), 0.0)


def _by_trace_and_by_model(found: Measurements) -> Iterator[str]:
    """The synthetic workloads against this trace, and two methods on the former."""
    factors = found.factors
    if factors is not None:
        yield from _steep_against_wide(factors)
    chosen = choices(found.contest)
    flips = [flip for flip in factors.flips if flip.best_changes and flip.sure] if factors else []
    if flips and chosen:
        names = ", ".join(flip.factor for flip in flips)
        yield (
            f"On made-up workloads the best policy changes with {names}: what holds on this trace "
            "need not hold when that changes."
        )
