"""A small NumPy network learns a spiral. It can be stopped after any step and goes on where it was.

    dovetail submit -- python train_numpy.py --steps 20000

Run by hand it trains just as well: outside Dovetail the SDK does nothing.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from dovetail import sdk

HIDDEN, CLASSES, BATCH, RATE = 64, 3, 128, 0.5


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    weights, first = restored() or (fresh_weights(chosen.seed), 0)
    for step in range(first, chosen.steps):
        # The batch depends on the step alone, so there is no state of chance to be saved.
        inputs, labels = spiral(np.random.default_rng((chosen.seed, step)))
        loss = train_one_step(weights, inputs, labels)
        sdk.report(step, loss=loss)
        sdk.stop_if_asked(lambda done=step + 1: save(weights, done))
    inputs, labels = spiral(np.random.default_rng(chosen.seed))
    accuracy = float((forward(weights, inputs)[1].argmax(1) == labels).mean())
    print(f"after {chosen.steps} steps: {accuracy:.0%} of the points are classified right")


def spiral(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on three arms of a spiral, with some noise, and the arm of each."""
    labels = rng.integers(CLASSES, size=BATCH)
    radius = rng.random(BATCH)
    angle = 4 * radius + labels * 2 * np.pi / CLASSES + rng.normal(0, 0.1, BATCH)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), labels


def fresh_weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "into": rng.normal(0, 1, (2, HIDDEN)),
        "bias": np.zeros(HIDDEN),
        "out": rng.normal(0, 0.1, (HIDDEN, CLASSES)),
    }


def forward(weights: dict[str, np.ndarray], inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(0, inputs @ weights["into"] + weights["bias"])
    scores = np.exp(hidden @ weights["out"])
    return hidden, scores / scores.sum(1, keepdims=True)


def train_one_step(
    weights: dict[str, np.ndarray], inputs: np.ndarray, labels: np.ndarray
) -> np.float64:
    hidden, chances = forward(weights, inputs)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    back = (chances @ weights["out"].T) * (hidden > 0)
    weights["out"] -= RATE * hidden.T @ chances / len(labels)
    weights["into"] -= RATE * inputs.T @ back / len(labels)
    weights["bias"] -= RATE * back.mean(0)
    return loss


def save(weights: dict[str, np.ndarray], step: int) -> None:
    """Written beside the old file and then renamed: there is always one whole checkpoint."""
    draft = sdk.checkpoint_dir() / "draft.npz"
    with draft.open("wb") as file:
        np.savez(file, step=step, **weights)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(draft.with_name("last.npz"))


def restored() -> tuple[dict[str, np.ndarray], int] | None:
    if not (path := sdk.checkpoint_dir() / "last.npz").exists():
        return None
    with np.load(path) as saved:
        weights = {name: saved[name] for name in saved.files if name != "step"}
        return weights, int(saved["step"])


if __name__ == "__main__":
    main()
