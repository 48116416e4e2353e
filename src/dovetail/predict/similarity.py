"""How fast a model runs that was never measured: as models that are like it.

Our reading of the model-similarity policy (Thanapol et al., ACIIDS 2023); the papers' formulas are
not public. The same model with other batch sizes says most. Else it is the median over all models,
in which those that are like it count more: by `1 / (1 + distance)`, so that a model that is far from
all of them is taken for the plain median, and one odd neighbour cannot carry it away. The distance
grows when the families differ, with the operations of a layer in one step (small ones leave a large
GPU idle) and a little with the parameters. `python -m benchmarks similarity` shows the errors on
Gavel's tables, also with scales chosen without the model at hand.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log, log2
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, plain

_SAME = 2  # batch sizes of the same model that are asked
_SHOWN = 3  # of other models
FILE: Final = Path(__file__).with_name("known_models.csv")


@dataclass(frozen=True, slots=True)
class Scales:
    """How far apart a difference puts two types."""

    other_family: float = 1.0
    layer_work: float = 0.05  # for each squared doubling of the operations of a layer in a step
    parameters: float = 0.01  # for each squared doubling
    unknown: float = 3.0  # nothing is known of the other one
    batch: float = 1.0  # for each squared doubling, of the same model
    # All other models together count as much as the same one five doublings of the batch size away.
    others: float = 0.04


USUAL: Final = Scales()


class Neighbour(NamedTuple):
    model: ModelType
    weight: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Guess:
    """A ratio of two speeds, and where it comes from."""

    ratio: float
    neighbours: tuple[Neighbour, ...]  # who says most
    of_everyone: float  # the median over all types
    measured: bool = False


def describe(model: ModelType) -> KnownModel | None:
    return known_models().get(model.model)


def distance(one: ModelType, other: ModelType, scales: Scales = USUAL) -> float:
    a, b = describe(one), describe(other)
    if same_model(one, other):
        return scales.batch * _doublings(_batch(one, a), _batch(other, b))
    if a is None or b is None:
        return scales.unknown
    return (
        (scales.other_family if a.family != b.family else 0.0)
        + scales.layer_work * _doublings(_layer_work(one, a), _layer_work(other, b))
        + scales.parameters * _doublings(a.parameters_m, b.parameters_m)
    )


def same_model(one: ModelType, other: ModelType) -> bool:
    """Under whatever name."""
    known = describe(one)
    return one.model == other.model or (known is not None and known == describe(other))


def _doublings(one: float, other: float) -> float:
    return log2(one / other) ** 2


def _batch(model: ModelType, known: KnownModel | None) -> float:
    return model.batch or (known.batch if known else 1)


def _layer_work(model: ModelType, known: KnownModel) -> float:
    return _batch(model, known) * known.gflop_per_sample / known.layers


def guess(
    table: SpeedTable, model: ModelType, one: Hardware, other: Hardware, scales: Scales = USUAL
) -> Guess | None:
    """How many times as fast it runs on one hardware as on the other; None: nobody was measured."""
    ratios = {
        own: ratio for own in table.speeds if (ratio := table.ratio(own, one, other)) is not None
    }
    if not ratios:
        return None
    everyone = median(ratios.values())
    if model in ratios:
        own = Neighbour(model, 1.0, ratios[model])
        return Guess(ratios[model], (own,), everyone, measured=True)
    near = _neighbours(model, ratios, scales)
    same = [neighbour for neighbour in near if same_model(model, neighbour.model)][:_SAME]
    known = describe(model) is not None  # else nothing tells the others apart
    others = [neighbour for neighbour in near if known and not same_model(model, neighbour.model)]
    middle = _median(others) if others else log(everyone)
    if not same:
        return Guess(exp(middle), _first_of_each(others)[:_SHOWN], everyone)
    return Guess(exp(_mean(same, middle, scales.others)), tuple(same), everyone)


def _neighbours(
    model: ModelType, ratios: Mapping[ModelType, float], scales: Scales
) -> list[Neighbour]:
    """Those that are most like it first."""
    found = [
        Neighbour(own, 1.0 / (1.0 + distance(model, own, scales)), ratio)
        for own, ratio in ratios.items()
    ]
    return sorted(found, key=lambda neighbour: (-neighbour.weight, neighbour.model))


def _first_of_each(others: Sequence[Neighbour]) -> tuple[Neighbour, ...]:
    """The most similar batch size of each model."""
    first: dict[str, Neighbour] = {}
    for neighbour in others:
        first.setdefault(neighbour.model.model, neighbour)
    return tuple(first.values())


def _mean(same: Sequence[Neighbour], others: float, weight: float) -> float:
    """Of the logarithms, what other models say included."""
    total = weight * others + sum(n.weight * log(n.ratio) for n in same)
    return total / (weight + sum(n.weight for n in same))


def _median(others: Sequence[Neighbour]) -> float:
    """Of the logarithms, by weight; many batch sizes of a model are together one opinion."""
    types = Counter(n.model.model for n in others)
    rows = sorted((log(n.ratio), n.weight / types[n.model.model]) for n in others)
    half = sum(weight for _, weight in rows) / 2.0
    below, at, value = 0.0, 0.0, rows[0][0]
    for following, weight in rows:
        middle = below + weight / 2.0
        if middle >= half:  # between the middles of two weights a straight line
            return value + (following - value) * (half - at) / (middle - at)
        below, at, value = below + weight, middle, following
    return value


class KnownModel(NamedTuple):
    name: str
    family: str
    parameters_m: float  # millions
    gflop_per_sample: float  # forward
    layers: int  # those with weights
    batch: int  # the usual size on one GPU
    source: str


@cache
def known_models() -> dict[str, KnownModel]:
    """By every plain name that the model goes by."""
    found: dict[str, KnownModel] = {}
    with open(FILE, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            model = KnownModel(
                row["model"],
                row["family"],
                float(row["parameters_m"]),
                float(row["gflop_per_sample"]),
                int(row["layers"]),
                int(row["batch"]),
                row["source"],
            )
            for name in (row["model"], *row["also"].split(";")):
                if name:
                    found[plain(name)] = model
    return found
