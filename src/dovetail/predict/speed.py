"""Beliefs about how fast a job runs on which GPUs. Speed 1 is that at which durations are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite
from statistics import median
from typing import Final, NamedTuple, Protocol, TypeAlias, cast, final

from dovetail.core.model import Job
from dovetail.models.scaling import USUAL_SCALING, sped_up
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, model_type
from dovetail.predict.left_out import Hides, left_out, same_type
from dovetail.predict.similarity import KnownModel, describe, guess, same_model

Speed: TypeAlias = Callable[[Job, str, int, int], float]


class SpeedPredictor(Protocol):
    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        """On so many GPUs of that kind, on so many nodes; 0: it cannot run there."""


class SideSpeeds(Protocol):
    """Knows jobs that share GPUs."""

    def beside(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        """What part of its speed alone each has side by side on GPUs of that kind; 0: unknown."""


def beside(speeds: SpeedPredictor, job: Job, other: Job, kind: str) -> tuple[float, float]:
    """As believed, by those that believe anything of it."""
    if not hasattr(speeds, "beside"):
        return 0.0, 0.0
    return cast(SideSpeeds, speeds).beside(job, other, kind)


@final
@dataclass(frozen=True)
class SameEverywhere:
    """Takes no notice of GPU kinds, but for jobs that were timed on them; more GPUs are faster by a
    power of their number."""

    scaling: float = USUAL_SCALING

    @staticmethod
    def source() -> str:
        return "the same on every GPU kind"

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return _as_timed(job, kind, gpus, self.scaling)


def _as_timed(job: Job, kind: str, gpus: int, scaling: float = USUAL_SCALING) -> float:
    option = job.option(kind, gpus) if job.options else None
    if option is not None:
        return job.options[0].seconds / option.seconds
    return sped_up(job, gpus, scaling)


def _hides_nothing(one: ModelType, other: ModelType) -> bool:
    return False


@final
class SimilarModels:
    """As the table has it or, for what it does not have, as models that are like it.

    `hides` makes a study honest: a type is then predicted from a table in which it, or all of its
    model, was never measured.
    """

    def __init__(self, table: SpeedTable, hides: Hides = _hides_nothing) -> None:
        self._table: Final = table
        self._hides: Final = hides
        self._found: Final[dict[tuple[str, str, int, int, int], float]] = {}
        self._tables: Final[dict[ModelType, SpeedTable | None]] = {}

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        if job.options or not job.model or not job.gpus:
            return _as_timed(job, kind, gpus)
        way = (job.model, kind, gpus, nodes, job.gpus)
        found = self._found.get(way)
        if found is None:
            found = self._found[way] = self._speed(job, kind, gpus, nodes)
        return found

    def beside(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        return self._table.parts_beside(job, other, kind)

    def _speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        """What the table says nothing of is taken for usual."""
        named, own_kind = model_type(job.model), self._table.kind_of(kind)
        wanted = self._table.nearest(named) or named
        table = self._seen_by(wanted)
        usual, unknown = Hardware(self._table.reference, job.gpus), sped_up(job, gpus)
        if table is None or not own_kind:
            return unknown
        own = Hardware(own_kind, gpus, nodes)
        measured = table.ratio(wanted, own, usual) if wanted in table.speeds else None
        if measured is not None:
            return measured
        found = guess(table, wanted, own, usual)
        return found.ratio if found is not None and isfinite(found.ratio) else unknown

    def _seen_by(self, wanted: ModelType) -> SpeedTable | None:
        if wanted not in self._tables:
            try:
                table = self._table.without(partial(self._hides, wanted))
            except ValueError:  # nothing is left of it
                table = None
            self._tables[wanted] = table
        return self._tables[wanted]


@dataclass(frozen=True, eq=False)
class AsMeasured:
    """As measured, which is the truth in a simulation."""

    true_speeds: SpeedTable

    @staticmethod
    def source() -> str:
        return "as measured, which is the truth here"

    @cached_property
    def speed(self) -> Speed:
        return SimilarModels(self.true_speeds).speed

    def beside(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        return self.true_speeds.parts_beside(job, other, kind)


@dataclass(frozen=True, eq=False)
class AsSimilar:
    """As other models are, its own measurements hidden."""

    table: SpeedTable

    @staticmethod
    def source() -> str:
        return "as other models, its own measurements hidden"

    @cached_property
    def speed(self) -> Speed:
        return SimilarModels(self.table, same_type).speed


@dataclass(frozen=True, eq=False)
class AsStrangers:
    """As other models are, all measurements of its model hidden."""

    table: SpeedTable

    @staticmethod
    def source() -> str:
        return "as other models, all measurements of its model hidden"

    @cached_property
    def speed(self) -> Speed:
        return SimilarModels(self.table, same_model).speed


# ---------------------------------------------------------------------------------------- explained


class LikeModel(NamedTuple):
    """A measured model that says something about another one."""

    model: str
    likeness: float
    speed: float


@dataclass(frozen=True, slots=True)
class KindSpeed:
    """The believed speed of a model on one GPU kind; None: it cannot be told."""

    kind: str
    measured: bool
    of_one_gpu: float | None
    speed: float | None
    median_of_all: float | None
    neighbours: tuple[LikeModel, ...]


@dataclass(frozen=True, slots=True)
class ModelSpeeds:
    """The believed speed of a model on each GPU kind, and how far off that usually is: when its type, or
    all of its model, is left out, and by the median of all. None: the table does not tell."""

    model: str
    known: KnownModel | None
    gpus: int
    nodes: int
    reference: str
    measured: bool
    kinds: tuple[KindSpeed, ...]
    error_left_out: float | None
    error_model_left_out: float | None
    error_of_median: float | None


def explained(table: SpeedTable, model: ModelType, gpus: int = 1, nodes: int = 1) -> ModelSpeeds:
    kinds = tuple(_on_kind(table, model, Hardware(kind, gpus, nodes)) for kind in table.kinds)
    types = list(left_out(table, same_type, (gpus,), nodes=nodes))
    models = list(left_out(table, same_model, (gpus,), nodes=nodes))
    return ModelSpeeds(
        str(model),
        describe(model),
        gpus,
        nodes,
        table.reference,
        all(one.measured for one in kinds),
        kinds,
        _median(miss.error for miss in types),
        _median(miss.error for miss in models),
        _median(miss.error_of_everyone for miss in models),
    )


def _on_kind(table: SpeedTable, model: ModelType, own: Hardware) -> KindSpeed:
    found = guess(table, model, own, Hardware(table.reference, own.gpus))
    alone = guess(table, model, own, Hardware(own.kind))
    of_one_gpu = None if alone is None else alone.ratio
    if found is None:
        return KindSpeed(own.kind, False, of_one_gpu, None, None, ())
    like = [LikeModel(str(near.model), near.weight, near.ratio) for near in found.neighbours]
    return KindSpeed(
        own.kind, found.measured, of_one_gpu, found.ratio, found.of_everyone, tuple(like)
    )


def _median(errors: Iterable[float]) -> float | None:
    found = list(errors)
    return median(found) if found else None
