"""Goodput (Pollux, OSDI 2021): how fast a job learns on so many GPUs with which batch.

Throughput is a law of step times with seven parameters, efficiency follows from the noise of the
gradients, goodput is their product. Everything takes numbers or arrays of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = Any  # a number or an array: numpy takes both
Floats: TypeAlias = NDArray[np.float64]

_CANDIDATES: Final = 50  # batch sizes that are tried, in geometric steps
_ROUNDING: Final = 1e-8  # a quotient so little above a whole number is that number


class StepLaw(Protocol):
    """How long a step takes. Equal laws have equal hashes."""

    def __hash__(self) -> int: ...

    def step(self, nodes: Numbers, gpus: Numbers, local: Numbers, accumulated: Numbers) -> Numbers:
        """Seconds of one step that puts `accumulated` batches aside before the one it synchronises."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The law of a job's step times: computing takes `alpha_c + beta_c * local batch`, synchronising
    `alpha + beta * (GPUs - 2)` by whether one node (r) or several (n) take part, and they overlap
    the more the larger `gamma` is."""

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float

    def computing(self, local: Numbers) -> Numbers:
        return self.alpha_c + self.beta_c * local

    def synchronising(self, nodes: Numbers, gpus: Numbers) -> Numbers:
        spread = np.asarray(nodes) > 1
        alpha = np.where(spread, self.alpha_n, self.alpha_r)
        beta = np.where(spread, self.beta_n, self.beta_r)
        return np.where(np.asarray(gpus) > 1, alpha + beta * np.maximum(gpus - 2, 0), 0.0)

    def step(self, nodes: Numbers, gpus: Numbers, local: Numbers, accumulated: Numbers) -> Numbers:
        computing = self.computing(local)
        both = computing**self.gamma + self.synchronising(nodes, gpus) ** self.gamma
        return accumulated * computing + both ** (1.0 / self.gamma)


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Squared norm and variance of the gradient, at the initial batch."""

    sqr: float
    var: float


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The batches a job may use: in all, and on each GPU at a time."""

    initial: int
    largest: int
    local_least: int
    local_most: int

    @property
    def most_gpus(self) -> int:
        return max(self.largest // self.local_least, 1)


class BatchChoice(NamedTuple):
    """The best batch, and what comes of it."""

    goodput: Numbers
    local: Numbers  # on each GPU at a time
    accumulated: Numbers  # such batches put aside before the one that is synchronised


def efficiency(noise: GradientNoise, scale: Numbers) -> Numbers:
    """What a sample is worth in a batch that is `scale` times the initial one."""
    rest = noise.var / scale + noise.sqr
    gain = np.where(rest > 0, (noise.var + noise.sqr) / np.maximum(rest, 1e-300), 1.0)
    return gain / scale


def throughput(
    times: StepLaw, nodes: Numbers, gpus: Numbers, local: Numbers, accumulated: Numbers
) -> Numbers:
    """Samples a second."""
    return gpus * local * (accumulated + 1) / times.step(nodes, gpus, local, accumulated)


def split(batch: Numbers, gpus: Numbers, limits: BatchRange) -> tuple[Numbers, Numbers]:
    """A batch as (on each GPU at a time, batches put aside). One GPU alone puts at least one aside
    when it has more than the initial batch: from a single one no noise can be told."""
    each = batch / gpus
    aside = np.ceil(each / limits.local_most - _ROUNDING) - 1
    alone = (gpus == 1) & (each > limits.initial + _ROUNDING)
    aside = np.where(alone, np.maximum(aside, 1), aside)
    return np.ceil(each / (aside + 1) - _ROUNDING), aside


def best_batch(
    times: StepLaw, noise: GradientNoise, limits: BatchRange, nodes: Numbers, gpus: Numbers
) -> BatchChoice:
    """The batch of highest goodput, of 50 between the least these GPUs can share and the largest;
    goodput 0 where there is none."""
    nodes, gpus = np.broadcast_arrays(nodes, np.asarray(gpus, dtype=float))
    least = np.maximum(limits.initial, limits.local_least * gpus)
    steps = np.linspace(0.0, 1.0, _CANDIDATES).reshape(-1, *[1] * gpus.ndim)
    batch = least * (limits.largest / least) ** steps
    local, aside = split(batch, gpus, limits)
    goodput = throughput(times, nodes, gpus, local, aside)
    goodput = goodput * efficiency(noise, gpus * local * (aside + 1) / limits.initial)
    legal = (limits.local_least <= local) & (local <= limits.local_most)
    goodput = np.where(legal & (least <= limits.largest), goodput, 0.0)
    best = np.expand_dims(np.argmax(goodput, axis=0), 0)
    return BatchChoice(*[np.take_along_axis(a, best, 0)[0] for a in (goodput, local, aside)])


@lru_cache(maxsize=4096)  # a policy asks for all numbers of GPUs in every round
def goodputs(
    times: StepLaw, noise: GradientNoise, limits: BatchRange, spots: tuple[tuple[int, int], ...]
) -> tuple[float, ...]:
    """The best goodput, in initial batches a second, for each pair of nodes and GPUs."""
    nodes, gpus = np.array(spots).T
    found: Floats = best_batch(times, noise, limits, nodes, gpus).goodput / limits.initial
    return tuple(found.tolist())


def power_mean(values: Floats, power: float) -> Floats:
    """Over the last axis: the smaller `power` is, the nearer to the least of them; not for 0."""
    found: Floats = np.mean(values**power, axis=-1) ** (1.0 / power)
    return found
