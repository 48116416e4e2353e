"""Synthetic traces: the one generator behind tests, benchmarks and the demo.

Only `random()` of the standard library is used, with our own transforms of its uniform numbers: its
stream is guaranteed never to change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import ceil, exp, floor, inf, isfinite, log, pi, sin, sqrt

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.models.workload import Arrival

DAY_S = 86_400.0
MINUTES = 1440  # steps in which the daily cycle changes its rate
# Mostly small gangs, as in Philly, yet enough large ones to make placement matter.
USUAL_GANGS = ((1, 0.6), (2, 0.15), (4, 0.12), (8, 0.1), (16, 0.03))
Draw = Callable[[], float]

LEAST_C2 = 0.01  # a smaller value would need more than a hundred stages per draw


@dataclass(frozen=True, slots=True)
class Recipe:
    """The properties of a synthetic trace. Every random part has its own stream of the seed, so
    that two recipes which differ in durations have the same arrivals and gangs."""

    jobs: int = 1000
    gpus: int = 64  # of the cluster that `load` refers to
    load: float = 0.8  # GPU-seconds asked for per second, over `gpus`
    mean_duration_s: Seconds = 3600.0
    c2: float = 10.0  # squared coefficient of variation of durations; 1 is exponential, 0 all equal
    # (GPUs, weight); the weights are scaled to sum to 1
    gangs: tuple[tuple[int, float], ...] = USUAL_GANGS
    burstiness: float = 1.0  # the same for the times between arrivals; 1 is Poisson
    daily_cycle: float = 0.0  # 0 to 1: how far the rate of arrivals swings over a day
    users: int = 20  # the k-th is 1/k as active as the first; 0 leaves users out
    # how much users differ in the length of their jobs; the overall c2 stays as given
    user_spread: float = 0.0
    deadline_factor: float | None = None  # a deadline at submission + factor * duration
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.jobs >= 1, "jobs", self.jobs, "1 or more")
        _require(self.gpus >= 1, "gpus", self.gpus, "1 or more")
        _require(0 < self.load < inf, "load", self.load, "more than 0, such as 0.8")
        _require(0 < self.mean_duration_s < inf, "mean duration", self.mean_duration_s, "above 0 s")
        _require(0 <= self.c2 < inf, "c2", self.c2, "0 or more")
        _require(0 <= self.burstiness < inf, "burstiness", self.burstiness, "0 or more")
        _require(0 <= self.daily_cycle <= 1, "daily cycle", self.daily_cycle, "0 to 1")
        _require(self.users >= 0, "users", self.users, "0 or more")
        _require(0 <= self.user_spread <= 5, "user spread", self.user_spread, "0 to 5")
        factor = self.deadline_factor
        _require(factor is None or 0 < factor < inf, "deadline factor", factor, "above 0")
        _require(_are_gangs(self.gangs), "gangs", self.gangs, "GPUs and chances: 1:0.6,2:0.2,4:0.2")

    @property
    def mean_gang(self) -> float:
        return sum(size * chance for size, chance in self.gangs) / sum(p for _, p in self.gangs)

    @property
    def arrivals_per_s(self) -> float:
        return self.load * self.gpus / (self.mean_duration_s * self.mean_gang)


def generate(recipe: Recipe) -> list[Arrival]:
    """Jobs in order of submission; the same recipe gives the same jobs everywhere."""
    users, scales = _users(recipe)
    submitted = _submissions(recipe)
    duration = _durations(recipe, scales)
    gang = pick(_stream(recipe, "gangs"), [chance for _, chance in recipe.gangs])
    who = pick(_stream(recipe, "users"), _activity(len(users)))
    factor = recipe.deadline_factor
    arrivals = []
    for number, at in enumerate(islice(submitted, recipe.jobs), 1):
        owner = who()
        work_s = duration(owner)
        deadline = None if factor is None else at + factor * work_s
        size = recipe.gangs[gang()][0]
        job = Job(JobId(str(number)), size, user=users[owner], deadline=deadline)
        arrivals.append(Arrival(at, job, work_s))
    return arrivals


def _stream(recipe: Recipe, purpose: str) -> Draw:
    from random import Random

    return Random(f"{purpose} {recipe.seed}").random


def _submissions(recipe: Recipe) -> Iterator[Seconds]:
    gap = spread(_stream(recipe, "submissions"), recipe.burstiness)
    warp = _daily(recipe.daily_cycle)
    rate = recipe.arrivals_per_s
    at = 0.0
    while True:
        at += gap() / rate
        yield warp(at)


def _daily(swing: float) -> Callable[[Seconds], Seconds]:
    """Stretch time by night and compress it by day, so that each day keeps its jobs.

    The rate is 1 + swing * sin(time of day), constant within a minute.
    """
    if swing == 0:
        return lambda at: at
    rates = [1.0 + swing * sin(2 * pi * (minute + 0.5) / MINUTES) for minute in range(MINUTES)]
    scale = MINUTES / sum(rates)
    passed = [0.0, *accumulate(rate * scale / MINUTES for rate in rates)]
    passed[-1] = 1.0

    def warp(at: Seconds) -> Seconds:
        day = floor(at / DAY_S)
        part = at / DAY_S - day
        minute = min(MINUTES - 1, bisect_right(passed, part) - 1)
        inside = (part - passed[minute]) / (passed[minute + 1] - passed[minute])
        return (day + (minute + inside) / MINUTES) * DAY_S

    return warp


def _users(recipe: Recipe) -> tuple[Sequence[str], Sequence[float]]:
    """Their names, and the mean length of their jobs relative to that of all jobs, which stays 1."""
    if not recipe.users:
        return [""], [1.0]
    names = [f"u{number}" for number in range(1, recipe.users + 1)]
    uniform = _stream(recipe, "user scales")
    raw = [exp(recipe.user_spread * (2.0 * uniform() - 1.0)) for _ in names]
    activity = _activity(recipe.users)
    mean = sum(a * scale for a, scale in zip(activity, raw, strict=True)) / sum(activity)
    return names, [scale / mean for scale in raw]


def _activity(users: int) -> list[float]:
    return [1.0 / rank for rank in range(1, users + 1)]


def _durations(recipe: Recipe, scales: Sequence[float]) -> Callable[[int], Seconds]:
    """The durations of a user's jobs. The spread between users is taken out of `c2`: factors
    multiply."""
    activity = _activity(len(scales))
    square = sum(a * s * s for a, s in zip(activity, scales, strict=True)) / sum(activity)
    own_c2 = (1.0 + recipe.c2) / square - 1.0 if recipe.user_spread else recipe.c2
    if own_c2 < 0:
        raise BadInput(
            f"a user spread of {recipe.user_spread:g} alone makes c2 {square - 1:.2g}, more than "
            f"the {recipe.c2:g} asked for; lower the spread or raise c2"
        )
    draw = spread(_stream(recipe, "durations"), own_c2)
    mean = recipe.mean_duration_s
    return lambda user: scales[user] * mean * draw()


def _are_gangs(gangs: Sequence[tuple[int, float]]) -> bool:
    chances = [chance for _, chance in gangs]
    if not all(isfinite(chance) and chance >= 0 for chance in chances):
        return False
    return sum(chances) > 0 and all(size >= 1 for size, _ in gangs)


def _require(holds: bool, what: str, value: object, instead: str) -> None:
    if not holds:
        raise BadInput(f"cannot make a trace with {what} {value}: give {instead}")


def spread(uniform: Draw, c2: float) -> Draw:
    """Positive numbers of mean 1 and squared coefficient of variation `c2`."""
    if c2 == 0:
        return lambda: 1.0
    if c2 < LEAST_C2:
        raise BadInput(
            f"a squared coefficient of variation of {c2:g} is not possible: 0 or 0.01 up"
        )
    if c2 == 1:
        return lambda: -log(1.0 - uniform())
    return _hyperexponential(uniform, c2) if c2 > 1 else _erlang(uniform, c2)


def _hyperexponential(uniform: Draw, c2: float) -> Draw:
    """Two exponentials that each bring half of the mean ("balanced means")."""
    short = (1.0 + sqrt((c2 - 1.0) / (c2 + 1.0))) / 2.0
    short_mean, long_mean = 1.0 / (2.0 * short), 1.0 / (2.0 * (1.0 - short))

    def draw() -> float:
        mean = short_mean if uniform() < short else long_mean
        return -mean * log(1.0 - uniform())

    return draw


def _erlang(uniform: Draw, c2: float) -> Draw:
    """k or k - 1 exponential stages, mixed so that mean and variance are right (Tijms 1986)."""
    stages = ceil(1.0 / c2)
    fewer = (stages * c2 - sqrt(max(0.0, stages * (1.0 + c2) - stages * stages * c2))) / (1.0 + c2)
    stage_mean = 1.0 / (stages - fewer)

    def draw() -> float:
        count = stages - 1 if uniform() < fewer else stages
        return -stage_mean * sum(log(1.0 - uniform()) for _ in range(count))

    return draw


def pick(uniform: Draw, weights: Sequence[float]) -> Callable[[], int]:
    """An index, drawn with probability proportional to its weight."""
    limits = list(accumulate(weights))
    total, last = limits[-1], len(limits) - 1

    def draw() -> int:
        return min(last, bisect_right(limits, uniform() * total))

    return draw
