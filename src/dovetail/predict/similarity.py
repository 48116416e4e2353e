"""How fast a model runs that was never measured: as models that are like it.

Our reading of the model-similarity policy (Thanapol et al., ACIIDS 2023); the papers' formulas are
not public. Two model types are alike by `exp(-distance)`. The distance grows when they are different
models, when their families differ, with the operations of a layer in one step (small ones leave a
large GPU idle) and a little with the parameters. The scales were chosen with Gavel's tables in view,
where `python -m benchmarks similarity` shows the errors, also with scales chosen without the model
at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import exp, log, log2
from statistics import median
from typing import Final, NamedTuple

from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.predict.known_models import KnownModel, known_models


@dataclass(frozen=True, slots=True)
class Scales:
    """How far apart a difference puts two types."""

    other_model: float = 4.0
    other_family: float = 2.0
    layer_work: float = 0.2  # for each squared doubling of the operations of a layer in a step
    parameters: float = 0.02  # for each squared doubling
    neighbours: int = 3
    # All types together, by their median, count as much as so many other models just like this one.
    everyone: float = 2.0


USUAL: Final = Scales()


class Neighbour(NamedTuple):
    model: ModelType
    weight: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Guess:
    """A ratio of two speeds, and where it comes from."""

    ratio: float
    neighbours: tuple[Neighbour, ...]
    of_everyone: float  # the median over all types
    measured: bool = False


def describe(model: ModelType) -> KnownModel | None:
    return known_models().get(model.model)


def distance(one: ModelType, other: ModelType, scales: Scales = USUAL) -> float | None:
    """None: too little is known to say."""
    if one == other:
        return 0.0
    a, b = describe(one), describe(other)
    if one.model == other.model or (a is not None and a == b):
        return scales.layer_work * _doublings(_batch(one, a), _batch(other, b))
    if a is None or b is None:
        return None
    return (
        scales.other_model
        + (scales.other_family if a.family != b.family else 0.0)
        + scales.layer_work * _doublings(_layer_work(one, a), _layer_work(other, b))
        + scales.parameters * _doublings(a.parameters_m, b.parameters_m)
    )


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
    near = _nearest(model, ratios, scales)
    weight = scales.everyone * exp(-scales.other_model)
    total = weight * log(everyone) + sum(n.weight * log(n.ratio) for n in near)
    middle = total / (weight + sum(n.weight for n in near))
    return Guess(exp(middle), near, everyone)


def _nearest(
    model: ModelType, ratios: dict[ModelType, float], scales: Scales
) -> tuple[Neighbour, ...]:
    found = [
        Neighbour(own, exp(-away), ratio)
        for own, ratio in ratios.items()
        if (away := distance(model, own, scales)) is not None
    ]
    found.sort(key=lambda neighbour: (-neighbour.weight, neighbour.model))
    return tuple(found[: scales.neighbours])


# --------------------------------------------------------------------------------- how good is it?


class Miss(NamedTuple):
    """A ratio predicted for a type whose own measurements were hidden."""

    model: ModelType
    gpus: int
    predicted: float
    of_everyone: float  # what the median of the others says
    truth: float

    @property
    def error(self) -> float:
        return _error(self.predicted, self.truth)

    @property
    def error_of_everyone(self) -> float:
        return _error(self.of_everyone, self.truth)


def _error(predicted: float, truth: float) -> float:
    """The same for a ratio and its inverse, and the larger of their relative errors."""
    return exp(abs(log(predicted / truth))) - 1.0


Hides = Callable[[ModelType, ModelType], bool]  # does leaving out the first hide the second?


def same_type(one: ModelType, other: ModelType) -> bool:
    return one == other


def same_model(one: ModelType, other: ModelType) -> bool:
    return one.model == other.model


def left_out(
    table: SpeedTable,
    hides: Hides,
    counts: Sequence[int] = (1,),
    scales: Scales = USUAL,
    nodes: int = 1,
) -> Iterator[Miss]:
    """Each type predicted from the others, for every pair of GPU kinds and number of GPUs; or, where
    they are spread over nodes, for being spread or not."""
    for model, rows in table.speeds.items():
        try:
            others = table.without(partial(hides, model))
        except ValueError:  # there are no others
            continue
        for gpus in counts:
            for one, other in _pairs(table, gpus, nodes):
                if not (rows.get(one) and rows.get(other)):
                    continue
                found = guess(others, model, one, other, scales)
                if found is not None:
                    truth = rows[one] / rows[other]
                    yield Miss(model, gpus, found.ratio, found.of_everyone, truth)


def _pairs(table: SpeedTable, gpus: int, nodes: int) -> list[tuple[Hardware, Hardware]]:
    together = [Hardware(kind, gpus) for kind in table.kinds]
    if nodes > 1:
        return [(own._replace(nodes=nodes), own) for own in together]
    return list(combinations(together, 2))


class Choice(NamedTuple):
    """The GPU kind that a type was thought to be fastest on, its own measurements hidden."""

    model: ModelType
    kind: str
    regret: float  # the part of the best kind's speed that it loses there

    @property
    def right(self) -> bool:
        return self.regret == 0.0


def choices(table: SpeedTable, hides: Hides, gpus: int = 1) -> Iterator[Choice]:
    for model in table.speeds:
        others = table.without(partial(hides, model))
        usual = Hardware(table.reference, gpus)
        truth, predicted = {}, {}
        for kind in table.kinds:
            known = table.ratio(model, Hardware(kind, gpus), usual)
            found = guess(others, model, Hardware(kind, gpus), usual)
            if known is not None and found is not None:
                truth[kind], predicted[kind] = known, found.ratio
        if truth:
            kind = max(predicted, key=lambda own: predicted[own])
            yield Choice(model, kind, 1.0 - truth[kind] / max(truth.values()))
