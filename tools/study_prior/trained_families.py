"""Families of curves that are really trained, in a minute: networks with schedules of their learning
rate, networks on labels of which some are wrong, linear models, boosted trees. On the data that
scikit-learn ships.

The networks of a task are trained side by side: the first axis of every weight is the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dovetail.tune.recorded import Curve, Task

SETTINGS, STEPS = 64, 52
_WIDEST = 32
_PARTS = 10  # the rows of a batch are one of so many
_BATCHES = 3  # in a step: few, so that good settings need most of their steps
_MOST_ROWS = 640
_WORST = 1e3  # a loss above it has diverged
Chance: TypeAlias = np.random.Generator


@dataclass(frozen=True, slots=True)
class _Rows:
    inputs: Any
    classes: Any  # one-hot; for a regression the number itself
    held_inputs: Any
    held_classes: Any
    is_regression: bool = False


# ---------------------------------------------------------------------------------------- the data


def _rows(name: str, chance: Chance, wrong: float = 0.0) -> _Rows:
    """To train on and held out. `wrong`: the share of labels to train on that are drawn by lot."""
    from sklearn import datasets

    given, told = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = chance.permutation(len(told))[: 2 * _MOST_ROWS]
    deviation = given.std(axis=0)
    inputs = ((given - given.mean(axis=0)) / np.where(deviation > 0, deviation, 1))[order]
    regression = name == "diabetes"
    if regression:
        outputs = ((told - told.mean()) / told.std())[order, None]
    else:
        outputs = np.eye(int(told.max()) + 1)[told[order]]
    cut = len(order) // 2
    learned = outputs[:cut].copy()
    lots = chance.random(cut) < wrong
    learned[lots] = learned[chance.permutation(cut)][lots]
    single = np.float32
    return _Rows(
        inputs[:cut].astype(single), learned.astype(single),
        inputs[cut:].astype(single), outputs[cut:].astype(single), regression,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ the networks


@dataclass(frozen=True, slots=True)
class _Plan:
    """Of every setting: how it is trained."""

    rates: Any  # [step, setting]
    widths: Any
    is_adam: Any
    momentum: Any
    decay: Any


def _plan(chance: Chance) -> _Plan:
    rates = np.exp(chance.uniform(np.log(1e-4), np.log(0.3), SETTINGS))
    ages = np.arange(1.0, STEPS + 1)[:, None]
    warm = np.minimum(ages / chance.choice([1, 4, 10], SETTINGS), 1)
    kind = chance.integers(0, 3, SETTINGS)  # constant, two drops, cosine
    drops = 0.1 ** ((ages > 0.5 * STEPS).astype(float) + (ages > 0.8 * STEPS))
    cosine = (1 + np.cos(np.pi * ages / STEPS)) / 2 + 0.01
    shape = np.where(kind == 0, 1.0, np.where(kind == 1, drops, cosine))
    is_adam = chance.random(SETTINGS) < 0.5
    return _Plan(
        rates * np.where(is_adam, 0.1, 1.0) * warm * shape,
        np.exp2(chance.uniform(1.5, 5, SETTINGS)).astype(int),
        is_adam[:, None, None],
        chance.uniform(0, 0.95, SETTINGS)[:, None, None],
        np.exp(chance.uniform(np.log(1e-6), np.log(1e-2), SETTINGS))[:, None, None],
    )


def _networks(rows: _Rows, chance: Chance, hidden: int) -> tuple[Any, Any]:
    """Error and loss on the rows held out: [setting, step] each."""
    plan = _plan(chance)
    layers = _layers(rows, plan, chance, hidden)
    slopes = [np.zeros_like(layer) for layer in layers]
    squares = [np.zeros_like(layer) for layer in layers]
    told = []
    with np.errstate(all="ignore"):  # that it overflows is part of the curve
        for made in range(1, STEPS * _BATCHES + 1):
            rate = plan.rates[(made - 1) // _BATCHES][:, None, None].astype(np.float32)
            batch = chance.choice(len(rows.inputs), len(rows.inputs) // _PARTS, replace=False)
            gradient = _gradient(layers, rows.inputs[batch], rows.classes[batch], rows)
            _descend(layers, slopes, squares, gradient, plan, rate, made)
            if made % _BATCHES == 0:
                told.append(_judged(layers, rows))
    return np.array([error for error, _ in told]).T, np.array([loss for _, loss in told]).T


def _layers(rows: _Rows, plan: _Plan, chance: Chance, hidden: int) -> list[Any]:
    """With a one beside their inputs; units beyond a setting's width stay at nothing."""
    lives = np.arange(_WIDEST) < plan.widths[:, None]
    sizes = [rows.inputs.shape[1], *[_WIDEST] * hidden, rows.classes.shape[1]]
    layers = []
    for into, out in pairwise(sizes):
        layer = chance.normal(0, 1.4 / np.sqrt(into), (SETTINGS, into + 1, out))
        layer[:, -1] = 0
        if into == _WIDEST:
            layer[:, :-1] *= lives[:, :, None]
        if out == _WIDEST:
            layer *= lives[:, None, :]
        layers.append(layer.astype(np.float32))
    return layers


def _with_ones(values: Any) -> Any:
    return np.concatenate([values, np.ones((*values.shape[:-1], 1), np.float32)], axis=-1)


