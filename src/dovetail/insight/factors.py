"""Which property of a workload or cluster moves the gain of a policy over FIFO, on synthetic traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Generic, TypeVar

import numpy as np

from dovetail.insight import sampling
from dovetail.insight.blocks import middle_95
from dovetail.insight.made_up import FACTORS, FIFO, Factor, FactorDesign, gains
from dovetail.insight.work import Crew, Map, Progress
from dovetail.policies.registry import find

# In a full measurement, and in a quick one.
_JOBS = (250, 150)  # of a synthetic trace
_WORLDS = (2, 1)  # synthetic traces at every point
_FLIP_WORLDS = (10, 10)  # and along each factor
_FLIP_AT = (0.0, 0.5, 1.0)
_QUICK_TRAJECTORIES, _QUICK_SAMPLES = 6, 32
_A_TASK = 24  # points
_STUDENT = 2.26  # 95 %, ten worlds
MORRIS, SOBOL = "Morris", "Sobol"
EVERYBODY = ""  # all policies together


@dataclass(frozen=True)
class Screened:
    """Morris: how far a factor moves log(JCT / JCT of FIFO) over its range, on average."""

    policy: str
    factor: str
    mu_star: float
    low: float  # 95 % interval of mu_star, over the trajectories
    high: float
    mu: float  # with its sign: below 0, more of the factor means more gain
    sigma: float  # large relative to mu_star: the effect depends on other factors, or is not linear


@dataclass(frozen=True)
class SobolIndex:
    """Sobol: the part of the variance of log(JCT / JCT of FIFO) that a factor explains."""

    policy: str
    factor: str
    first: float  # alone
    first_low: float
    first_high: float
    total: float  # including all interactions with other factors
    total_low: float
    total_high: float


@dataclass(frozen=True)
class Leaders:
    """The factors that may move the gain most, most likely first; a single one: beyond chance."""

    method: str
    policy: str  # "": over all policies
    factors: tuple[str, ...]


@dataclass(frozen=True)
class Flip:
    """The ranking of policies along one factor, all others in the middle of their ranges."""

    factor: str
    at: tuple[float, ...]  # values of the factor, from its lowest to its highest
    rankings: tuple[tuple[str, ...], ...]  # at each of them, best first
    gains: tuple[
        tuple[float, ...], ...
    ]  # at each, by policy: log(JCT / JCT of FIFO), lower is better
    tau: float  # Kendall's, between the first and the last ranking; 1: the same order, -1: reversed
    best_changes: bool
    sure: bool  # each best policy beats the other one at its own end, by a paired 95 % interval


@dataclass(frozen=True)
class Factors:
    policies: tuple[str, ...]  # in the order of Flip.gains; FIFO is the reference
    factors: tuple[Factor, ...]
    jobs: int  # of every synthetic trace
    runs: int  # simulations made
    morris: tuple[Screened, ...]
    sobol: tuple[SobolIndex, ...]
    flips: tuple[Flip, ...]
    not_measured: tuple[str, ...]
    leaders: tuple[Leaders, ...] = ()

    def leading(self, method: str, policy: str = EVERYBODY) -> tuple[str, ...]:
        """The leaders; empty if they were not measured."""
        known = (own for own in self.leaders if (own.method, own.policy) == (method, policy))
        return next((own.factors for own in known), ())


def factors(
    *,
    trajectories: int = 20,
    samples: int = 256,
    policies: Sequence[str] = ("srtf", "qssf", "tiresias"),
    box: Sequence[Factor] = FACTORS,
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> Factors:
    """Every policy and FIFO run in the same synthetic worlds, in which the factors of `box` vary.
    `samples`: a power of 2. A quick measurement has fewer samples and wider intervals."""
    tried = tuple(dict.fromkeys(policy for policy in policies if policy != FIFO))
    for policy in tried:
        find(policy.partition(":")[0])
    if not tried or not box:
        return Factors(tried, tuple(box), 0, 0, (), (), (), ("factors: no policy besides FIFO",))
    if quick:
        trajectories, samples = _QUICK_TRAJECTORIES, _QUICK_SAMPLES
    worlds, flip_worlds = _WORLDS[quick], _FLIP_WORLDS[quick]
    k = len(box)
    paths = sampling.trajectories(k, trajectories, seed)
    blocks = sampling.saltelli(k, samples, seed)
    lines = _lines(k)
    parts = [(paths.points, worlds), (blocks, worlds), (lines, flip_worlds)]
    planned = sum(_tasks(points.size // k) for points, _ in parts)
    field = _Field(tuple(box), tried, _JOBS[quick], seed, Crew(map, progress, planned))
    walked, spread, along = [field.gains(points, number) for points, number in parts]
    notes = _gaps([walked, spread, along], tried)
    screened = _screened(field, paths, walked.mean(axis=-2), seed)
    shares = _shares(field, spread.mean(axis=-2), seed)
    runs = sum(points.size // k * number for points, number in parts) * (len(tried) + 1)
    return Factors(
        *(tried, tuple(box), _JOBS[quick], runs),
        *(tuple(screened.rows), tuple(shares.rows), tuple(_flips(field, along))),
        (*notes, *shares.notes),
        (*_leaders(field, MORRIS, screened.draws), *_leaders(field, SOBOL, shares.draws)),
    )


@dataclass(frozen=True)
class _Field:
    """The box of factors, and the gains at its points."""

    factors: tuple[Factor, ...]
    policies: tuple[str, ...]
    jobs: int
    seed: int
    crew: Crew

    def gains(self, points: np.ndarray, worlds: int) -> np.ndarray:
        """In the shape of the points, except for the last axis: by world and policy."""
        k = points.shape[-1]
        seeds = tuple(range(self.seed, self.seed + worlds))
        pieces = np.array_split(points.reshape(-1, k), _tasks(points.size // k))
        looks = [FactorDesign(self.factors, own, self.policies, self.jobs, seeds) for own in pieces]
        found = np.concatenate(self.crew.each(gains, looks))
        shaped: np.ndarray = found.reshape(*points.shape[:-1], worlds, len(self.policies))
        return shaped


def _tasks(points: int) -> int:
    return max(1, points // _A_TASK)


def _gaps(found: Sequence[np.ndarray], policies: Sequence[str]) -> list[str]:
    missing = sum(np.isnan(own).any(axis=tuple(range(own.ndim - 1))) for own in found)
    return [
        f"some worlds for {policy}: it preempts jobs before they are restored"
        for policy, gone in zip(policies, missing, strict=True)
        if gone
    ]


Row = TypeVar("Row", Screened, SobolIndex)


@dataclass(frozen=True)
class _Told(Generic[Row]):
    """The result of one method, and the resampled values behind it, by policy."""

    rows: list[Row]
    draws: dict[str, np.ndarray]  # factor, draw
    notes: tuple[str, ...] = ()


def _screened(
    field: _Field, paths: sampling.Trajectories, values: np.ndarray, seed: int
) -> _Told[Screened]:
    rows, draws = [], {}
    chance = np.random.default_rng(seed)
    for place, policy in enumerate(field.policies):
        effects = paths.effects(values[:, :, place])
        effects = effects[~np.isnan(effects).any(axis=1)]
        if not len(effects):
            continue
        drawn = chance.integers(len(effects), size=(2000, len(effects)))
        stars = draws[policy] = np.abs(effects)[drawn].mean(axis=1).T
        for number, factor in enumerate(field.factors):
            own = effects[:, number]
            low, high = middle_95(stars[number])
            sigma = float(own.std(ddof=1)) if len(own) > 1 else 0.0
            star = float(np.abs(own).mean())
            rows.append(Screened(policy, factor.name, star, low, high, float(own.mean()), sigma))
    rows.sort(key=lambda row: (field.policies.index(row.policy), -row.mu_star))
    return _Told(rows, draws)


def _shares(field: _Field, values: np.ndarray, seed: int) -> _Told[SobolIndex]:
    if not sampling.can_estimate():
        return _Told([], {}, (sampling.MISSING,))
    rows, draws, notes = [], {}, []
    for place, policy in enumerate(field.policies):
        found = _indices(values[:, :, place], seed)
        if found is None:
            notes.append(f"what moves the gain of {policy}: it never differs from FIFO")
            continue
        draws[policy] = found.total_draws
        for number, factor in enumerate(field.factors):
            first = (float(found.first[number]), *middle_95(found.first_draws[number]))
            total = (float(found.total[number]), *middle_95(found.total_draws[number]))
            rows.append(SobolIndex(policy, factor.name, *first, *total))
    rows.sort(key=lambda row: (field.policies.index(row.policy), -row.total))
    return _Told(rows, draws, tuple(notes))


def _indices(values: np.ndarray, seed: int) -> sampling.Indices | None:
    known = values[:, ~np.isnan(values).any(axis=0)]
    return sampling.indices(sampling.whole_power_of_two(known), seed) if known.size else None


def _leaders(field: _Field, method: str, draws: Mapping[str, np.ndarray]) -> Iterator[Leaders]:
    names = [factor.name for factor in field.factors]
    for policy, own in draws.items():
        yield Leaders(method, policy, sampling.leading(names, own))
    if draws:
        together: np.ndarray = sum(draws.values())  # type: ignore[assignment]
        yield Leaders(method, EVERYBODY, sampling.leading(names, together))


def _lines(k: int) -> np.ndarray:
    """By factor: points along its range, all others in the middle."""
    lines: np.ndarray = np.full((k, len(_FLIP_AT), k), 0.5)
    for number in range(k):
        lines[number, :, number] = _FLIP_AT
    return lines


def _flips(field: _Field, found: np.ndarray) -> list[Flip]:
    names = (FIFO, *field.policies)
    with_fifo = np.concatenate([np.zeros((*found.shape[:-1], 1)), found], axis=-1)
    rows = []
    for factor, own in zip(field.factors, with_fifo, strict=True):
        means = np.nan_to_num(own.mean(axis=1), nan=np.inf)
        ranks = [list(np.argsort(mean, kind="stable")) for mean in means]
        best_low, best_high = ranks[0][0], ranks[-1][0]
        sure = _beats(own[0], best_low, best_high) and _beats(own[-1], best_high, best_low)
        rows.append(
            Flip(
                factor.name,
                tuple(factor.at(part) for part in _FLIP_AT),
                tuple(tuple(names[i] for i in rank) for rank in ranks),
                tuple(tuple(float(x) for x in mean[1:]) for mean in means),
                kendall(means[0], means[-1]),
                bool(best_low != best_high),
                sure,
            )
        )
    return sorted(rows, key=lambda row: (not row.sure, not row.best_changes, row.tau))


def _beats(by_world: np.ndarray, one: int, other: int) -> bool:
    """Is its completion time shorter, by a paired interval over the worlds?"""
    gap = by_world[:, one] - by_world[:, other]
    worlds = len(gap)
    if worlds < 2 or not np.isfinite(gap).all():
        return False
    return bool(gap.mean() + _STUDENT * gap.std(ddof=1) / sqrt(worlds) < 0)


def kendall(one: np.ndarray, other: np.ndarray) -> float:
    """Pairs in the same order less pairs in the opposite order, over all pairs."""
    pairs = list(combinations(range(len(one)), 2))
    agree = [_sign(one[i] - one[j]) * _sign(other[i] - other[j]) for i, j in pairs]
    return sum(agree) / len(pairs)


def _sign(number: float) -> int:
    return int(number > 0) - int(number < 0)  # numpy booleans cannot be subtracted
