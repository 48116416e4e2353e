"""Measured speeds of models, by GPU kind, number of GPUs and number of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf, log2
from typing import Final, NamedTuple, TypeAlias, final
from unicodedata import category, normalize

from dovetail.core.errors import BadInput
from dovetail.core.model import Job

_BATCH = re.compile(r"(?P<model>.*?)\s*(?:\(batch size (?P<said>\d+)\)|@(?P<short>\d+))?")


class ModelType(NamedTuple):
    """A model and its batch size on one GPU; 0: not said."""

    model: str
    batch: int = 0

    def __str__(self) -> str:
        return f"{self.model}@{self.batch}" if self.batch else self.model


class Hardware(NamedTuple):
    """GPUs of one kind, and over how many nodes they are spread."""

    kind: str
    gpus: int = 1
    nodes: int = 1


# Two models side by side on GPUs of that hardware: steps a second of the first and of the second.
PairSpeeds: TypeAlias = Mapping[tuple[ModelType, ModelType], Mapping[Hardware, tuple[float, float]]]
NO_PAIRS: Final[PairSpeeds] = {}


def plain(name: str) -> str:
    """`ResNet-50`, `resnet_50` and `resnet50` are one model, `V100` and `v100` one kind."""
    letters = normalize("NFKC", name.lower())  # of any script, and their marks
    return "".join([own for own in letters if own.isalnum() or category(own).startswith("M")])


@lru_cache(10_000)
def model_type(text: str) -> ModelType:
    """From `resnet50`, `resnet50@64` or, as Gavel has it, `ResNet-50 (batch size 64)`."""
    found = _BATCH.fullmatch(text.strip())
    assert found is not None  # anything is a model
    return ModelType(plain(found["model"]), int(found["said"] or found["short"] or 0))


@final
class SpeedTable:
    """Steps a second, or anything in proportion to them, for each model type and hardware; and for pairs
    of them that share GPUs, where those were measured.

    Speed 1 is that on `reference`, the kind on which durations of jobs are told: the one that most
    models are fastest on, unless another is named.
    """

    def __init__(
        self,
        speeds: Mapping[ModelType, Mapping[Hardware, float]],
        reference: str = "",
        pairs: PairSpeeds = NO_PAIRS,
    ) -> None:
        if not any(speeds.values()):
            raise ValueError("the speed table has no speeds")
        self.speeds: Final = {kind: dict(rows) for kind, rows in speeds.items() if rows}
        self.pairs: Final = pairs
        self.kinds: Final = tuple(
            dict.fromkeys(hardware.kind for rows in self.speeds.values() for hardware in rows)
        )
        self.reference: Final = self._reference(reference)
        self._same_kind: Final[dict[str, str]] = {}  # as nodes call it, as the table does
        self._counts: Final[dict[tuple[ModelType, str], list[int]]] = {}  # of GPUs, measured

    def _reference(self, wanted: str) -> str:
        if not wanted:
            return max(self.kinds, key=self._times_fastest)
        if plain(wanted) not in self.kinds:
            kinds = ", ".join(self.kinds)
            raise BadInput(f"the speed table has no GPU kind {wanted!r}; it has {kinds}")
        return plain(wanted)

    def _times_fastest(self, kind: str) -> int:
        number = 0
        for rows in self.speeds.values():
            fastest = max(rows, key=lambda hardware: rows[hardware] if hardware.gpus == 1 else 0.0)
            number += fastest.kind == kind
        return number

    def without(self, hidden: Callable[[ModelType], bool]) -> SpeedTable:
        """The same table, had those never been measured."""
        left = {kind: rows for kind, rows in self.speeds.items() if not hidden(kind)}
        pairs = {both: rows for both, rows in self.pairs.items() if not any(map(hidden, both))}
        return SpeedTable(left, self.reference, pairs)

    def kind_of(self, name: str) -> str:
        """The table's name of a GPU kind that a node calls `Tesla V100-SXM2`; "": it has none."""
        found = self._same_kind.get(name)
        if found is None:
            words = [plain(name), *map(plain, re.split(r"[\W_]+", name))]
            found = next((word for word in words if word in self.kinds), "")
            self._same_kind[name] = found
        return found

    def nearest(self, wanted: ModelType) -> ModelType | None:
        """The type itself, else that model with the most similar batch size."""
        if wanted in self.speeds:
            return wanted
        same = [own for own in self.speeds if own.model == wanted.model]
        if not wanted.batch:
            return sorted(same)[len(same) // 2] if same else None
        return min(same, key=lambda own: abs(log2((own.batch or 1) / wanted.batch)), default=None)

    def beside(self, one: ModelType, other: ModelType, own: Hardware) -> tuple[float, float]:
        """Steps a second of both side by side on these GPUs, as measured; 0: not measured, or they do
        not fit."""
        found = self.pairs.get((one, other), {}).get(own)
        if found is None:
            second, first = self.pairs.get((other, one), {}).get(own, (0.0, 0.0))
            return first, second
        return found

    def parts_beside(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        """What part of its speed alone each job has beside the other; 0: not measured."""
        first, second = self.nearest(model_type(job.model)), self.nearest(model_type(other.model))
        own = Hardware(self.kind_of(kind), job.gpus)
        if first is None or second is None or not self.pairs:
            return 0.0, 0.0
        both = self.beside(first, second, own)
        alone = self.speeds[first].get(own, 0.0), self.speeds[second].get(own, 0.0)
        if not all(both) or not all(alone):
            return 0.0, 0.0
        return both[0] / alone[0], both[1] / alone[1]

    def ratio(self, model: ModelType, one: Hardware, other: Hardware) -> float | None:
        """How many times as fast the type runs on one hardware as on the other. Where that number of
        GPUs was not measured on both, that of the nearest number; None: not measured at all. Two
        numbers of GPUs are compared only within what was measured."""
        rows = self.speeds[model]
        if one.gpus != other.gpus:
            return _quotient(self._between(model, one), self._between(model, other))
        best, nearest = None, inf
        for gpus in {hardware.gpus for hardware in rows}:
            found = _quotient(
                _speed(rows, one._replace(gpus=gpus)), _speed(rows, other._replace(gpus=gpus))
            )
            away = abs(log2(gpus / one.gpus)) + (gpus > one.gpus) * 1e-6
            if found is not None and away < nearest:
                best, nearest = found, away
        return best

    def _between(self, model: ModelType, wanted: Hardware) -> float | None:
        """Of that number of GPUs, else on a straight line between the nearest fewer and more."""
        rows, counts = self.speeds[model], self._counts_of(model, wanted.kind)
        if wanted.gpus in counts:
            return _speed(rows, wanted)
        fewer = [gpus for gpus in counts if gpus < wanted.gpus]
        more = [gpus for gpus in counts if gpus > wanted.gpus]
        if not fewer or not more:
            return None
        low, high = (_speed(rows, wanted._replace(gpus=n)) for n in (fewer[-1], more[0]))
        if not low or not high:
            return None
        return low + (high - low) * (wanted.gpus - fewer[-1]) / (more[0] - fewer[-1])

    def _counts_of(self, model: ModelType, kind: str) -> list[int]:
        found = self._counts.get((model, kind))
        if found is None:
            found = sorted({own.gpus for own in self.speeds[model] if own.kind == kind})
            self._counts[model, kind] = found
        return found


def _speed(rows: Mapping[Hardware, float], wanted: Hardware) -> float | None:
    """Of that hardware, else of the most similar number of nodes; one GPU is never spread."""
    if wanted.gpus == 1:
        wanted = wanted._replace(nodes=1)
    if wanted in rows or wanted.nodes == 1:
        return rows.get(wanted)
    spread = [s for s in rows if s[:2] == wanted[:2] and s.nodes > 1]
    nearest = min(spread, key=lambda s: abs(s.nodes - wanted.nodes), default=None)
    return rows.get(wanted._replace(nodes=1)) if nearest is None else rows[nearest]


def _quotient(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None  # 0 means that it was not measured
