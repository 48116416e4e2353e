"""What is known of a model before it runs: a small table of ours, each row with its source."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from dovetail.models.speed_table import plain

FILE: Final = Path(__file__).with_name("known_models.csv")


class KnownModel(NamedTuple):
    name: str
    family: str
    parameters_m: float  # millions
    gflop_per_sample: float  # forward
    layers: int  # those with weights
    batch: int  # the usual size on one GPU
    source: str


@cache
def known_models() -> dict[str, KnownModel]:
    """By every plain name that the model goes by."""
    found: dict[str, KnownModel] = {}
    with open(FILE, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            model = KnownModel(
                row["model"],
                row["family"],
                float(row["parameters_m"]),
                float(row["gflop_per_sample"]),
                int(row["layers"]),
                int(row["batch"]),
                row["source"],
            )
            for name in (row["model"], *row["also"].split(";")):
                if name:
                    found[plain(name)] = model
    return found
