"""The dominant factors: of the workload, of predictions, of the schedule, and of policies' gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.analysis.contenders import BASELINE
from dovetail.analysis.policy_choice import percent
from dovetail.analysis.policy_contest import Contest
from dovetail.insight.factors import SOBOL, Factors
from dovetail.insight.predictive import Predictive
from dovetail.insight.workload_figures import WorkloadFigures
from dovetail.insight.worth import DecisionWorth
from dovetail.text.durations import duration_text

QUEUEING = 0.1  # of the time that jobs run: who waits longer stands in a queue worth ordering


def dominant(
    work: WorkloadFigures | None,
    predictive: Predictive | None,
    decision: DecisionWorth | None,
    contest: Contest | None,
) -> Iterator[str]:
    if work is not None and work.tail is not None:
        yield _service(work, contest)
    ranked = [row for row in predictive.importance if row.low > 0] if predictive else []
    if ranked:
        names = ", ".join(f"{row.group} ({percent(row.share)})" for row in ranked[:3])
        yield (
            f"What predicts durations here, as a part of what all features together tell: {names}. "
            f"{_order(predictive)}"
        )
    elif predictive is not None and predictive.scores:
        yield f"No feature of this trace predicts durations beyond chance. {_order(predictive)}"
    worth = [row for row in decision.shapley if row.low > 0] if decision else []
    if worth and decision is not None:
        names = ", ".join(f"{row.group} ({duration_text(row.seconds)})" for row in worth[:3])
        yield (
            f"What pays in the schedule ({decision.policy}), as time saved of the mean completion "
            f"time: {names}."
        )
    elif decision is not None and decision.shapley:
        yield "Knowing more about jobs before they start does not shorten this schedule measurably."


def moving(work: WorkloadFigures | None, factors: Factors | None) -> Iterator[str]:
    """The factors that decide the gain in general, and the values of this workload."""
    if factors is None or not factors.sobol:
        return
    total: dict[str, float] = {}
    for row in factors.sobol:
        total[row.factor] = total.get(row.factor, 0.0) + row.total / len(factors.policies)
    ranked = sorted(total, key=lambda name: -total[name])[:3]
    told = ", ".join(f"{name} ({percent(total[name])})" for name in ranked)
    yield (
        f"What decides how much policies gain over FIFO on made-up workloads, as part of its "
        f"variance with all interactions: {told}.{_sure(factors)}{_here(work, factors, ranked)}"
    )


def _sure(factors: Factors) -> str:
    leaders = factors.leading(SOBOL)
    if len(leaders) == 1:
        return f" That {leaders[0]} comes first is beyond chance."
    return f" Which of {', '.join(leaders)} comes first, these runs cannot tell." if leaders else ""


def _here(work: WorkloadFigures | None, factors: Factors, names: Sequence[str]) -> str:
    """The trace's values of those factors, and whether they are in the range that was tried."""
    if work is None:
        return ""
    large = sum(share.jobs for share in work.sizes if share.name not in ("none", "part", "1"))
    known = {
        "load": (work.load.overall, "{:.2f}") if work.load else None,
        "tail weight": (work.tail.c2, "C² {:.3g}") if work.tail else None,
        "gang mix": (large / work.jobs, "{:.3g}"),
        "burstiness": (work.arriving.gap_c2, "C² of the gaps {:.3g}") if work.arriving else None,
    }
    ranges = {factor.name: (factor.low, factor.high) for factor in factors.factors}
    here = []
    for name in names:
        found = known.get(name)
        if found is None:
            continue
        value, form = found
        low, high = ranges[name]
        beyond = (
            "" if low <= value <= high else f" (beyond the {low:g} to {high:g} that were tried)"
        )
        here.append(f"{name} {form.format(value)}{beyond}")
    return f" Here: {', '.join(here)}." if here else ""


def _service(work: WorkloadFigures, contest: Contest | None) -> str:
    assert work.tail is not None
    tail = work.tail
    whose = "hundredth of the jobs" if work.jobs >= 200 else "job"
    text = (
        f"Size: the {whose} that holds most GPU time holds "
        f"{percent(tail.top_percent_share)} of it (C² of GPU-seconds {tail.service_c2:.0f}; 1 is "
        "exponential)"
    )
    if work.load is None:
        return text + "."
    return f"{text}; the load is {percent(work.load.overall)} of the cluster{_queue(contest)}."


def _queue(contest: Contest | None) -> str:
    """As simulated: gangs and bursts queue at loads that look low."""
    rows = contest.tried if contest else ()
    base = next((row for row in rows if row.policy == BASELINE), None)
    if base is None:
        return ""
    run_s = base.mean_jct_s - base.mean_wait_s
    pressed = base.mean_wait_s > QUEUEING * run_s
    return (
        f", {'and there is a queue to order' if pressed else 'with little queueing'}: under "
        f"{BASELINE} jobs wait {duration_text(base.mean_wait_s)} on average and run "
        f"{duration_text(run_s)}"
    )


def _order(predictive: Predictive | None) -> str:
    scores = [score for score in predictive.scores if score.level != "run"] if predictive else []
    if not scores:
        return ""
    best = max(scores, key=lambda score: score.order_accuracy)
    return (
        f"The best model ({best.model}) puts {percent(best.order_accuracy)} of pairs of jobs in the "
        "right order; 50 % is chance."
    )
