"""A network of NumPy is trained on as many slots as Dovetail gives it, each with a part of every batch:
`python cost_training.py MODEL STEPS`. A step is a few batches; each is printed as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy comes: the slots are ours to use

import numpy as np

Layers = list[np.ndarray]
MODELS = {
    "narrow": (96, 3, 40),
    "middle": (256, 2, 16),
    "wide": (640, 2, 4),
}  # width, depth, batches
INPUTS, BATCH, RATE = 64, 1024, np.float32(0.01)


def main(name: str, steps: int) -> None:
    width, depth, batches = MODELS[name]
    slots = int(os.environ.get("DOVETAIL_GPUS", "1"))
    rng = np.random.default_rng(1)
    sizes = [INPUTS, *[width] * depth, 1]
    layers = [
        (rng.normal(size=(inputs, outputs)) / np.sqrt(inputs)).astype(np.float32)
        for inputs, outputs in pairwise(sizes)
    ]
    inputs = rng.normal(size=(BATCH, INPUTS)).astype(np.float32)
    wanted = np.sin(inputs.sum(1, keepdims=True))
    parts = list(zip(np.array_split(inputs, slots), np.array_split(wanted, slots), strict=True))
    with ThreadPoolExecutor(slots) as pool:
        for step in range(1, steps + 1):
            for _ in range(batches):
                found = list(pool.map(lambda part: gradients(layers, *part), parts))
                for layer, *own in zip(layers, *[one for _, one in found], strict=True):
                    layer -= RATE * sum(own[1:], own[0])
            loss = sum(loss for loss, _ in found)
            print(json.dumps({"step": step, "loss": float(loss)}), flush=True)


def gradients(layers: Layers, inputs: np.ndarray, wanted: np.ndarray) -> tuple[float, Layers]:
    """Of the squared error over this part of the batch."""
    outputs = [inputs]
    for layer in layers[:-1]:
        outputs.append(np.maximum(outputs[-1] @ layer, 0))
    back = (outputs[-1] @ layers[-1] - wanted) / np.float32(BATCH)
    loss = float((back**2).sum()) * BATCH
    found = []
    for layer, output in zip(reversed(layers), reversed(outputs), strict=True):
        found.append(output.T @ back)
        back = (back @ layer.T) * (output > 0)
    return loss, found[::-1]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
