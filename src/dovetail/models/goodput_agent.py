"""A job that chooses its batch itself, by its goodput, and tells what it has learned (Pollux' agent).

What it tells goes into its reports as metrics, so that any policy can believe it: the law of its
step times and its batches on each GPU kind it has seen, and the noise of its gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, final

from dovetail.models.goodput import (
    BatchRange,
    GradientNoise,
    StepLaw,
    StepTimes,
    best_batch,
    goodputs,
    split,
)
from dovetail.models.goodput_fit import SeenStep, fitted
from dovetail.models.shared_steps import SharedSteps, SharedTimes

_NOISE: Final = "goodput noise"
_LAW: Final = "goodput law "  # and the GPU kind
_STEPS: Final = "goodput steps "  # and the GPU kind
_MOST_STEPS: Final = 64  # that one job tells of a kind: its last ones


class KindLaw(NamedTuple):
    """What a job knows of itself on one GPU kind."""

    times: StepLaw
    batches: BatchRange
    most_gpus: int  # that it has had there


@dataclass(frozen=True, slots=True)
class ToldGoodput:
    """What a job has told of itself: a law for each GPU kind that it has been on."""

    noise: GradientNoise
    laws: Mapping[str, KindLaw]
    steps: Mapping[str, tuple[SeenStep, ...]] = field(default_factory=dict)  # if it shares them

    @property
    def most_gpus(self) -> int:
        return max(law.most_gpus for law in self.laws.values())

    def rates(self, kind: str, spots: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
        """The same for several pairs of nodes and GPUs, of a kind that it has been on."""
        law = self.laws[kind]
        return goodputs(law.times, self.noise, law.batches, spots)

    def rate(self, kind: str, nodes: int, gpus: int) -> float | None:
        """Initial batches' worth of progress a second with the best batch there; None: never seen."""
        law = self.laws.get(kind)
        if law is None:
            return None
        best = best_batch(law.times, self.noise, law.batches, nodes, gpus)
        return float(best.goodput) / law.batches.initial


@final
@dataclass(slots=True)
class BatchAgent:
    """Learns from every step; `wanted` is a batch that it must use, None where it may choose.
    `shared` is what all jobs of its application have seen; None: it knows only its own steps."""

    wanted: int | None = None
    shared: SharedSteps | None = None
    _noise: GradientNoise | None = None
    _seen: dict[str, dict[tuple[int, int, int], SeenStep]] = field(default_factory=dict)
    _laws: dict[str, KindLaw] = field(default_factory=dict)

    def choose(self, kind: str, nodes: int, gpus: int, batches: BatchRange) -> tuple[int, int]:
        """The batch on each GPU at a time, and how many are put aside before one is synchronised."""
        times, noise = self._times(kind), self._noise
        if noise is None and self.shared is not None:
            noise = self.shared.noise
        if self.wanted is None and times is not None and noise is not None:
            best = best_batch(times, noise, batches, nodes, gpus)
            local, aside = int(best.local), int(best.accumulated)
        else:
            batch = self.wanted or max(batches.initial, batches.local_least * gpus)
            local, aside = (int(part) for part in split(batch, gpus, batches))
        return min(local, batches.largest // (gpus * (aside + 1))), aside

    def saw(self, kind: str, step: SeenStep, noise: GradientNoise, batches: BatchRange) -> bool:
        """Learn from a step; whether there is anything to tell."""
        news, self._noise = noise != self._noise, noise
        seen = self._seen.setdefault(kind, {})
        if step[:3] in seen:
            return news
        seen[step[:3]] = step
        most = max(gpus for _, gpus, _ in seen)
        if self.shared is not None:
            self.shared.saw(kind, [step], noise)
        times = self._times(kind) if self.shared else fitted(tuple(seen.values()))
        assert times is not None
        self._laws[kind] = KindLaw(times, batches, most)
        return True

    def _times(self, kind: str) -> StepLaw | None:
        if self.shared is not None:
            return self.shared.times(kind)
        return self._laws[kind].times if kind in self._laws else None

    def told(self) -> dict[str, float | str]:
        """What it knows, as metrics of a report."""
        if self._noise is None:
            return {}
        laws = {f"{_LAW}{kind}": _text(*_law_numbers(law)) for kind, law in self._laws.items()}
        steps = {f"{_STEPS}{kind}": _steps_text(own.values()) for kind, own in self._seen.items()}
        told: dict[str, float | str] = {_NOISE: _text(self._noise.sqr, self._noise.var), **laws}
        return told if self.shared is None else {**told, **steps}


def read_goodput(metrics: Mapping[str, float | str]) -> ToldGoodput | None:
    """What a job has told, from the metrics of its reports; None: nothing of the kind."""
    noise = metrics.get(_NOISE)
    if not isinstance(noise, str):
        return None
    laws = {
        name[len(_LAW) :]: _law(value)
        for name, value in metrics.items()
        if name.startswith(_LAW) and isinstance(value, str)
    }
    steps = {
        name[len(_STEPS) :]: _steps(value)
        for name, value in metrics.items()
        if name.startswith(_STEPS) and isinstance(value, str)
    }
    return ToldGoodput(GradientNoise(*_numbers(noise)), laws, steps) if laws else None


def _steps_text(seen: Iterable[SeenStep]) -> str:
    return ";".join([_text(*step) for step in [*seen][-_MOST_STEPS:]])


@lru_cache(maxsize=4096)  # a report is read by every decision until the next one
def _steps(text: str) -> tuple[SeenStep, ...]:
    rows = [_numbers(part) for part in text.split(";") if part]
    return tuple([SeenStep(*[int(own) for own in row[:3]], *row[3:]) for row in rows])


def _law_numbers(law: KindLaw) -> tuple[float, ...]:
    batches = law.batches
    times = law.times.law if isinstance(law.times, SharedTimes) else law.times
    assert isinstance(times, StepTimes)
    of_times = (
        times.alpha_c,
        times.beta_c,
        times.alpha_n,
        times.beta_n,
        times.alpha_r,
        times.beta_r,
    )
    of_batches = (batches.initial, batches.largest, batches.local_least, batches.local_most)
    return (*of_times, times.gamma, *of_batches, law.most_gpus)


def _law(text: str) -> KindLaw:
    numbers = _numbers(text)
    whole = [int(number) for number in numbers[7:]]
    return KindLaw(StepTimes(*numbers[:7]), BatchRange(*whole[:4]), whole[4])


def _text(*numbers: float) -> str:
    return " ".join([repr(number) for number in numbers])


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]
