"""A small NumPy network learns to read digits: written by many shaky hands, 8 x 8 grey pixels each.

The digits are drawn here: strokes, bent and turned at random on 32 x 32 points, of which every
4 x 4 are counted, as was done for the well-known scanned ones. Each epoch sees new ones, so the
drawing is a part of the work, about half a second on one core; `--examples` makes epochs shorter.
Every run with the same settings gives the same losses to the last bit.

    dovetail tune study.yaml
    python train.py --lr 0.1 --momentum 0.9        # one trial by hand, outside Dovetail
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # before NumPy comes: one core, and the same bits everywhere
)

import numpy as np

from dovetail import sdk

STROKES = {  # each digit as lines through points, x to the right and y down, in [0, 1]
    0: ["50 10 25 25 20 50 25 75 50 90 75 75 80 50 75 25 50 10"],
    1: ["35 30 55 10 55 90"],
    2: ["25 30 40 12 65 12 75 30 65 50 25 90 78 90"],
    3: ["25 18 50 10 72 25 65 45 45 48 70 55 75 75 50 90 25 82"],
    4: ["62 90 62 10 22 65 80 65"],
    5: ["72 12 32 12 28 45 55 42 75 62 65 85 40 90 24 80"],
    6: ["68 12 38 35 25 65 40 90 65 85 72 65 55 52 30 62"],
    7: ["22 12 78 12 45 90", "35 50 65 50"],
    8: ["50 50 28 30 50 10 72 30 50 50 25 70 50 90 75 70 50 50"],
    9: ["72 38 50 50 30 35 40 12 65 12 72 38 65 70 45 90"],
}
FINE, FINER, PIXELS = 32, 96, 8  # points a side: of a drawing, of its stroke template, of an image
CLASSES = len(STROKES)
VALIDATION = 2000
TICK_S = 0.02  # of a pause: who is suspended in it has the rest of it left afterwards


def main() -> None:
    chosen = options().parse_args()
    for epoch, (loss, accuracy) in enumerate(epochs(chosen), 1):
        for _ in range(round(chosen.pause / TICK_S)):
            time.sleep(TICK_S)
        sdk.report(epoch, val_loss=loss, accuracy=accuracy)
        print(f"epoch {epoch:2}  val_loss {loss:.6f}  accuracy {accuracy:.2%}", flush=True)


def epochs(chosen: argparse.Namespace) -> Iterator[tuple[float, float]]:
    """Loss and accuracy on digits never trained with, after each epoch."""
    network = Network(chosen)
    never_seen = digits(VALIDATION, np.random.default_rng(0), chosen.noise)
    for epoch in range(1, chosen.epochs + 1):
        # What an epoch sees depends on its number alone: there is no state of chance to be kept.
        network.train(*digits(chosen.examples, np.random.default_rng(epoch), chosen.noise))
        yield network.judge(*never_seen)


def options() -> argparse.ArgumentParser:
    """The settings that are tuned, and what stays the same for all of them."""
    found = argparse.ArgumentParser()
    found.add_argument("--lr", type=float, default=0.1)
    found.add_argument("--momentum", type=float, default=0.9)
    found.add_argument("--units", type=int, default=64, help="of the hidden layer")
    found.add_argument("--batch", type=int, default=64)
    found.add_argument("--decay", type=float, default=1e-5, help="of the weights")
    found.add_argument("--epochs", type=int, default=27)
    found.add_argument("--examples", type=int, default=48_000, help="a new set of them each epoch")
    found.add_argument("--pause", type=float, default=0.0, help="seconds an epoch is longer by")
    found.add_argument("--noise", type=float, default=0.15, help="in every pixel")
    return found


# ------------------------------------------------------------------------------------- the digits


@cache
def templates() -> np.ndarray:
    """Each digit as bits: where the pen was."""
    side = (np.arange(FINER) + 0.5) / FINER
    at = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    drawn = np.zeros((CLASSES, len(at)), bool)
    for digit, lines in STROKES.items():
        for line in lines:
            points = np.array(line.split(), float).reshape(-1, 2) / 100
            for begin, end in pairwise(points):
                along = end - begin
                part = np.clip((at - begin) @ along / (along @ along), 0, 1)
                drawn[digit] |= np.hypot(*(at - begin - part[:, None] * along).T) < 0.055
    return drawn.reshape(-1)


def digits(count: int, rng: np.random.Generator, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """So many images in [0, 1], and what they show."""
    labels = rng.integers(CLASSES, size=count)
    images = np.empty((count, PIXELS * PIXELS), np.float32)
    for first in range(0, count, 500):  # what fits into the cache of a processor
        some = slice(first, min(first + 500, count))
        images[some] = hand_written(labels[some], rng)
    images += rng.normal(0, noise, images.shape).astype(np.float32)
    return images, labels


def hand_written(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turned, stretched, slanted, shifted and bent: for each point of the drawing, where it was."""
    count = len(labels)
    x, y = np.meshgrid(*[(np.arange(FINE, dtype=np.float32) + 0.5) / FINE - 0.5] * 2)
    x, y = x.reshape(1, -1), y.reshape(1, -1)
    angle, wave = rng.normal(0, 0.22, (2, count, 1)).astype(np.float32)
    wide, high = rng.uniform(0.85, 1.5, (2, count, 1)).astype(np.float32)
    right, down, slant = rng.normal(0, 0.06, (3, count, 1)).astype(np.float32)
    cosine, sine = np.cos(angle), np.sin(angle)
    bent = x + 0.3 * wave * np.sin(6 * y + 20 * slant)
    u = wide * (cosine * bent + (sine + slant) * y) + 0.5 + right
    v = high * (cosine * y - sine * bent) + 0.5 + down
    column = np.clip((u * FINER).astype(np.int32), 0, FINER - 1)
    row = np.clip((v * FINER).astype(np.int32), 0, FINER - 1)
    ink = templates()[(labels[:, None] * FINER + row) * FINER + column]
    block = FINE // PIXELS
    return ink.reshape(count, PIXELS, block, PIXELS, block).mean((2, 4)).reshape(count, -1)


