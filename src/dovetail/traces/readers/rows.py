"""From the lines of a file to arrivals; every bad row is reported or, on request, skipped."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TextIO, TypeVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.models.epochs import Training
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import CellError, Header, Read, Row, clipped, header_of
from dovetail.traces.readers.cells import seconds as plain_seconds
from dovetail.traces.readers.text_files import opened

T = TypeVar("T")
LONGEST_HEADER = 1_000_000  # characters; a file with a longer first line is no table
DELIMITERS = ",;\t"


class TimeReader:
    """Parses the times of one file. The first one decides for all whether they are dates."""

    def __init__(self) -> None:
        self.dated = False
        self.seconds: Callable[[str], Seconds] = self._first

    def __call__(self, text: str) -> Seconds:
        return self.seconds(text)

    def _first(self, text: str) -> Seconds:
        try:
            float(text)
        except ValueError:
            since_epoch = dates()
            value = since_epoch(text)  # may refuse: then the next one decides
            self.dated, self.seconds = True, since_epoch
            return value
        value = plain_seconds(text)
        self.seconds = plain_seconds
        return value


def dates() -> Callable[[str], Seconds]:
    """Seconds since 1970 of `2017-10-09 07:01:55`; local times are read without a time zone."""
    from datetime import UTC, datetime

    local_epoch, epoch = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)

    def seconds(text: str) -> Seconds:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("is not a time: give seconds, or 2024-05-31 18:30:00") from None
        return (when - (epoch if when.tzinfo else local_epoch)).total_seconds()

    return seconds


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a format besides the header: `durations`, `training` and `part` matter to Pollux
    only, `speeds` to Gavel, `lacking` (required columns that may be absent or useless, and are then 0)
    to our own."""

    clock: TimeReader = field(default_factory=TimeReader)
    durations: Mapping[str, Seconds] | None = None
    part: str | None = None
    speeds: SpeedTable | None = None
    training: Training | None = None
    notes: list[str] = field(default_factory=list)
    lacking: tuple[str, ...] = ()


MakeArrival = Callable[[Row, int], Arrival | None]  # None: a row of another part of the file


class TraceReader(Protocol):
    """A trace format: a frozen dataclass whose fields are its parameters.

    It may have `has_parts` (`file.csv#2` names a part of a file) and `tells_of_columns` (remarks of
    the table about unknown keys are reported).
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which the format is recognised."""

    def read(self, header: Header, context: Context) -> MakeArrival:
        """The function that makes an arrival of a row (its cells, its number from 1). It raises
        ValueError for a bad row, and BadInput for a file that it cannot read at all."""


@dataclass(slots=True)
class Complaints:
    """Errors of rows: raised at once, or kept if bad rows are to be skipped."""

    source: str
    skip: bool
    messages: list[str] = field(default_factory=list)

    def add(self, line: int, why: str) -> None:
        message = f"{self.source}:{line}: {why}"
        if not self.skip:
            raise BadInput(message)
        self.messages.append(message)


class Table(Protocol):
    """Rows of text under a header; `line` is where the latest row ended."""

    @property
    def header(self) -> Header: ...

    @property
    def line(self) -> int: ...

    def rows(self, complaints: Complaints) -> Iterator[Row]: ...

    def notes(self) -> list[str]: ...


class CsvTable:
    """Comma-, semicolon- or tab-separated. Blank and # lines before the header are skipped."""

    def __init__(self, source: str, first: str, skipped: int, rest: Iterable[str]) -> None:
        delimiter = max(DELIMITERS, key=first.count)
        # strict: an unclosed quote is an error, it does not swallow the rest of the file
        self._reader = csv.reader(chain([first], rest), delimiter=delimiter, strict=True)
        self._skipped = skipped
        try:
            self.header = header_of(source, next(self._reader))
        except csv.Error as error:
            raise BadInput(f"{source}:{self.line}: {error}") from None

    @property
    def line(self) -> int:
        return self._skipped + self._reader.line_num

    def rows(self, complaints: Complaints) -> Iterator[Row]:
        while True:
            try:
                yield from filter(None, self._reader)
                return
            except csv.Error as error:  # the reader goes on with the next line
                complaints.add(self.line, str(error))

    def notes(self) -> list[str]:
        return []  # its header has all there is to say


def first_line(source: str, text: TextIO) -> tuple[str, int]:
    """The first line that is neither blank nor a comment, and the number of lines before it."""
    skipped = 0
    while line := text.readline(LONGEST_HEADER):
        if len(line) == LONGEST_HEADER:
            raise BadInput(
                f"{source}: the first line is {LONGEST_HEADER:,} characters long; not a table"
            )
        if line.strip() and not line.startswith("#"):
            return line, skipped
        skipped += 1
    raise BadInput(f"{source} is empty")


def collect(table: Table, make: MakeArrival, complaints: Complaints) -> list[Arrival]:
    """Every good row as an arrival, in the order of the file."""
    arrivals: list[Arrival] = []
    seen: set[str] = set()
    width = len(table.header.names)
    for number, row in enumerate(table.rows(complaints), 1):
        try:
            arrival = make(row if len(row) == width else fitted(row, width), number)
            if arrival is None:
                continue
            if arrival.job.id in seen:
                raise CellError(f"job id {clipped(arrival.job.id)!r} was used by an earlier row")
        except ValueError as error:
            if any(map(str.strip, row)):  # spreadsheets leave rows of empty cells behind
                complaints.add(table.line, str(error))
            continue
        seen.add(arrival.job.id)
        arrivals.append(arrival)
    return arrivals


def each(source: str, reader: Callable[[Header], Read[T]]) -> Iterator[tuple[int, T]]:
    """Every row of a small CSV as a value, with its line; the first bad row raises."""
    complaints = Complaints(source, skip=False)
    with opened(source) as text:
        table = CsvTable(source, *first_line(source, text), text)
        read, width = reader(table.header), len(table.header.names)
        for row in table.rows(complaints):
            try:
                value = read(fitted(row, width))
            except ValueError as error:
                if any(map(str.strip, row)):
                    complaints.add(table.line, str(error))
            else:
                yield table.line, value


def fitted(row: Row, width: int) -> Row:
    """The row without empty cells beyond the header; any other difference is a bad row."""
    if len(row) < width or any(map(str.strip, row[width:])):
        raise CellError(f"the row has {len(row)} cells, the header {width}")
    return row[:width]
