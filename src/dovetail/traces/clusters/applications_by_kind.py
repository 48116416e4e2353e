"""Sia's tables of applications: a folder for each, with placements and scalability by GPU kind.

`NAME/placements-KIND.csv`, `NAME/scalability-KIND.csv` and `NAME/validation-BATCH.csv`, as in the
folder `traces` of its simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from glob import glob
from os.path import basename, exists, isdir, join
from typing import Final, TypeVar

from dovetail.core.errors import BadInput
from dovetail.models.applications import Application
from dovetail.models.epochs import KindTables
from dovetail.traces.clusters.applications import (
    EpochRow,
    StepRow,
    application_of,
    counts_named,
    time_of,
)
from dovetail.traces.readers.cells import Header, Read, Row, column, number, whole
from dovetail.traces.readers.rows import each

# What its simulator has in its program and not in its tables.
_LOCAL_MOST: Final = {("deepspeech2", "rtx"): 57}
_RESTART_S: Final = {
    "cifar10": 50.0, "deepspeech2": 25.0, "bert": 120.0, "yolov3": 80.0, "imagenet": 250.0, "ncf": 15.0,
}  # fmt: skip
_SLOWDOWN: Final = {"cifar10": 1.8, "ncf": 1.5}
_USUAL_SLOWDOWN: Final = 1.2

T = TypeVar("T")


def is_by_kind(folder: str) -> bool:
    return bool(glob(join(folder, "*", "placements-*.csv")))


def read_by_kind(folder: str, kinds: Sequence[str]) -> KindTables:
    """Of every application that was measured on all of these kinds."""
    names = sorted([basename(own) for own in glob(join(folder, "*")) if isdir(own)])
    found = {name: _on_kinds(folder, name, kinds) for name in names}
    every = {name: own for name, own in found.items() if own is not None}
    if not every:
        raise BadInput(
            f"--applications {folder} has no application that was measured on {', '.join(kinds)}; "
            "name the GPU kinds of --cluster as its files do, such as 6x4:aws+3x8:rtx"
        )
    slowdowns = {name: _SLOWDOWN.get(name, _USUAL_SLOWDOWN) for name in every}
    return KindTables(every, slowdowns, {n: s for n, s in _RESTART_S.items() if n in every})


def _on_kinds(folder: str, name: str, kinds: Sequence[str]) -> Mapping[str, Application] | None:
    curves = _curves(folder, name)
    placed = {kind: _rows(folder, name, f"placements-{kind}", _placed(name)) for kind in kinds}
    if not curves or not all(placed.values()):
        return None
    return {
        kind: application_of(
            name,
            placed[kind],
            _rows(folder, name, f"scalability-{kind}", _scaled(name)),
            curves,
            _LOCAL_MOST.get((name, kind), max([row.local for row in placed[kind]])),
        )
        for kind in kinds
    }


def _rows(folder: str, name: str, table: str, reader: Callable[[Header], Read[T]]) -> list[T]:
    """None where there is no such file."""
    file = join(folder, name, f"{table}.csv")
    return [row for _, row in each(file, reader)] if exists(file) else []


def _placed(name: str) -> Callable[[Header], Read[StepRow]]:
    def reader(header: Header) -> Read[StepRow]:
        counts, local = (
            column(header, "placement", counts_named),
            column(header, "local_bsz", whole),
        )
        time = time_of(header)

        def read(row: Row) -> StepRow:
            where = counts(row)
            return StepRow(name, where, len(where), sum(where), local(row), time(row))

        return read

    return reader


def _scaled(name: str) -> Callable[[Header], Read[StepRow]]:
    def reader(header: Header) -> Read[StepRow]:
        nodes, gpus = column(header, "num_nodes", whole), column(header, "num_replicas", whole)
        local, time = column(header, "local_bsz", whole), time_of(header)
        return lambda row: StepRow(name, (), nodes(row), gpus(row), local(row), time(row))

    return reader


def _curves(folder: str, name: str) -> list[EpochRow]:
    found: list[EpochRow] = []
    for file in sorted(glob(join(folder, name, "validation-*.csv"))):
        batch = basename(file).removeprefix("validation-").removesuffix(".csv")
        if not batch.isdecimal():
            raise BadInput(f"{file}: name it after a batch size, such as validation-128.csv")
        found += [row for _, row in each(file, _validated(name, int(batch)))]
    return found


def _validated(name: str, batch: int) -> Callable[[Header], Read[EpochRow]]:
    def reader(header: Header) -> Read[EpochRow]:
        fields = ("progress", "iteration", "grad_sqr", "grad_var")
        numbers = [column(header, own, number) for own in fields]
        return lambda row: EpochRow(name, batch, *[read(row) for read in numbers])

    return reader