def _forward(layers: Sequence[Any], inputs: Any) -> list[Any]:
    """What goes into each layer, and the scores that come out of the last."""
    found = [_with_ones(inputs)]
    for layer in layers[:-1]:
        found.append(_with_ones(np.maximum(found[-1] @ layer, 0)))
    return [*found, found[-1] @ layers[-1]]


def _likely(scores: Any) -> Any:
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def _gradient(layers: Sequence[Any], inputs: Any, classes: Any, rows: _Rows) -> list[Any]:
    *given, scores = _forward(layers, inputs)
    back = ((scores if rows.is_regression else _likely(scores)) - classes) / len(inputs)
    found: list[Any] = []
    for into, layer in zip(reversed(given), reversed(layers), strict=True):
        found.insert(0, into.swapaxes(-1, -2) @ back)
        back = (back @ layer[:, :-1].transpose(0, 2, 1)) * (into[..., :-1] > 0)
    return found


def _descend(
    layers: list[Any], slopes: list[Any], squares: list[Any], gradient: list[Any], plan: _Plan,
    rate: Any, made: int,
) -> None:  # fmt: skip
    keep = np.where(plan.is_adam, 0.9, plan.momentum).astype(np.float32)
    for layer, slope, square, new in zip(layers, slopes, squares, gradient, strict=True):
        slope[:] = keep * slope + np.where(plan.is_adam, 0.1, 1.0).astype(np.float32) * new
        square[:] = 0.99 * square + 0.01 * new * new
        adam = slope / (1 - 0.9**made) / (np.sqrt(square / (1 - 0.99**made)) + 1e-8)
        step = np.where(plan.is_adam, adam, slope) + plan.decay.astype(np.float32) * layer
        layer -= rate * step


def _judged(layers: Sequence[Any], rows: _Rows) -> tuple[Any, Any]:
    scores = _forward(layers, rows.held_inputs)[-1]
    if rows.is_regression:
        missed = scores - rows.held_classes
        return np.abs(missed).mean(axis=(1, 2)), np.square(missed).mean(axis=(1, 2))
    likely = np.clip(_likely(scores), 1e-7, 1)
    wrong = likely.argmax(axis=-1) != rows.held_classes.argmax(axis=-1)
    return wrong.mean(axis=1), -(np.log(likely) * rows.held_classes).sum(axis=-1).mean(axis=1)


# ---------------------------------------------------------------------------------------- the trees


def _trees(name: str, chance: Chance) -> Any:
    """Loss on the rows held out, after every tree."""
    from sklearn.ensemble import GradientBoostingRegressor

    rows = _rows(name, chance)
    told, held = rows.classes[:, -1], rows.held_classes[:, -1]
    curves = []
    for _ in range(SETTINGS):
        model = GradientBoostingRegressor(
            n_estimators=STEPS, learning_rate=float(np.exp(chance.uniform(-4.5, 0.3))),
            max_depth=int(chance.integers(1, 6)), subsample=float(chance.uniform(0.3, 1)),
            max_features=float(chance.uniform(0.1, 1)), random_state=0,
            min_samples_leaf=int(chance.integers(1, 20)),
        ).fit(rows.inputs, told)  # fmt: skip
        missed = [own - held for own in model.staged_predict(rows.held_inputs)]
        curves.append(np.square(missed).mean(axis=1))
    return np.array(curves)


# ------------------------------------------------------------------------------------ the families


def scheduled_networks() -> list[Task]:
    return _side_by_side("networks", ("digits", "breast_cancer", "diabetes"), hidden=1)


def networks_on_wrong_labels() -> list[Task]:
    return _side_by_side("wrong-labels", ("digits", "breast_cancer", "wine"), hidden=1, wrong=0.25)


def linear_models() -> list[Task]:
    names = ("digits", "breast_cancer", "wine", "iris", "diabetes")
    return _side_by_side("linear", names, hidden=0)[1::2]  # of errors many are the same


def boosted_trees() -> list[Task]:
    names = ("diabetes", "breast_cancer", "wine")
    return [_task(f"trees-{name}", _trees(name, _chance(name))) for name in names]


TRAINED: Mapping[str, Callable[[], list[Task]]] = {
    own.__name__: own
    for own in (scheduled_networks, networks_on_wrong_labels, linear_models, boosted_trees)
}


def _side_by_side(family: str, names: Sequence[str], hidden: int, wrong: float = 0.0) -> list[Task]:
    found = []
    for name in names:
        chance = _chance(f"{family} {name}")
        curves = _networks(_rows(name, chance, wrong), chance, hidden)
        for metric, own in zip(("error", "loss"), curves, strict=True):
            found.append(_task(f"{family}-{name}-{metric}", own))
    return found


def _chance(name: str) -> Chance:
    return np.random.default_rng(list(name.encode()))


def _task(name: str, curves: Any) -> Task:
    """What diverged is as bad as half as much again as the worst beginning."""
    fine = np.isfinite(curves) & (np.abs(curves) < _WORST)
    worst = 1.5 * np.max(curves[:, 0], where=fine[:, 0], initial=0.1)
    return Task(name, tuple(_row(row) for row in np.where(fine, np.minimum(curves, worst), worst)))


def _row(values: Any) -> Curve:
    return tuple(float(value) for value in values)
