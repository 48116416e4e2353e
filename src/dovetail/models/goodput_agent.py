"""A job that chooses its batch itself, by its goodput, and tells what it has learned (Pollux' agent).

What it tells goes into its reports as metrics, so that any policy can believe it: the law of its
step times and its batches on each GPU kind it has seen, and the noise of its gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from dovetail.models.goodput import (
    BatchRange,
    GradientNoise,
    StepTimes,
    best_batch,
    goodputs,
    split,
)
from dovetail.models.goodput_fit import SeenStep, fitted

_NOISE: Final = "goodput noise"
_LAW: Final = "goodput law "  # and the GPU kind


class KindLaw(NamedTuple):
    """What a job knows of itself on one GPU kind."""

    times: StepTimes
    batches: BatchRange
    most_gpus: int  # that it has had there


@dataclass(frozen=True, slots=True)
class ToldGoodput:
    """What a job has told of itself: a law for each GPU kind that it has been on."""

    noise: GradientNoise
    laws: Mapping[str, KindLaw]

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
    """Learns from every step; `wanted` is a batch that it must use, None where it may choose."""

    wanted: int | None = None
    _noise: GradientNoise | None = None
    _seen: dict[str, dict[tuple[int, int, int], SeenStep]] = field(default_factory=dict)
    _laws: dict[str, KindLaw] = field(default_factory=dict)

    def choose(self, kind: str, nodes: int, gpus: int, batches: BatchRange) -> tuple[int, int]:
        """The batch on each GPU at a time, and how many are put aside before one is synchronised."""
        law = self._laws.get(kind)
        if self.wanted is None and law is not None and self._noise is not None:
            best = best_batch(law.times, self._noise, batches, nodes, gpus)
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
        self._laws[kind] = KindLaw(fitted(tuple(seen.values())), batches, most)
        return True

    def told(self) -> dict[str, float | str]:
        """What it knows, as metrics of a report."""
        if self._noise is None:
            return {}
        laws = {f"{_LAW}{kind}": _text(*_law_numbers(law)) for kind, law in self._laws.items()}
        return {_NOISE: _text(self._noise.sqr, self._noise.var), **laws}


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
    return ToldGoodput(GradientNoise(*_numbers(noise)), laws) if laws else None


def _law_numbers(law: KindLaw) -> tuple[float, ...]:
    times, batches = law.times, law.batches
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
