"""Reading a trace in whichever known format it comes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from os import PathLike, fspath
from os.path import exists
from typing import NamedTuple, TextIO

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.models.speed_table import SpeedTable
from dovetail.traces.readers import alibaba, columns, gavel, native, philly, pollux, tiresias
from dovetail.traces.readers.cells import Header, Read, column, duration, label
from dovetail.traces.readers.rows import (
    Complaints,
    Context,
    CsvTable,
    Format,
    Table,
    collect,
    each,
    first_line,
)
from dovetail.traces.readers.text_files import STDIN, opened
from dovetail.traces.trace import Trace, count_from_first, put_in_order, steps_back


class Known(NamedTuple):
    """A format: the columns by which it is recognised, and how its rows are read."""

    columns: tuple[str, ...]
    read: Format


# The first whose columns are all there is taken, so the more particular come first.
FORMATS: Mapping[str, Known] = {
    "muri": Known(tiresias.MURI_COLUMNS, tiresias.tiresias),
    "tiresias": Known(tiresias.COLUMNS, tiresias.tiresias),
    "philly": Known(philly.COLUMNS, philly.philly),
    "gavel": Known(gavel.COLUMNS, gavel.gavel),
    "pollux": Known(pollux.COLUMNS, pollux.pollux),
    "alibaba-2023": Known(alibaba.COLUMNS, alibaba.alibaba),
    "dovetail": Known(columns.REQUIRED, native.native),
}


def read(
    path: str | PathLike[str],
    format: str | None = None,
    skip_bad_rows: bool = False,
    durations: Mapping[str, Seconds] | None = None,
    speeds: SpeedTable | None = None,
    lacking: tuple[str, ...] = (),
) -> Trace:
    """The jobs of a file (or of `-`, standard input), in order of submission.

    `file.csv#2` is workload 2 of a Pollux file; `durations` are its seconds by application. `speeds`
    turn the steps of a Gavel trace into seconds. Needed columns named in `lacking` are not looked at:
    they are 0 for every job.
    """
    source = fspath(path)
    file, part = _file_and_part(source)
    if format is not None and format not in FORMATS:
        raise BadInput(f"there is no trace format {format!r}; known are {', '.join(FORMATS)}")
    complaints = Complaints(source, skip_bad_rows)
    context = Context(durations=durations, part=part, speeds=speeds, lacking=lacking)
    with opened(file) as text:
        table = _table(file, text)
        format = format or ("dovetail" if lacking else recognised(table.header))
        if part is not None and format != "pollux":
            raise BadInput(f"{source!r}: only Pollux workloads have parts; name {file!r} alone")
        make = FORMATS[format].read(table.header, context)
        arrivals = collect(table, make, complaints)
        notes = context.notes + (table.notes() if format == "dovetail" else [])
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
        notes=tuple(notes),
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
    """The name of the format that has these columns."""
    for name, known in FORMATS.items():
        if all(needed in header for needed in known.columns):
            return name
    if not columns.missing(header):
        return "dovetail"
    raise BadInput(
        f"{columns.refusal(header)}; give your jobs the columns job_id,submit_s,duration_s,gpus, "
        f"or name the format with --format: {', '.join(FORMATS)}"
    )


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
