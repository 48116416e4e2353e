"""A small network learns a spiral: one of the demo's jobs. Run as a script of its own.

It knows nothing of being preempted: it is stopped and goes on wherever it happens to be.
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

from dovetail import sdk

HIDDEN, CLASSES, BATCH, RATE = 128, 3, 512, 0.2
TELL_EVERY = 20


def train(steps: int, seed: int) -> float:
    """The loss after so many steps."""
    chance = np.random.default_rng(seed)
    into = chance.normal(0, 1, (2, HIDDEN))
    bias = np.zeros(HIDDEN)
    out = chance.normal(0, 0.1, (HIDDEN, CLASSES))
    loss = 0.0
    for step in range(1, steps + 1):
        points, arms = spiral(chance)
        hidden = np.maximum(0, points @ into + bias)
        scores = np.exp(hidden @ out)
        odds = scores / scores.sum(1, keepdims=True)
        rows = np.arange(BATCH)
        loss = float(-np.log(odds[rows, arms]).mean())
        odds[rows, arms] -= 1
        back = (odds @ out.T) * (hidden > 0)
        out -= RATE * hidden.T @ odds / BATCH
        into -= RATE * points.T @ back / BATCH
        bias -= RATE * back.mean(0)
        if step % TELL_EVERY == 0 or step == steps:
            sdk.report(step, loss=loss, steps=steps)
    return loss


def spiral(chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on three arms of a spiral, and the arm of each."""
    arms = chance.integers(CLASSES, size=BATCH)
    radius = chance.random(BATCH)
    angle = 4 * radius + arms * 2 * np.pi / CLASSES + chance.normal(0, 0.1, BATCH)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), arms


def steps_a_second(for_s: float = 0.5) -> float:
    """How fast this machine trains."""
    train(20, 0)
    began, steps = perf_counter(), 0
    while perf_counter() - began < for_s:
        train(20, 0)
        steps += 20
    return steps / (perf_counter() - began)


if __name__ == "__main__":
    final = train(int(sys.argv[1]), int(sys.argv[2]))
    print(f"after {sys.argv[1]} steps the loss is {final:.3f}")
