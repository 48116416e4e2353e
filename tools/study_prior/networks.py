"""A family of curves that is made here: small networks of scikit-learn on small tasks."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from dovetail.core.errors import BadInput

EPOCHS = 54
SETTINGS = 64
METRICS = ("error", "loss")
_MOST_ROWS = 1500
_TRAINED_ON = 0.67


@dataclass(frozen=True, slots=True)
class _Rows:
    """Inputs (standardised) and what is to be told from them."""

    inputs: Any
    outputs: Any
    are_numbers: bool  # a regression; else classes


def _wine(_random: Any, data: Any) -> Any:
    return data.load_wine(return_X_y=True)


def _diabetes(_random: Any, data: Any) -> Any:
    return data.load_diabetes(return_X_y=True)


def _friedman1(_random: Any, data: Any) -> Any:
    return data.make_friedman1(1500, n_features=12, noise=0.5, random_state=1)


def _friedman2(_random: Any, data: Any) -> Any:
    return data.make_friedman2(1200, noise=10, random_state=2)


def _circles(random: Any, data: Any) -> Any:
    """With four inputs that mean nothing."""
    inputs, classes = data.make_circles(1200, noise=0.15, factor=0.5, random_state=3)
    return np.concatenate([inputs, random.normal(size=(1200, 4))], axis=1), classes


def _shells(_random: Any, data: Any) -> Any:
    return data.make_gaussian_quantiles(n_samples=1500, n_features=8, n_classes=6, random_state=4)


def _hastie(_random: Any, data: Any) -> Any:
    return data.make_hastie_10_2(1500, random_state=5)


def _eight_clusters(_random: Any, data: Any) -> Any:
    return data.make_classification(
        2000, 40, n_informative=25, n_classes=8, n_clusters_per_class=2, class_sep=2.0,
        random_state=6,
    )  # fmt: skip


def _few_of_many(_random: Any, data: Any) -> Any:
    return data.make_classification(
        1500, 100, n_informative=10, n_classes=3, n_clusters_per_class=4, flip_y=0.02,
        random_state=7,
    )  # fmt: skip


def _waves(random: Any, _data: Any) -> Any:
    hidden = random.uniform(-3, 3, (2000, 3))
    waves = np.sin(hidden @ random.normal(size=(3, 20)))
    classes = (np.sin(2 * hidden[:, 0]) + hidden[:, 1] > 0).astype(int) + 2 * (hidden[:, 2] > 0)
    return waves + random.normal(0, 0.3, (2000, 20)), classes


def _saturated(_random: Any, data: Any) -> Any:
    inputs, outputs = data.make_regression(1200, 50, n_informative=20, noise=20, random_state=8)
    return inputs, np.tanh(outputs / outputs.std())


def _parity(random: Any, _data: Any) -> Any:
    bits = random.integers(0, 2, (2000, 16)).astype(float)
    odd = bits[:, :4].sum(axis=1) % 2
    return bits, odd.astype(int) + 2 * (bits[:, 4:9].sum(axis=1) > 2)


# The place of a task decides what chance makes of it, and which half it belongs to.
TASKS: Sequence[Callable[[Any, Any], Any]] = (
    _wine, _diabetes, _friedman1, _friedman2, _circles, _shells,
    _hastie, _eight_clusters, _few_of_many, _waves, _saturated, _parity,
)  # fmt: skip
_OF_NUMBERS = (_diabetes, _friedman1, _friedman2, _saturated)


def _rows(number: int) -> tuple[_Rows, _Rows]:
    """To train on, and to tell the error on."""
    from sklearn import datasets

    random, make = np.random.default_rng([99, number]), TASKS[number]
    inputs, outputs = make(random, datasets)
    chosen = random.permutation(len(outputs))[:_MOST_ROWS]
    inputs, outputs = _standardised(inputs[chosen]), outputs[chosen]
    if make in _OF_NUMBERS:
        outputs = _standardised(outputs)
    cut = int(_TRAINED_ON * len(outputs))
    numbers = make in _OF_NUMBERS
    return (
        _Rows(inputs[:cut], outputs[:cut], numbers),
        _Rows(inputs[cut:], outputs[cut:], numbers),
    )


def _standardised(values: Any) -> Any:
    deviation = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def _network(number: int, setting: int, numbers: bool) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    random = np.random.default_rng([number, setting, 5])
    return (MLPRegressor if numbers else MLPClassifier)(
        hidden_layer_sizes=(int(2 ** random.uniform(3, 7)),) * int(random.integers(1, 3)),
        learning_rate_init=10 ** random.uniform(-4, -0.3),
        solver=("sgd", "adam")[random.integers(2)],
        momentum=random.uniform(0, 0.98),
        alpha=10 ** random.uniform(-6, 0),
        batch_size=int(2 ** random.uniform(5, 8)),
        random_state=setting,
    )


def trained(number: int, setting: int) -> list[tuple[float, float]]:
    """Error and loss after each epoch; no numbers from where it diverged."""
    to_learn, to_tell = _rows(number)
    network = _network(number, setting, to_learn.are_numbers)
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it overflows is part of the curve
        for _ in range(EPOCHS):
            try:
                told.append(_after_an_epoch(network, to_learn, to_tell))
            except ValueError:  # its weights are no finite numbers any more
                told.append((nan, nan))
    return told


def _after_an_epoch(network: Any, to_learn: _Rows, to_tell: _Rows) -> tuple[float, float]:
    if to_learn.are_numbers:
        network.partial_fit(to_learn.inputs, to_learn.outputs)
        missed = network.predict(to_tell.inputs) - to_tell.outputs
        return float(np.abs(missed).mean()), float((missed**2).mean())
    classes = np.unique(to_learn.outputs)
    network.partial_fit(to_learn.inputs, to_learn.outputs, classes=classes)
    odds = np.clip(network.predict_proba(to_tell.inputs), 1e-9, 1)
    odds /= odds.sum(axis=1, keepdims=True)
    error = (classes[odds.argmax(axis=1)] != to_tell.outputs).mean()
    return float(error), float(-np.log(odds[classes == to_tell.outputs[:, None]]).mean())


def make_curves(path: Path, tasks: int, settings: int, pool: Executor) -> Iterator[str]:
    """Write the file, unless it is there; says how far it is."""
    if path.exists():
        return
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise BadInput(
            "the small networks need scikit-learn; install it: pip install 'dovetail[predict]'"
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    with open(partial, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "config", "step", *METRICS))
        for number in range(tasks):
            name = TASKS[number].__name__.strip("_")
            yield f"small networks: {name}, {number + 1} of {tasks}"
            curves = pool.map(trained, [number] * settings, range(settings))
            writer.writerows(_lines(name, curves))
    partial.replace(path)


def _lines(name: str, curves: Iterable[list[tuple[float, float]]]) -> Iterator[list[object]]:
    for setting, curve in enumerate(curves):
        for step, values in enumerate(curve, 1):
            yield [name, setting, step, *values]
