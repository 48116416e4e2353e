"""A table of speeds like Gavel's, made up: a small GPU, a middle one and a large one."""

from __future__ import annotations

from pathlib import Path

from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, plain
from dovetail.predict.similarity import known_models

GAVEL = Path(__file__).parents[2] / "shared/data/gavel"
BATCHES = {
    "ResNet-18": (16, 64, 256),
    "ResNet-50": (16, 32, 64),
    "Transformer": (16, 64, 256),
    "LM": (5, 20, 80),
    "Recommendation": (512, 2048, 8192),
    "A3C": (0,),
    "CycleGAN": (0,),
}
# Seconds that a layer takes at least, and GFLOP a second; large GPUs pay on convolutions most.
KINDS = {"k80": (2.0e-4, 1.5e3, 1.0), "p100": (1.1e-4, 5.0e3, 1.4), "v100": (0.9e-4, 8.0e3, 1.8)}


def speed(model: ModelType, kind: str) -> float:
    known = known_models()[model.model]
    least_s, rate, convolving = KINDS[kind]
    if known.family == "convolution":
        rate *= convolving
    work = 3.0 * known.gflop_per_sample * (model.batch or known.batch) / known.layers
    return 1.0 / (known.layers * (least_s + work / rate))


def made_up_table() -> SpeedTable:
    types = [ModelType(plain(name), batch) for name, sizes in BATCHES.items() for batch in sizes]
    return SpeedTable(
        {
            model: {
                Hardware(kind, gpus): speed(model, kind) * gpus**0.9
                for kind in KINDS
                for gpus in (1, 2, 4)
            }
            for model in types
        }
    )