# ------------------------------------------------------------------------------------- the network


class Network:
    """A layer of rectified units, then one score a digit; trained by descent with momentum."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        rng = np.random.default_rng(1)
        inputs, units = PIXELS * PIXELS, chosen.units
        self.parameters = [
            rng.normal(0, np.sqrt(2 / inputs), (inputs, units)).astype(np.float32),
            np.zeros(units, np.float32),
            rng.normal(0, np.sqrt(2 / units), (units, CLASSES)).astype(np.float32),
            np.zeros(CLASSES, np.float32),
        ]
        self.speeds = [np.zeros_like(one) for one in self.parameters]

    def train(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        for first in range(0, len(inputs) - self.chosen.batch + 1, self.chosen.batch):
            some = slice(first, first + self.chosen.batch)
            with np.errstate(all="ignore"):  # a bad setting may well end in infinity
                self.step(inputs[some], labels[some])

    def step(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        rate, decay = np.float32(self.chosen.lr), np.float32(self.chosen.decay)
        gradients = self.gradients(inputs, labels)
        for one, speed, gradient in zip(self.parameters, self.speeds, gradients, strict=True):
            speed *= np.float32(self.chosen.momentum)
            speed -= rate * (gradient + decay * one)
            one += speed

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        hidden, back = self.forward(inputs)
        back[np.arange(len(labels)), labels] -= 1
        back /= np.float32(len(labels))
        further = (back @ self.parameters[2].T) * (hidden > 0)
        return [inputs.T @ further, further.sum(0), hidden.T @ back, back.sum(0)]

    def forward(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the hidden layer makes of them, and the chances of each digit."""
        into, bias, out, other_bias = self.parameters
        hidden = np.maximum(inputs @ into + bias, 0)
        scores = hidden @ out + other_bias
        scores = np.exp(scores - scores.max(1, keepdims=True))
        return hidden, scores / scores.sum(1, keepdims=True)

    def judge(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        with np.errstate(all="ignore"):
            chances = self.forward(inputs)[1]
            loss = -np.log(np.maximum(chances[np.arange(len(labels)), labels], 1e-12)).mean()
        return float(loss), float((chances.argmax(1) == labels).mean())


if __name__ == "__main__":
    main()
