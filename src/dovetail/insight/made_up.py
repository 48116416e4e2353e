"""Synthetic worlds: a small cluster and a trace, made from a few properties that vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from dovetail.core.errors import UnfinishedRun
from dovetail.core.model import Interruption, Node
from dovetail.insight.arms import noisy
from dovetail.insight.scene import Scene, completion_times
from dovetail.models.workload import Arrival
from dovetail.traces.synthetic.recipe import Recipe, generate

LOAD, TAIL, GANGS, BURSTS = "load", "tail weight", "gang mix", "burstiness"
COST, ERROR, KINDS = "interruption cost", "estimate error", "GPU mix"
_NODES, _GPUS = 8, 2  # few, so that a queue builds up within a few hundred jobs
_GANGS = ((2, 0.5), (4, 0.35), (8, 0.15))  # of the jobs that ask for several GPUs
_SLOW = "slow"
_SLOW_SPEED = 0.5
FIFO = "fifo"


@dataclass(frozen=True)
class Factor:
    """One property and the range in which it varies."""

    name: str
    unit: str
    low: float
    high: float
    logarithmic: bool = False

    def at(self, part: float) -> float:
        """The value at this part of the range, from 0 to 1."""
        if self.logarithmic:
            return exp(log(self.low) + part * (log(self.high) - log(self.low)))
        return self.low + part * (self.high - self.low)


FACTORS = (
    Factor(LOAD, "GPU-seconds asked for per GPU-second", 0.3, 1.1),
    Factor(TAIL, "squared coefficient of variation of durations", 0.1, 30.0, True),
    Factor(GANGS, "part of the jobs that ask for more than one GPU", 0.0, 0.8),
    Factor(BURSTS, "squared coefficient of variation of the gaps between jobs", 1.0, 20.0, True),
    Factor(COST, "seconds to save and restore", 1.0, 1000.0, True),
    Factor(ERROR, "sigma of the logarithm", 0.0, 2.0),
    Factor(KINDS, "part of the nodes with GPUs half as fast", 0.0, 0.75),
)


@dataclass(frozen=True)
class FactorDesign:
    """Points in the box of factors, and the policies and number of worlds tried at each."""

    factors: tuple[Factor, ...]
    points: np.ndarray
    policies: tuple[str, ...]
    jobs: int
    seeds: tuple[int, ...]


def gains(look: FactorDesign) -> np.ndarray:
    """By point, world and policy: log(mean completion time / that of FIFO). NaN: no job finished."""
    found = np.empty((len(look.points), len(look.seeds), len(look.policies)))
    for number, point in enumerate(look.points):
        parts = zip(look.factors, point, strict=True)
        values = {factor.name: factor.at(float(part)) for factor, part in parts}
        for place, seed in enumerate(look.seeds):
            found[number, place] = _gains(values, look, seed)
    return found


def _gains(values: Mapping[str, float], look: FactorDesign, seed: int) -> list[float]:
    scene = world(values, look.jobs, seed)
    truth = np.array([arrival.work_s for arrival in scene.arrivals])
    beliefs = noisy(truth, values.get(ERROR, 0.0), seed)
    fifo = _mean(scene, FIFO, beliefs)
    return [log(_mean(scene, policy, beliefs) / fifo) for policy in look.policies]


def _mean(scene: Scene, policy: str, beliefs: np.ndarray) -> float:
    try:
        return float(completion_times(scene, policy, beliefs).mean())
    except UnfinishedRun:
        return float("nan")


def world(values: Mapping[str, float], jobs: int, seed: int) -> Scene:
    """Properties that are not given are as in most traces: Poisson, one kind of GPU, free restarts."""
    slow = round(values.get(KINDS, 0.0) * _NODES)
    several = values.get(GANGS, 0.3)
    # The load counts real speeds, so that slow GPUs are not just another load.
    power = (_NODES - slow + _SLOW_SPEED * slow) / _NODES
    recipe = Recipe(
        jobs=jobs,
        gpus=_NODES * _GPUS,
        load=values.get(LOAD, 0.8) * power,
        c2=values.get(TAIL, 10.0),
        gangs=((1, 1.0 - several), *((size, several * part) for size, part in _GANGS)),
        burstiness=values.get(BURSTS, 1.0),
        users=0,
        seed=seed,
    )
    nodes = [Node(f"n{i}", _GPUS, _SLOW if i < slow else "gpu") for i in range(_NODES)]
    arrivals = _costing(generate(recipe), values.get(COST, 0.0))
    return Scene(arrivals, nodes, kind_speeds={_SLOW: _SLOW_SPEED} if slow else {})


def _costing(arrivals: Sequence[Arrival], seconds: float) -> Sequence[Arrival]:
    """Half of the cost is for saving, half for restoring."""
    if not seconds:
        return arrivals
    cost = Interruption(seconds / 2, seconds / 2)
    return [replace(a, job=replace(a.job, interruption=cost)) for a in arrivals]
