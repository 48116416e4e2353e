"""Step times of one application, as its jobs have seen them, put together.

Where some job has been, its time is known to the digit; elsewhere the law fitted to all of them
says it, corrected by what was seen with other batches on as many GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from dovetail.models.goodput import Floats, GradientNoise, Numbers, StepTimes
from dovetail.models.goodput_fit import SeenStep, fitted

_ALIKE: Final = 0.5  # batches that differ by no more than this part have like corrections


@dataclass(frozen=True, slots=True)
class _Corrections:
    """What the law's times must be multiplied by on so many nodes and GPUs, by ascending batch."""

    locals: Floats
    computing: Floats
    step: Floats

    @classmethod
    def of(cls, law: StepTimes, seen: Iterable[SeenStep]) -> _Corrections:
        nodes, gpus, local, computing, step = np.array(sorted(seen), dtype=float).T
        by_law = law.step(nodes, gpus, local, 0)
        return cls(local, computing / law.computing(local), step / by_law)

    def at(self, local: Floats) -> tuple[Floats, Floats]:
        """As for the nearest batch that was seen; none where that one is not at all like it."""
        nearest = np.abs(local[:, None] - self.locals).argmin(axis=1)
        alike = np.abs(self.locals[nearest] - local) <= _ALIKE * local
        return (
            np.where(alike, self.computing[nearest], 1.0),
            np.where(alike, self.step[nearest], 1.0),
        )


@final
@dataclass(frozen=True, eq=False)  # compared by identity: there is a new one whenever more is known
class SharedTimes:
    """A law of step times, and how it is corrected where jobs have been."""

    law: StepTimes
    corrections: dict[tuple[int, int], _Corrections]

    def step(self, nodes: Numbers, gpus: Numbers, local: Numbers, accumulated: Numbers) -> Numbers:
        nodes, gpus, local, accumulated = np.broadcast_arrays(nodes, gpus, local, accumulated)
        computing = np.asarray(self.law.computing(local), dtype=float)
        step = np.asarray(self.law.step(nodes, gpus, local, 0), dtype=float)
        for (on_nodes, on_gpus), own in self.corrections.items():
            here = (nodes == on_nodes) & (gpus == on_gpus)
            if here.any():
                by_computing, by_step = own.at(local[here])
                computing[here] *= by_computing
                step[here] *= by_step
        return accumulated * computing + step


@final
@dataclass(slots=True)
class _StepsOfKind:
    """The steps seen on one GPU kind, and what follows from them."""

    seen: dict[tuple[int, int, int], SeenStep] = field(default_factory=dict)
    times: SharedTimes | None = None

    def add(self, step: SeenStep) -> None:
        if step[:3] not in self.seen:
            self.seen[step[:3]] = step
            self.times = None

    def known(self) -> SharedTimes:
        if self.times is None:
            law = fitted(tuple(self.seen.values()))
            where: dict[tuple[int, int], list[SeenStep]] = {}
            for step in self.seen.values():
                where.setdefault(step[:2], []).append(step)
            self.times = SharedTimes(
                law, {at: _Corrections.of(law, own) for at, own in where.items()}
            )
        return self.times


@final
@dataclass(slots=True)
class SharedSteps:
    """What the jobs of one application have seen on each GPU kind, and the noise of the first."""

    noise: GradientNoise | None = None
    _kinds: dict[str, _StepsOfKind] = field(default_factory=dict)

    def saw(self, kind: str, steps: Iterable[SeenStep], noise: GradientNoise) -> None:
        if self.noise is None:
            self.noise = noise
        own = self._kinds.setdefault(kind, _StepsOfKind())
        for step in steps:
            own.add(step)

    def times(self, kind: str) -> SharedTimes | None:
        """None: no job has been on that kind."""
        own = self._kinds.get(kind)
        return None if own is None or not own.seen else own.known()
