"""Pollux' tables of applications: a folder with placements, scalability and validation curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import fsum
from os.path import exists, isdir, join
from typing import Final, NamedTuple, TypeVar

from dovetail.core.errors import BadInput
from dovetail.models.applications import (
    Application,
    BatchLimits,
    EpochCurves,
    LocalSteps,
    Point,
    ScatteredSteps,
    StepTime,
)
from dovetail.traces.readers.cells import Header, Read, Row, amount, column, given, number, whole
from dovetail.traces.readers.rows import each

# What its simulator has in its program and not in its tables.
_LOCAL_MOST: Final = {"yolov3": 8}
_ONE_GPU: Final = ("ncf",)

T = TypeVar("T")


class StepRow(NamedTuple):
    """A row of the placements, or of the scalability, where the placement is not told."""

    application: str
    counts: tuple[int, ...]
    nodes: int
    gpus: int
    local: int
    time: StepTime


class EpochRow(NamedTuple):
    """A row of the validation curves: the end of an epoch with one batch size."""

    application: str
    batch: int
    progress: float
    iteration: float
    grad_sqr: float
    grad_var: float


def read_applications(folder: str) -> Mapping[str, Application]:
    """By name. The files may be packed (`.csv.gz`)."""
    if not isdir(folder):
        raise BadInput(f"--applications {folder}: there is no such folder")
    placed = _by_application(_rows(folder, "placements", _placed))
    scaled = _by_application(_rows(folder, "scalability", _scaled))
    curves = _by_application(_rows(folder, "validation_curves", _validated))
    missing = sorted(curves.keys() ^ placed.keys())
    if missing:
        raise BadInput(f"{folder}: {missing[0]!r} needs rows in placements and validation_curves")
    return {
        name: application_of(
            name, placed[name], scaled.get(name, []), rows, _most(name, placed[name])
        )
        for name, rows in curves.items()
    }


def _rows(folder: str, name: str, reader: Callable[[Header], Read[T]]) -> list[T]:
    for file in (join(folder, f"{name}.csv"), join(folder, f"{name}.csv.gz")):
        if exists(file):
            return [row for _, row in each(file, reader)]
    raise BadInput(f"--applications {folder} has no {name}.csv; give a folder with Pollux' tables")


R = TypeVar("R", StepRow, EpochRow)


def _by_application(rows: Sequence[R]) -> dict[str, list[R]]:
    found: dict[str, list[R]] = {}
    for row in rows:
        found.setdefault(row.application, []).append(row)
    return found


def _placed(header: Header) -> Read[StepRow]:
    name, counts = column(header, "model", given), column(header, "placement", counts_named)
    local, time = column(header, "local_bsz", whole), time_of(header)

    def read(row: Row) -> StepRow:
        where = counts(row)
        return StepRow(name(row), where, len(where), sum(where), local(row), time(row))

    return read


def _scaled(header: Header) -> Read[StepRow]:
    name, nodes = column(header, "model", given), column(header, "num_nodes", whole)
    gpus, local = column(header, "num_replicas", whole), column(header, "local_bsz", whole)
    time = time_of(header)
    return lambda row: StepRow(name(row), (), nodes(row), gpus(row), local(row), time(row))


def time_of(header: Header) -> Read[StepTime]:
    step, sync = column(header, "step_time", amount), column(header, "sync_time", amount)
    return lambda row: StepTime(step(row), sync(row))


def counts_named(text: str) -> tuple[int, ...]:
    if not text.isdecimal() or "0" in text:
        raise ValueError("is no placement; give a digit for the GPUs of each node, such as 12")
    return tuple(map(int, text))


def _validated(header: Header) -> Read[EpochRow]:
    name, batch = column(header, "model", given), column(header, "batch_size", whole)
    numbers = [
        column(header, own, number) for own in ("progress", "iteration", "grad_sqr", "grad_var")
    ]
    return lambda row: EpochRow(name(row), batch(row), *[read(row) for read in numbers])


def _most(name: str, placed: Sequence[StepRow]) -> int:
    return _LOCAL_MOST.get(name, max([row.local for row in placed]))


def application_of(
    name: str,
    placed: Sequence[StepRow],
    scaled: Sequence[StepRow],
    rows: Sequence[EpochRow],
    local_most: int,
) -> Application:
    curves = _curves(name, rows)
    limits = BatchLimits(
        curves.batches[0], curves.batches[-1], min([row.local for row in placed]), local_most
    )
    return Application(
        name, limits, curves, _local_steps(placed), _scattered(placed, scaled), _between,
        one_gpu=name in _ONE_GPU,
    )  # fmt: skip


def _between(steps: ScatteredSteps) -> Callable[[Point], StepTime | None]:
    from dovetail.traces.clusters.scattered import between  # scipy, which few runs need

    return between(steps)


def _curves(name: str, rows: Sequence[EpochRow]) -> EpochCurves:
    by_batch = {
        batch: list(own)
        for batch, own in groupby(sorted(rows, key=lambda r: r.batch), key=lambda r: r.batch)
    }
    batches = tuple(by_batch)
    epochs = len(by_batch[batches[0]])
    if any(len(own) != epochs for own in by_batch.values()):
        raise BadInput(f"application {name!r}: its batch sizes have unequal numbers of epochs")

    def of(field: str) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(getattr(row, field) for row in own) for own in by_batch.values())

    ends = tuple(map(min, zip(*of("progress"), strict=True)))
    return EpochCurves(batches, of("iteration"), of("grad_sqr"), of("grad_var"), ends)


def _local_steps(placed: Sequence[StepRow]) -> dict[str, LocalSteps]:
    found: dict[str, dict[int, StepTime]] = {}
    for row in placed:
        found.setdefault("".join(map(str, row.counts)), {})[row.local] = row.time
    return {
        where: LocalSteps(tuple(sorted(own)), tuple(own[local] for local in sorted(own)))
        for where, own in found.items()
    }


def _scattered(placed: Sequence[StepRow], scaled: Sequence[StepRow]) -> ScatteredSteps:
    """The means of placements alike, ascending, then the others in the order of the file: which of
    equally good triangulations comes out depends on it."""
    alike: dict[tuple[int, int, int], list[StepTime]] = {}
    for row in placed:
        alike.setdefault((row.nodes, row.gpus, row.local), []).append(row.time)
    points: list[Point] = sorted(alike)
    times = [_mean(alike[point]) for point in sorted(alike)]
    points += [(row.nodes, row.gpus, row.local) for row in scaled]
    times += [row.time for row in scaled]
    return ScatteredSteps(tuple(points), tuple(times))


def _mean(times: Sequence[StepTime]) -> StepTime:
    number = len(times)
    return StepTime(
        fsum([one.step_s for one in times]) / number, fsum([one.sync_s for one in times]) / number
    )
