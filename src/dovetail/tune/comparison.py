"""Rules compared on recorded curves: the same draws for all, against `fifo` and a clairvoyant order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from random import Random
from statistics import fmean

from dovetail.tune.recorded import Task
from dovetail.tune.replay import DrawnTrials, ReplayRun, draw, replay
from dovetail.tune.rules import Rule, make
from dovetail.tune.rules.turns import FifoRule

_NO_TIME = 1e-9  # recorded steps may last nothing
_RESAMPLES = 1000  # of the runs, for an interval
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions that are the same in every run."""

    trials: int = 32
    slots: int = 4
    switch_cost: float = 0.25  # in steps
    use_seconds: bool = False
    deadline: float | None = None  # in steps of time


@dataclass(frozen=True, slots=True)
class Race:
    """One draw of configurations under every rule."""

    task: str
    fifo: ReplayRun
    clairvoyant: ReplayRun
    runs: Mapping[str, ReplayRun]  # by the rule's text
    failed: Mapping[str, str]  # by the rule's text: why it has no run


def race(task: Task, seed: int, policies: Sequence[str], terms: Terms) -> Race:
    drawn = draw(task, terms.trials, seed, terms.use_seconds)

    def run(rule: Rule, drawn: DrawnTrials, deadline: float | None = None) -> ReplayRun:
        slots, cost = terms.slots, terms.switch_cost
        return replay(rule, drawn, slots=slots, switch_cost=cost, seed=seed, deadline=deadline)

    runs: dict[str, ReplayRun] = {}
    failed: dict[str, str] = {}
    for policy in policies:
        try:
            runs[policy] = run(make(policy), drawn, terms.deadline)
        except Exception as error:  # perhaps somebody else's rule: it spoils its own row alone
            failed[policy] = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
    fifo, clairvoyant = run(FifoRule(), drawn), run(FifoRule(), drawn.in_order_of_their_ends())
    return Race(task.name, fifo, clairvoyant, runs, failed)


def races(
    task: Task,
    seeds: Iterable[int],
    policies: Sequence[str],
    terms: Terms,
    tell: Callable[[int], object] = lambda done: None,
) -> list[Race]:
    """One race for each seed; `tell` is called with the number of runs made."""
    found = []
    for seed in seeds:
        found.append(race(task, seed, policies, terms))
        tell(len(found) * len(policies))
    return found


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """The figures of one rule over all races; a speedup is relative to `fifo`."""

    policy: str
    tasks: int
    runs: int
    speedup_geomean: float | None
    speedup_max: float | None
    ci95: list[float] | None
    best_done_speedup: float | None
    missed: int
    best_killed: int
    steps: float
    switches: float
    peak_suspended: int
    ceiling_geomean: float | None


def summary(policy: str, races: Sequence[Race]) -> RuleSummary:
    """How a rule performed. Runs that never reach the target are counted but are in no mean."""
    runs = [one.runs[policy] for one in races]
    speedups = _ratios([(one.fifo.to_target, one.runs[policy].to_target) for one in races])
    best_done = _ratios([(one.fifo.best_done, one.runs[policy].best_done) for one in races])
    ceilings = _ratios([(one.fifo.to_target, one.clairvoyant.to_target) for one in races])
    return RuleSummary(
        policy=policy,
        tasks=len({one.task for one in races}),
        runs=len(runs),
        speedup_geomean=geometric_mean(speedups),
        speedup_max=max(speedups, default=None),
        ci95=interval(speedups),
        best_done_speedup=geometric_mean(best_done),
        missed=len(runs) - len(speedups),
        best_killed=sum(run.best_killed for run in runs),
        steps=fmean(run.steps for run in runs),
        switches=fmean(run.switches for run in runs),
        peak_suspended=max(run.peak_suspended for run in runs),
        ceiling_geomean=geometric_mean(ceilings),
    )


def _ratios(times: Iterable[tuple[float, float]]) -> list[float]:
    """By what factor the rule is sooner, in the runs where both reach the target."""
    return [(fifo or _NO_TIME) / (other or _NO_TIME) for fifo, other in times if other < inf]


def geometric_mean(values: Sequence[float]) -> float | None:
    return exp(fmean(map(log, values))) if values else None


def interval(values: Sequence[float]) -> list[float] | None:
    """The bootstrap interval of the geometric mean; the same draws each time."""
    if not values:
        return None
    logarithms, random = [log(value) for value in values], Random(0)
    means = sorted(fmean(random.choices(logarithms, k=len(logarithms))) for _ in range(_RESAMPLES))
    outside = round(_RESAMPLES * (1.0 - _CONFIDENCE) / 2)
    return [exp(means[outside]), exp(means[-1 - outside])]
