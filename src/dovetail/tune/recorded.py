"""Recorded learning curves, read from CSV or parquet.

Our own columns are `task, config, step, value` and perhaps `seconds` (of the step); without `task`
all curves are of one task. The LCBench surrogate and TaskSet are read as they are: a set is
recognised by its columns.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isfinite, nan
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from dovetail.core.errors import BadInput
from dovetail.tune.study import bounded

Curve: TypeAlias = tuple[float, ...]
DIVERGED = 1.5  # times the worst first value of the task
DIRECTIONS = ("min", "max")
_BEGINNING = 4096  # bytes of a file that are enough to recognise it
_MOST_OFFERED = 6  # columns named in a message


@dataclass(frozen=True, slots=True)
class Task:
    """The curves of all configurations of one task: losses (lower is better), all finite."""

    name: str
    curves: tuple[Curve, ...]
    seconds: tuple[Curve, ...] | None = None  # of each step, if recorded

    @property
    def steps(self) -> int:
        return len(self.curves[0])


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a set of curves, and the meaning of its values unless the caller says otherwise."""

    task: str  # empty: all curves are of one task
    config: str
    step: str
    value: str
    direction: str
    elapsed: str = ""  # a column of seconds since the beginning of the trial
    seconds: str = ""  # or of the step alone


OWN = _Layout("task", "config", "step", "value", "min", seconds="seconds")
_LAYOUTS = (
    OWN,
    _Layout("openml_task_id", "config_id", "epoch", "val_accuracy", "max", elapsed="time_s"),
    _Layout("task", "config_id", "step_idx", "valid_loss", "min"),
)
_Columns: TypeAlias = Mapping[str, Sequence[Any]]
_Rows: TypeAlias = dict[str, dict[str, list[tuple[float, float, float]]]]


def read_curves(
    path: str | Path,
    metric: str | None = None,
    direction: str | None = None,
    steps: int | None = None,
    tasks: Sequence[str] = (),
) -> list[Task]:
    """Every task of the file, or those named; curves are cut to `steps` if given."""
    source = str(path)
    read = _table(source)
    layout = _layout(source, read, metric)
    value = metric or layout.value
    seconds = next((name for name in (layout.elapsed, layout.seconds) if name in read.names), "")
    wanted = [layout.task, layout.config, layout.step, value, seconds]
    rows = _grouped(source, layout, value, seconds, read.columns([name for name in wanted if name]))
    _keep_only(rows, tasks, source)
    losses = _to_losses(rows, direction or ("min" if metric else layout.direction))
    elapsed = bool(seconds) and seconds == layout.elapsed
    return [
        _task(f"{source}: task {name!r}", name, configs, losses, steps, bool(seconds), elapsed)
        for name, configs in rows.items()
    ]


def _table(source: str) -> _Csv | _Parquet:
    with open(source, "rb") as file:
        beginning = file.read(_BEGINNING)
    if beginning.startswith(b"PAR1"):
        return _Parquet(source)
    if source.lower().endswith(".parquet"):
        raise BadInput(f"{source}: is not a parquet file; record it again, or give a CSV file")
    if b"\0" in beginning:
        raise BadInput(f"{source}: is neither CSV in UTF-8 nor parquet; give one of these")
    return _Csv(source)


def _layout(source: str, read: _Csv | _Parquet, metric: str | None) -> _Layout:
    names = read.names
    if metric is not None and metric not in names:
        raise BadInput(f"{source}: there is no column {metric!r}; it has {', '.join(names)}")
    without_task = [replace(layout, task="") for layout in _LAYOUTS]
    begun = [
        layout
        for layout in (*_LAYOUTS, *without_task)
        if {layout.task or layout.config, layout.config, layout.step} <= set(names)
    ]
    for layout in begun:
        if metric or layout.value in names:
            return layout
    needed = (OWN.config, OWN.step, metric or OWN.value)
    missing = [name for name in needed if name not in names]
    told = f"{source}: no column {' and no column '.join(map(repr, missing or [OWN.value]))}; "
    values = _perhaps_values(begun[0], read.numeric()) if begun else []
    if values:
        raise BadInput(
            f"{told}name the one with the values: --metric {' or --metric '.join(values)}"
        )
    raise BadInput(
        f"{told}curves have the columns task (or none: all are one task), config, step, value "
        f"and perhaps seconds; this file has {', '.join(names) or 'none'}"
    )


