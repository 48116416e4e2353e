"""The prior fitted to states by maximum likelihood: a softmax over the trials of each state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import cos, pi
from typing import Any, TypeAlias

import numpy as np

from dovetail.tune.extrapolation import SIGNS

from .states import States

HIDDEN = 16
# What a weight's square costs: large ones fit the draws and not the tasks.
_SHRUNK = {"plain": 1e-3, "maturing": 1e-3, "inner": 5e-4, "outer": 5e-4}
_BATCH = 256
_RATE = 4e-3
_SMALL = 1e-2  # beside the size of a sign, so that one that is never told gets no huge weight
_MATURITY = SIGNS.index("maturity")
Weights: TypeAlias = dict[str, Any]


def at_first() -> Mapping[str, Any]:
    """By rank alone, now and as projected: what the first round of replays is run with."""
    plain, maturing = dict.fromkeys(SIGNS, 0.0), dict.fromkeys(SIGNS, 0.0)
    plain |= {"beaten": -0.6, "lower": -0.4}
    maturing |= {"lower": -0.5, "outlook": -0.7}
    return {
        "signs": list(SIGNS),
        "unseen": -2.4,
        "plain": list(plain.values()),
        "maturing": list(maturing.values()),
        "hidden": [[0.0] * (len(SIGNS) + 2)],
    }


def fitted(states: States, epochs: int, seed: int = 0) -> Mapping[str, Any]:
    """The prior, in the form of prior.json, under which what happened was likeliest."""
    random = np.random.default_rng(seed)
    size = _sizes(states)
    weights = _random_weights(random)
    adam = _Adam(weights)
    for epoch in range(epochs):
        rate = _RATE * ((1 + cos(pi * epoch / epochs)) / 2 + 0.01)
        order = random.permutation(len(states))
        for begin in range(0, len(order), _BATCH):
            gradient = _gradient(weights, states, order[begin : begin + _BATCH], size)
            for name, cost in _SHRUNK.items():
                gradient[name] += 2 * cost * weights[name]
            adam.descend(gradient, rate)
    return _told(weights, size)


def _sizes(states: States) -> Any:
    """Of each sign: the root of its mean square."""
    signs = states.signs[states.seen & states.eligible]
    return np.sqrt(np.square(signs).mean(axis=0)) + np.float32(_SMALL)


def _random_weights(random: np.random.Generator) -> Weights:
    signs = len(SIGNS)
    weights = {
        "plain": np.zeros(signs),
        "maturing": np.zeros(signs),
        "unseen": np.array(-2.4),
        "inner": random.normal(0, 0.8 / np.sqrt(signs), (signs, HIDDEN)),
        "bias": np.zeros(HIDDEN),
        "outer": np.zeros(HIDDEN),
    }
    return {name: values.astype(np.float32) for name, values in weights.items()}


def _gradient(weights: Weights, states: States, rows: Any, size: Any) -> Weights:
    """Of the mean of -log(likelihood) of these states."""
    signs, seen, eligible = states.signs[rows], states.seen[rows], states.eligible[rows]
    maturity, signs = signs[:, :, _MATURITY], signs / size
    hidden = np.tanh(signs @ weights["inner"] + weights["bias"])
    odds = signs @ weights["plain"] + signs @ weights["maturing"] * maturity
    odds = np.where(seen, odds + hidden @ weights["outer"], weights["unseen"])
    likely = _softmax(np.where(eligible, odds, -np.inf))
    right = likely * states.best[rows]
    right /= right.sum(axis=1, keepdims=True) + 1e-12
    missed = (likely - right) / len(rows)
    own = (missed * seen).astype(np.float32)
    into = own[:, :, None] * weights["outer"] * (1 - np.square(hidden))
    flat = signs.reshape(-1, signs.shape[2])
    return {
        "plain": own.reshape(-1) @ flat,
        "maturing": (own * maturity).reshape(-1) @ flat,
        "unseen": (missed * ~seen).sum(dtype=np.float32),
        "inner": flat.T @ into.reshape(-1, HIDDEN),
        "bias": into.sum(axis=(0, 1)),
        "outer": own.reshape(-1) @ hidden.reshape(-1, HIDDEN),
    }


def _softmax(odds: Any) -> Any:
    shares = np.exp(odds - odds.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


class _Adam:
    """Descent with a step of its own for each weight (Kingma and Ba, 2015)."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._mean = {name: np.zeros_like(values) for name, values in weights.items()}
        self._square = {name: np.zeros_like(values) for name, values in weights.items()}
        self._steps = 0

    def descend(self, gradient: Weights, rate: float) -> None:
        self._steps += 1
        for name, slope in gradient.items():
            self._mean[name] += 0.1 * (slope - self._mean[name])
            self._square[name] += 0.001 * (np.square(slope) - self._square[name])
            mean = self._mean[name] / (1 - 0.9**self._steps)
            square = self._square[name] / (1 - 0.999**self._steps)
            self._weights[name] -= rate * mean / (np.sqrt(square) + 1e-8)


def _told(weights: Weights, size: Any) -> Mapping[str, Any]:
    """For signs as they come."""
    hidden = np.column_stack(
        [(weights["inner"] / size[:, None]).T, weights["bias"], weights["outer"]]
    )
    return {
        "signs": list(SIGNS),
        "unseen": float(weights["unseen"]),
        "plain": (weights["plain"] / size).tolist(),
        "maturing": (weights["maturing"] / size).tolist(),
        "hidden": hidden.tolist(),
    }


def averaged(priors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Their mean: the hidden units of all, each with its part of the say."""
    mean = {
        name: np.mean([own[name] for own in priors], axis=0).tolist()
        for name in ("unseen", "plain", "maturing")
    }
    hidden = [[*inner, outer / len(priors)] for own in priors for *inner, outer in own["hidden"]]
    return {"signs": list(SIGNS), **mean, "hidden": hidden}


def written(prior: Mapping[str, Any]) -> str:
    """As the file has it: four digits, a line for each list."""

    def short(values: Sequence[float]) -> str:
        return json.dumps([float(f"{value:.4g}") for value in values])

    hidden = ",\n  ".join(map(short, prior["hidden"]))
    return (
        f'{{\n "signs": {json.dumps(prior["signs"])},\n "unseen": {prior["unseen"]:.4g},\n'
        f' "plain": {short(prior["plain"])},\n "maturing": {short(prior["maturing"])},\n'
        f' "hidden": [\n  {hidden}\n ]\n}}\n'
    )
