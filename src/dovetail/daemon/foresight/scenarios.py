"""Durations drawn from beliefs, and what comes of them: a time with the spread that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from random import Random
from statistics import NormalDist
from typing import NamedTuple

from dovetail.api.forecast_row import Span
from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.predict.intervals import Belief
from dovetail.quantiles import value_at

SCENARIOS = 16
_JOBS_TO_SIMULATE = 12_000  # in all scenarios together: long queues get fewer of them
_ROUNDS_TO_SIMULATE = 20_000
_STEPS_TO_SIMULATE = 800  # of studies, whose rules think
_FEWEST_SCENARIOS = 2
_LOW, _HIGH = 0.1, 0.9
_NORMAL = NormalDist()


class Drawn(NamedTuple):
    """A time as the scenarios have it, in seconds of the state's clock."""

    expected: Seconds  # if everything takes the time it is believed to
    low: Seconds  # in a tenth of the scenarios it is sooner,
    centre: Seconds  # in half of them,
    high: Seconds | None  # in a tenth of them later; None: open

    @property
    def span(self) -> Span:
        """The interval as drawn, around the expected time."""
        high = None if self.high is None else max(self.high, self.expected)
        return Span(self.expected, min(self.low, self.expected), high)


def scenarios_for(jobs: int, rounds: int, steps: int) -> int:
    """As many as are quickly done, and the same number whenever the same is asked."""
    within = min(
        _JOBS_TO_SIMULATE // max(jobs, 1),
        _ROUNDS_TO_SIMULATE // max(rounds, 1),
        _STEPS_TO_SIMULATE // max(steps, 1),
    )
    return max(_FEWEST_SCENARIOS, min(SCENARIOS, within))


def drawn(beliefs: Mapping[JobId, Belief], number: int) -> list[dict[JobId, Seconds]]:
    """Durations for so many scenarios.

    Each job's are spread evenly over its belief (one draw from every part of equal chance). Jobs whose
    beliefs rest on the same are wrong together, by half of the variance.
    """
    levels = [_NORMAL.inv_cdf((i + 0.5) / number) for i in range(number)]
    resting: dict[str, int] = {}
    for belief in beliefs.values():
        resting[belief.source] = resting.get(belief.source, 0) + 1
    common = {source: _shuffled(levels, source) for source in resting}
    durations: list[dict[JobId, Seconds]] = [{} for _ in range(number)]
    for job_id, belief in beliefs.items():
        deviations = _shuffled(levels, job_id)
        if resting[belief.source] > 1:
            pairs = zip(deviations, common[belief.source], strict=True)
            deviations = [(own + shared) / 2**0.5 for own, shared in pairs]
        for scenario, z in zip(durations, deviations, strict=True):
            scenario[job_id] = belief.at(z)
    return durations


def _shuffled(levels: Sequence[float], seed: str) -> list[float]:
    mixed = list(levels)
    Random(seed).shuffle(mixed)
    return mixed


def spread(
    state: State,
    middle: Mapping[JobId, Seconds],
    others: Sequence[Mapping[JobId, Seconds]],
    soonest: Mapping[JobId, Seconds],
) -> dict[JobId, Drawn]:
    """`soonest`: if those that nothing is known of were out of the way."""
    found = {}
    for job_id in middle.keys() & state.tracks.keys():
        expected = middle[job_id]
        times = sorted([other.get(job_id, inf) for other in others]) or [expected]
        low, centre, high = [_quantile(times, part) for part in (_LOW, 0.5, _HIGH)]
        low = min(low, expected, soonest.get(job_id, inf))
        centre = centre if centre < inf else expected
        found[job_id] = Drawn(expected, low, centre, high if high < inf else None)
    return found


def _quantile(times: Sequence[Seconds], part: float) -> Seconds:
    """Each of them stands for a part of equal chance, in the middle of which it lies."""
    return value_at(times, part * len(times) - 0.5)