def _perhaps_values(layout: _Layout, numeric: Sequence[str]) -> list[str]:
    """Numeric columns that have no other meaning."""
    known = (layout.task, layout.config, layout.step, layout.elapsed, layout.seconds)
    return [quote(name) for name in numeric if name not in known][:_MOST_OFFERED]


class _Csv:
    """A table as text. Messages count lines as an editor does."""

    def __init__(self, source: str) -> None:
        self._source = source
        with open(source, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            self.names: Sequence[str] = [name.strip() for name in next(reader, [])]
            self._first: Sequence[str] = next(reader, [])

    def numeric(self) -> list[str]:
        """Columns whose first cell is a number."""
        return [
            name for name, cell in zip(self.names, self._first, strict=False) if _is_number(cell)
        ]

    def columns(self, wanted: Sequence[str]) -> _Columns:
        places = [self.names.index(name) for name in wanted]
        columns: list[list[str]] = [[] for _ in wanted]
        with open(self._source, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            next(reader)
            for row in reader:
                if not row:
                    continue
                if len(row) != len(self.names):
                    raise BadInput(
                        f"{self._source}: line {reader.line_num} has {len(row)} cells, but there are "
                        f"{len(self.names)} columns; mend or remove it"
                    )
                for column, place in zip(columns, places, strict=True):
                    column.append(row[place])
        return dict(zip(wanted, columns, strict=True))


class _Parquet:
    """A table in Apache Parquet; needs the extra `parquet`."""

    def __init__(self, source: str) -> None:
        try:
            from pyarrow import ArrowException, types
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise BadInput(
                f"{source}: reading parquet needs pyarrow; install it: pip install 'dovetail[parquet]'"
            ) from None
        self._source, self._types = source, types
        self._broken = (ArrowException, OSError)
        try:
            self._file = ParquetFile(source)
        except self._broken as error:
            raise self._complaint(error) from None
        self.names: Sequence[str] = self._file.schema_arrow.names

    def _complaint(self, error: Exception) -> BadInput:
        told = " ".join(str(error).split())
        return BadInput(f"{self._source}: is no parquet that can be read ({told})")

    def numeric(self) -> list[str]:
        is_whole, is_real = self._types.is_integer, self._types.is_floating
        return [
            own.name for own in self._file.schema_arrow if is_whole(own.type) or is_real(own.type)
        ]

    def columns(self, wanted: Sequence[str]) -> _Columns:
        try:
            table = self._file.read(columns=list(wanted))
        except self._broken as error:
            raise self._complaint(error) from None
        return {name: table[name].to_pylist() for name in wanted}


def _grouped(source: str, layout: _Layout, value: str, seconds: str, columns: _Columns) -> _Rows:
    """task → config → (step, value, seconds); tasks and configurations in order of appearance."""
    steps = _numbers(source, layout.step, columns[layout.step], missing=None)
    values = _numbers(source, value, columns[value], missing=nan)
    times: Sequence[float] = [0.0] * len(steps)
    if seconds:
        times = _numbers(source, seconds, columns[seconds], missing=None)
    tasks = columns[layout.task] if layout.task else [Path(source).stem] * len(steps)
    rows: _Rows = {}
    for task, config, step, told, time in zip(
        tasks, columns[layout.config], steps, values, times, strict=True
    ):
        rows.setdefault(str(task), {}).setdefault(str(config), []).append((step, told, time))
    if not rows:
        raise BadInput(f"{source}: there are columns but no rows; record some curves first")
    return rows


def _numbers(source: str, name: str, cells: Sequence[Any], missing: float | None) -> list[float]:
    """A column as numbers; an empty cell is `missing`, or an error where a number is required."""
    numbers = []
    for row, cell in enumerate(cells, 1):
        if cell is None or cell == "":
            if missing is None:
                raise BadInput(f"{source}: row {row}: {name!r} is empty; give a number")
            numbers.append(missing)
            continue
        try:
            number = float(cell)
        except (TypeError, ValueError):
            raise BadInput(
                f"{source}: row {row}: {name!r} is {cell!r}, which is not a number; give one, "
                "or leave it empty where training diverged"
            ) from None
        if missing is None and not isfinite(number):
            raise BadInput(f"{source}: row {row}: {name!r} is {cell!r}; give a finite number")
        numbers.append(number)
    return numbers


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _keep_only(rows: _Rows, tasks: Sequence[str], source: str) -> None:
    for name in tasks:
        if name not in rows:
            known = ", ".join(list(rows)[:8]) + (", …" if len(rows) > 8 else "")
            raise BadInput(f"{source}: there is no task {name!r}; it has {known}")
    for name in [name for name in rows if tasks and name not in tasks]:
        del rows[name]


@dataclass(frozen=True, slots=True)
class _Losses:
    """How a value becomes a loss: unchanged, or its distance from the top."""

    top: float | None

    def __call__(self, value: float) -> float:
        if not isfinite(value):
            return inf
        return bounded(value if self.top is None else self.top - value)


def _to_losses(rows: _Rows, direction: str) -> _Losses:
    """The top of a share is 1 and of a percentage 100; otherwise it is the largest value."""
    if direction == "min":
        return _Losses(None)
    told = [row[1] for task in rows.values() for config in task.values() for row in config]
    finite = [value for value in told if isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if low < 0 or high > 100:
        return _Losses(high)
    return _Losses(1.0 if high <= 1 else 100.0)


def _task(
    where: str,
    name: str,
    configs: Mapping[str, list[tuple[float, float, float]]],
    losses: _Losses,
    steps: int | None,
    timed: bool,
    elapsed: bool,
) -> Task:
    length = _length(where, {config: len(rows) for config, rows in configs.items()}, steps)
    curves: list[list[float]] = []
    seconds: list[Curve] = []
    for config, rows in configs.items():
        rows.sort(key=lambda row: row[0])
        for (before, *_), (after, *_) in pairwise(rows):
            if before == after:
                raise BadInput(
                    f"{where}: configuration {config} has step {before:g} twice; keep one of them, "
                    "or tell tasks apart by a column 'task'"
                )
        curves.append([losses(value) for _, value, _ in rows[:length]])
        seconds.append(_durations([time for _, _, time in rows[:length]], elapsed))
    return Task(name, _finite(where, curves), tuple(seconds) if timed else None)


def _length(where: str, lengths: Mapping[str, int], steps: int | None) -> int:
    """The length of all curves; each must be as long as asked for, or as the longest."""
    longest = max(lengths.values())
    short = min(lengths, key=lengths.__getitem__)
    if lengths[short] >= (steps or longest):
        return steps or longest
    if lengths[short] == longest:
        raise BadInput(
            f"{where} has {longest} steps, fewer than --steps {steps}; give at most {longest}"
        )
    asked = f", fewer than --steps {steps}" if steps else ""
    raise BadInput(
        f"{where}: configuration {short} has {lengths[short]} steps{asked} and others have up to "
        f"{longest}; cut all to the shortest: --steps {lengths[short]}"
    )


def _durations(times: Sequence[float], elapsed: bool) -> Curve:
    """Seconds of each step. A surrogate's clock may run backwards a little: such a step takes none."""
    if elapsed:
        times = [after - before for before, after in pairwise((0.0, *times))]
    return tuple(max(time, 0.0) for time in times)


def _finite(where: str, curves: Sequence[Sequence[float]]) -> tuple[Curve, ...]:
    """A diverged value is replaced by half as much again as the worst first value."""
    worst = max((curve[0] for curve in curves if isfinite(curve[0])), default=inf)
    if not isfinite(worst):
        raise BadInput(
            f"{where}: no configuration has a finite first value; there is nothing to rank"
        )
    diverged = worst + (DIVERGED - 1.0) * abs(worst)
    return tuple(tuple(loss if isfinite(loss) else diverged for loss in curve) for curve in curves)
