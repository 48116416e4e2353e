"""A folder of speeds, as ElasticFlow has them: a file a model, a row a batch, a column a number of
GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from pathlib import Path

from dovetail.core.errors import BadInput
from dovetail.models.speed_table import Hardware, ModelType, plain
from dovetail.traces.readers.cells import Header, Read, Row, column, whole
from dovetail.traces.readers.rows import each

BATCH = "global_batch_size"


def folder_rows(folder: Path) -> Iterator[tuple[ModelType, Hardware, float]]:
    """The GPU kind is what the folder's name ends with: `throughputs_T4`."""
    kind = plain(folder.name.rpartition("_")[2])
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise BadInput(f"{folder} has no tables of speeds: no file ends with .csv")
    for file in files:
        for _, rows in each(str(file), _row):
            for batch, gpus, speed in rows:
                yield ModelType(plain(file.stem), batch), Hardware(kind, gpus), speed


def _row(header: Header) -> Read[list[tuple[int, int, float]]]:
    counts = [name for name in header.names if name.isdecimal()]
    if BATCH not in header or not counts:
        raise BadInput(
            f"{header.source} is no table of ElasticFlow; give the columns {BATCH},1,2,4 and so on"
        )
    batch = column(header, BATCH, whole)
    speeds = {int(name): column(header, name, _speed) for name in counts}

    def measured(row: Row) -> list[tuple[int, int, float]]:
        return [(batch(row), gpus, speed(row)) for gpus, speed in speeds.items()]

    return measured


def _speed(text: str) -> float:
    """0: not measured."""
    found = float(text)
    if found < 0:
        raise ValueError("is below 0")
    return 0.0 if isnan(found) else found
