"""Reading a trace in any known format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from os import PathLike, fspath
from os.path import exists
from typing import TextIO

from dovetail.catalogue import Catalogue
from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import Seconds
from dovetail.models.epochs import Training
from dovetail.models.speed_table import SpeedTable
from dovetail.models.workload import Arrival
from dovetail.traces.readers import columns, gavel
from dovetail.traces.readers.cells import Header, Read, Row, column, duration, label
from dovetail.traces.readers.rows import (
    Complaints,
    Context,
    CsvTable,
    MakeArrival,
    Table,
    TraceReader,
    collect,
    each,
    first_line,
)
from dovetail.traces.readers.text_files import STDIN, opened
from dovetail.traces.trace import Trace, count_from_first, put_in_order, steps_back

_OWN = "dovetail"
_HERE = "dovetail.traces.readers"
# The first whose columns are all there is taken, so the more particular come first.
BUILTIN: Mapping[str, tuple[str, str]] = {
    "elasticflow": (f"{_HERE}.elasticflow", "ElasticFlowTrace"),
    "muri": (f"{_HERE}.tiresias", "MuriTrace"),
    "tiresias": (f"{_HERE}.tiresias", "TiresiasTrace"),
    "philly": (f"{_HERE}.philly", "PhillyTrace"),
    "gavel": (f"{_HERE}.gavel", "GavelTrace"),
    "gavel-short": (f"{_HERE}.gavel", "GavelShortTrace"),
    "pollux": (f"{_HERE}.pollux", "PolluxTrace"),
    "alibaba-2023": (f"{_HERE}.alibaba", "AlibabaTrace"),
    "dovetail": (f"{_HERE}.native", "NativeTrace"),
}
READERS = Catalogue(
    "trace format", "dovetail catalogue readers", "dovetail.readers", BUILTIN, "read"
)


def make(text: str) -> TraceReader:
    """The reader that the text describes: its name, then `field=value` parts joined by colons."""
    reader: TraceReader = READERS.make(text)
    return reader


def read(
    path: str | PathLike[str],
    format: str | None = None,
    skip_bad_rows: bool = False,
    durations: Mapping[str, Seconds] | None = None,
    speeds: SpeedTable | None = None,
    lacking: tuple[str, ...] = (),
    training: Training | None = None,
) -> Trace:
    """The jobs of a file (or of `-`, standard input), in order of submission.

    `file.csv#2` is workload 2 of a Pollux file; `durations` are its seconds by application.
    `training` says instead what these train. `speeds` turn the steps of a Gavel trace into seconds.
    Required columns named in `lacking` are not read: they are 0 for every job.
    """
    source = fspath(path)
    file, part = _file_and_part(source)
    reader = None if format is None else make(format)
    complaints = Complaints(source, skip_bad_rows)
    context = Context(
        durations=durations, part=part, speeds=speeds, lacking=lacking, training=training
    )
    with opened(file) as text:
        table = _table(file, text)
        format = format or (_OWN if lacking else recognised(table.header))
        reader = reader or make(format)
        if part is not None and not getattr(reader, "has_parts", False):
            raise BadInput(f"{source!r}: a trace of {format} has no parts; name {file!r} alone")
        read_row = _rows_of(reader, format, table.header, context)
        arrivals = collect(table, read_row, complaints)
        told = table.notes() if getattr(reader, "tells_of_columns", False) else []
    if not arrivals:
        raise BadInput(_nothing(source, complaints.messages))
    began_at = count_from_first(arrivals) if context.clock.dated else None
    back = steps_back(arrivals)
    put_in_order(arrivals)
    return Trace(
        arrivals,
        source,
        format,
        bad_rows=tuple(complaints.messages),
        notes=(*context.notes, *told),
        began_at=began_at,
        steps_back=back,
        columns=table.header.names,
        lacking=lacking,
    )


def read_durations(path: str | PathLike[str]) -> dict[str, Seconds]:
    """A CSV with the columns application and seconds."""

    def pair(header: Header) -> Read[tuple[str, Seconds]]:
        application = column(header, "application", label)
        lasting = column(header, "seconds", duration)
        return lambda row: (application(row), lasting(row))

    return dict(found for _, found in each(fspath(path), pair))


def recognised(header: Header) -> str:
    """The name of the format that has these columns. Third-party formats come last: a package does
    not change how files are read that could be read without it."""
    for name in READERS.builtin:
        if _has(header, READERS.find(name).columns):
            return name
    if not columns.missing(header):
        return _OWN
    for name in READERS.added():
        try:
            known = tuple(getattr(READERS.find(name), "columns", ()))
        except BadInput:  # `dovetail catalogue readers` shows the error
            continue
        if known and _has(header, known):
            return name
    raise BadInput(
        f"{columns.refusal(header)}; give your jobs the columns job_id,submit_s,duration_s,gpus, "
        f"or name the format with --format: {', '.join(READERS.names())}"
    )


def _has(header: Header, columns: tuple[str, ...]) -> bool:
    return all(needed in header for needed in columns)


def _rows_of(reader: TraceReader, format: str, header: Header, context: Context) -> MakeArrival:
    """The function that makes arrivals of rows. If a third-party reader raises, that is reported in
    one line."""
    if format.partition(":")[0] in READERS.builtin:
        return reader.read(header, context)
    with _blaming(format, header.source):
        make_arrival = reader.read(header, context)

    def arrival(row: Row, number: int) -> Arrival | None:
        with _blaming(format, header.source):
            return make_arrival(row, number)

    return arrival


@contextmanager
def _blaming(format: str, source: str) -> Iterator[None]:
    try:
        yield
    except (DovetailError, ValueError):  # errors of the file, of a row
        raise
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadInput(f"{source}: the trace format {format!r} failed: {what}") from error


def _file_and_part(source: str) -> tuple[str, str | None]:
    if "#" not in source or source == STDIN or exists(source):
        return source, None
    file, _, part = source.rpartition("#")
    return file, part


def _table(source: str, text: TextIO) -> Table:
    first, skipped = first_line(source, text)
    if first.lstrip().startswith("["):
        raise BadInput(f"{source} is one JSON list; write one object a line (jq -c '.[]' does so)")
    if gavel.without_header(first):
        return CsvTable(source, "\t".join(gavel.COLUMNS), skipped - 1, chain([first], text))
    if not first.lstrip().startswith("{"):
        return CsvTable(source, first, skipped, text)
    from dovetail.traces.readers.jsonlines import JsonTable

    return JsonTable(source, first, skipped, text)


def _nothing(source: str, messages: list[str]) -> str:
    if not messages:
        return f"{source} has no jobs below its header"
    number = "1 is" if len(messages) == 1 else f"{len(messages):,} are"
    return f"{source} has no good row: {number} bad, the first is {messages[0]}"
