"""How well speeds are predicted: each type, or model, of a table told from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from math import exp, log
from typing import NamedTuple

from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.predict.similarity import USUAL, Scales, guess


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


class KindChoice(NamedTuple):
    """The GPU kind that a type was thought to be fastest on, its own measurements hidden."""

    model: ModelType
    kind: str
    regret: float  # the part of the best kind's speed that it loses there

    @property
    def right(self) -> bool:
        return self.regret == 0.0


def choices(table: SpeedTable, hides: Hides, gpus: int = 1) -> Iterator[KindChoice]:
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
            yield KindChoice(model, kind, 1.0 - truth[kind] / max(truth.values()))
