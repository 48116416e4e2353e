"""Applications as Pollux measured them: steps by placement and batch, and how far each step leads.

An application trains for so many epochs. What a step takes depends on where its GPUs are and on the
batch of each; what it is worth depends on the whole batch and, by the noise of the gradients, on the
epoch (McCandlish et al., An Empirical Model of Large-Batch Training; Qiao et al., Pollux).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, floor
from typing import Final, NamedTuple, TypeAlias

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds

MEASURED_GPUS_A_NODE: Final = 4  # on the nodes where the steps were timed
_MOST_NODES: Final = 16  # more were not measured: they are taken for as many

Counts: TypeAlias = tuple[int, ...]  # GPUs on each node, in the order in which the nodes were taken
Point: TypeAlias = tuple[float, ...]


class StepTime(NamedTuple):
    step_s: Seconds
    sync_s: Seconds  # of it: to agree with the other GPUs


class BatchSplit(NamedTuple):
    """The batch of each GPU at a time, and how many are put aside before the GPUs agree."""

    local: int
    aside: int


class BatchLimits(NamedTuple):
    initial: int
    largest: int
    local_least: int
    local_most: int


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """Steps on one placement, by the batch of each GPU."""

    locals: tuple[int, ...]
    times: tuple[StepTime, ...]

    def at(self, local: int) -> StepTime:
        """On a straight line between the measured batches; never outside."""
        found = self.locals
        if not found[0] <= local <= found[-1]:
            raise BadInput(
                f"no step with {local} samples a GPU was measured; there are {found[0]} to {found[-1]}"
            )
        i = bisect_left(found, local)
        if found[i] == local:
            return self.times[i]
        part = (local - found[i - 1]) / (found[i] - found[i - 1])
        low, high = self.times[i - 1], self.times[i]
        return StepTime(
            low.step_s + (high.step_s - low.step_s) * part,
            low.sync_s + (high.sync_s - low.sync_s) * part,
        )


@dataclass(frozen=True, slots=True)
class ScatteredSteps:
    """Steps by number of nodes, of GPUs and batch of each, for placements that were not measured."""

    points: tuple[Point, ...]
    times: tuple[StepTime, ...]


Between: TypeAlias = Callable[[ScatteredSteps], Callable[[Point], StepTime | None]]


@dataclass(frozen=True, slots=True)
class EpochCurves:
    """By batch size, ascending, and epoch: the iterations done by its end, and the gradients."""

    batches: tuple[int, ...]
    iterations: tuple[tuple[float, ...], ...]
    grad_sqr: tuple[tuple[float, ...], ...]
    grad_var: tuple[tuple[float, ...], ...]
    progress: tuple[float, ...]  # at the end of each epoch, in initial batches

    def between(self, rows: Sequence[Sequence[float]], batch: int, epoch: int) -> float:
        """On a straight line between the measured batch sizes around it."""
        sizes = self.batches
        i = bisect_left(sizes, batch)
        if i < len(sizes) and sizes[i] == batch:
            return rows[i][epoch]
        i = min(max(i, 1), len(sizes) - 1)
        part = (batch - sizes[i - 1]) / (sizes[i] - sizes[i - 1])
        low, high = rows[i - 1][epoch], rows[i][epoch]
        return low + (high - low) * part


def lowest_rotation(counts: Counts) -> str:
    """The name of a placement, such as 14 for one GPU of a node and four of the next."""
    return "".join(map(str, min(counts[i:] + counts[:i] for i in range(len(counts)))))


def packed(gpus: int) -> Counts:
    """As few nodes as can be."""
    full, rest = divmod(gpus, MEASURED_GPUS_A_NODE)
    return (MEASURED_GPUS_A_NODE,) * full + ((rest,) if rest else ())


@dataclass(frozen=True, eq=False)
class Application:
    """What is known of one application; steps between the measured ones are looked up once."""

    name: str
    limits: BatchLimits
    curves: EpochCurves
    measured: Mapping[str, LocalSteps]  # by placement, see `lowest_rotation`
    scattered: ScatteredSteps
    between: Between
    one_gpu: bool = False  # does it never use more?
    _steps: dict[tuple[Counts, int], StepTime] = field(default_factory=dict, repr=False)
    _gains: dict[int, tuple[float, ...]] = field(default_factory=dict, repr=False)

    @property
    def epochs(self) -> int:
        return len(self.curves.progress)

    def most_gpus(self, batch: int) -> int:
        return 1 if self.one_gpu else max(batch // self.limits.local_least, 1)

    def split(self, batch: int, gpus: int, always_aside: bool = False) -> BatchSplit:
        """A batch over so many GPUs. On a single one more than the initial batch is put aside once, so
        that its noise can be told; with `always_aside` any is."""
        limits = self.limits
        local = ceil(batch / gpus - 1e-8)
        aside = ceil(local / limits.local_most - 1e-8) - 1
        if gpus == 1 and (always_aside or batch > limits.initial):
            aside = max(1, aside)
        each = ceil(local / (aside + 1) - 1e-8)
        return BatchSplit(min(each, floor(limits.largest / (gpus * (aside + 1)))), aside)

    def step_time(self, counts: Counts, local: int) -> StepTime:
        found = self._steps.get((counts, local))
        if found is None:
            found = self._steps[counts, local] = self._looked_up(counts, local)
        return found

    def optimisation_s(self, counts: Counts, split: BatchSplit) -> Seconds:
        """One step of the optimiser: all that is put aside, and the step in which the GPUs agree."""
        time = self.step_time(counts, split.local)
        return time.step_s + (time.step_s - time.sync_s) * split.aside

    def _looked_up(self, counts: Counts, local: int) -> StepTime:
        exactly = self.measured.get(lowest_rotation(counts))
        if exactly is not None:
            return exactly.at(local)
        point = (min(len(counts), _MOST_NODES), sum(counts), local)
        found = self._between(point)
        if found is None:
            raise BadInput(
                f"application {self.name!r}: no step was measured near {sum(counts)} GPUs on "
                f"{len(counts)} nodes with {local} samples each; give it fewer GPUs (max_gpus)"
            )
        return found

    @cached_property
    def _between(self) -> Callable[[Point], StepTime | None]:
        return self.between(self.scattered)

    def gains(self, batch: int) -> tuple[float, ...]:
        """By epoch: how many steps with the initial batch one with this batch is worth."""
        found = self._gains.get(batch)
        if found is None:
            found = self._gains[batch] = tuple(
                [self._gain(batch, epoch) for epoch in range(self.epochs)]
            )
        return found

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        """The square and the variance of the gradients."""
        curves = self.curves
        return (
            curves.between(curves.grad_sqr, batch, epoch),
            curves.between(curves.grad_var, batch, epoch),
        )

    def _gain(self, batch: int, epoch: int) -> float:
        sqr, var = self.noise(batch, epoch)
        return (var + sqr) / (var / (batch / self.limits.initial) + sqr)

    def iterations_left(self, batch: int, epoch: int) -> float:
        """From the end of the epoch on; 1 in the last one."""
        last = self.epochs - 1
        if epoch >= last:
            return 1.0
        curves = self.curves
        rows = curves.iterations
        return curves.between(rows, batch, last) - curves.between(rows, batch, epoch)
