"""Prices and carbon by the hour: a number, a CSV, or a parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import nan

from dovetail.core.errors import BadInput
from dovetail.models.hourly import HOUR_S, Hourly, of_every_hour
from dovetail.traces.readers.cells import LARGEST_AMOUNT, Header, Read
from dovetail.traces.readers.rows import each

_TIMES = ("hour", "at_s", "timestamp", "time", "datetime", "date")


def read_hourly(text: str, what: str) -> Hourly:
    """A number that never changes, or a file with a column of values and perhaps one of times."""
    try:
        value = float(text)
    except ValueError:
        return of_every_hour(list(_rows(text, what)), f"{what} table {text}")
    if not abs(value) <= LARGEST_AMOUNT:
        raise BadInput(
            f"a {what} of {text} is no number up to {LARGEST_AMOUNT:g}; give one, or name a table "
            "by the hour"
        )
    return Hourly([value], what)


def _rows(path: str, what: str) -> Iterator[tuple[float, float]]:
    rows = _parquet(path) if path.endswith(".parquet") else _csv(path)
    found = False
    for number, (when, value) in enumerate(rows):
        found = True
        yield (number * HOUR_S if when is None else when), value
    if not found:
        raise BadInput(f"{path}: there is no {what} in it; give one for every hour")


def _csv(path: str) -> Iterator[tuple[float | None, float]]:
    def reader(header: Header) -> Read[tuple[float | None, float]]:
        names = [name.strip().lower() for name in header.names]
        time = next((i for i, name in enumerate(names) if name in _TIMES), None)
        value = next(i for i in reversed(range(len(names))) if i != time)

        def read(row: list[str]) -> tuple[float | None, float]:
            when = None if time is None else _seconds(row[time], names[time])
            return when, _number(row[value])

        return read

    for _, row in each(path, reader):
        yield row


def _seconds(text: str, name: str) -> float:
    try:
        return float(text) * (HOUR_S if name == "hour" else 1.0)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a number nor a date such as 2021-01-01 00:00"
        ) from None


def _number(text: str) -> float:
    if not text.strip():
        raise ValueError("the hour has no value; give one for every hour")
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not abs(value) <= LARGEST_AMOUNT:
        raise ValueError(f"{text!r} is no number up to {LARGEST_AMOUNT:g}")
    return value


def _parquet(path: str) -> Iterator[tuple[float | None, float]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise BadInput(
            f"{path}: reading parquet needs pyarrow; pip install 'dovetail[parquet]'"
        ) from None
    try:
        columns = parquet.read_table(path).to_pydict()
    except OSError as error:
        raise BadInput(f"cannot read {path!r}: {error}") from None
    *times, values = columns.values()
    for index, value in enumerate(values):
        when = times[0][index] if times else None
        at = when.timestamp() if isinstance(when, datetime) else when
        if value is not None and abs(value) > LARGEST_AMOUNT:
            raise BadInput(f"{path}: {value} is no number up to {LARGEST_AMOUNT:g}")
        yield at, nan if value is None else value
