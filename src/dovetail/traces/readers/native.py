"""Our own format: CSV or JSON lines with few required columns and many optional ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Interruption, Job, JobId, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Read,
    Row,
    blank_or,
    clipped,
    column,
    distinct_column,
    duration,
    durations,
    own_text,
)
from dovetail.traces.readers.columns import (
    ASKED,
    ESTIMATE,
    INTERRUPTION,
    REQUIRED,
    in_own_unit,
    missing,
    notes,
    refusal,
    resolved,
)
from dovetail.traces.readers.columns import options as parse_options
from dovetail.traces.readers.rows import Context, MakeArrival

Fields = Sequence[tuple[str, Read[Any]]]


@dataclass(frozen=True)
class NativeTrace:
    """Our own: few columns are needed and many more understood."""

    columns: ClassVar[tuple[str, ...]] = REQUIRED
    tells_of_columns: ClassVar[bool] = True

    def read(self, header: Header, context: Context) -> MakeArrival:
        if set(missing(header)) - set(context.lacking):
            raise BadInput(
                f"{refusal(header)}; submit_s and duration_s are needed, job_id and gpus are usual"
            )
        spelled, header = header, resolved(header)
        context.notes.extend(notes(spelled, header))
        job_id = distinct_column(header, "job_id", own_text) if "job_id" in header else None
        submitted, lasting = _times(header, context)
        asked = _asked(header, context)
        fate = _fate(header, context)

        def arrival(row: Row, row_number: int) -> Arrival:
            own_id = (job_id and job_id(row)) or str(row_number)
            try:
                return made(row, own_id)
            except CellError as error:
                if job_id is None:
                    raise
                raise CellError(f"job {clipped(own_id)!r}: {error}") from None

        def made(row: Row, own_id: str) -> Arrival:
            at = submitted(row)  # first, since it decides whether the file has dates
            wishes = {field: value for field, read in asked if (value := read(row)) is not None}
            if "options" in wishes:
                wishes = _with_usual_option(wishes)
            job = Job(JobId(own_id), **wishes)
            if job.deadline is not None and job.deadline < at:
                raise CellError(f"it is due at {job.deadline:g}, before it comes at {at:g}")
            if not fate:
                return Arrival(at, job, lasting(row))
            told = {field: value for field, read in fate if (value := read(row)) is not None}
            return Arrival(at, job, lasting(row), **told)

        return arrival


def _times(header: Header, context: Context) -> tuple[Read[Seconds], Read[Seconds]]:
    """The submission time and the duration of a job; 0 if the column may be absent."""
    submitted: Read[Seconds] = _zero
    lasting: Read[Seconds] = _zero
    if "submit_s" not in context.lacking:
        submitted = distinct_column(header, "submit_s", context.clock)
    if "duration_s" not in context.lacking:
        lasting = _lasting(header, context, submitted)
    return submitted, lasting


def _zero(_: Row) -> Seconds:
    return 0.0


def _asked(header: Header, context: Context) -> Fields:
    """A parser for each field of `Job` that the file has; absent columns cost nothing."""
    fields: list[tuple[str, Read[Any]]] = [
        (field, column(header, field, blank_or(_converted(header, field, parse))))
        for field, parse in ASKED.items()
        if field in header
    ]
    if "deadline_s" in header:
        fields.append(("deadline", distinct_column(header, "deadline_s", blank_or(context.clock))))
    if any(part in header for part in (*ESTIMATE, "time_limit_s")):
        fields.append(("estimate", _estimate(header)))
    if any(part in header for part in INTERRUPTION):
        fields.append(("interruption", _interruption(header)))
    return fields


def _with_usual_option(wishes: dict[str, Any]) -> dict[str, Any]:
    """The GPUs for policies that do not choose: the fewest that the row and its options allow."""
    options, asked = wishes["options"], wishes.get("kinds")
    known = [option for option in options if not asked or option.kind in asked]
    gpus = wishes.get("gpus") or min([option.gpus for option in known], default=1)
    kinds = asked or tuple(sorted({option.kind for option in known if option.gpus == gpus}))
    return {**wishes, "gpus": gpus, "kinds": kinds}


def _fate(header: Header, context: Context) -> Fields:
    fields: list[tuple[str, Read[Any]]] = []
    if "failures" in header:
        fields.append(("failures", column(header, "failures", blank_or(durations))))
    if "cancel_s" in header:
        fields.append(("cancel_at", distinct_column(header, "cancel_s", blank_or(context.clock))))
    if "cancel_after_s" in header:
        fields.append(("cancel_after_s", _optional_duration(header, "cancel_after_s")))
    return fields


def _converted(header: Header, own: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    convert = in_own_unit(header, own)
    return (lambda text: parse(repr(convert(text)))) if convert else parse


def _lasting(header: Header, context: Context, submitted: Read[Seconds]) -> Read[Seconds]:
    """The duration or, if it is not given, the time until the end, or that of the first option."""
    if "options" not in header:
        return _told(header, context, submitted)
    first = column(header, "options", blank_or(parse_options))
    places = [header.index[name] for name in ("duration_s", "end_s") if name in header]
    told = _told(header, context, submitted) if places else None

    def seconds(row: Row) -> Seconds:
        options = first(row)
        if told is not None and (options is None or any([row[i].strip() for i in places])):
            return told(row)
        if options is None:
            raise CellError("column 'options': is empty, and there is no duration_s")
        return options[0].seconds

    return seconds


def _told(header: Header, context: Context, submitted: Read[Seconds]) -> Read[Seconds]:
    if "duration_s" not in header:
        return _until_end(header, context, submitted)
    parse = in_own_unit(header, "duration_s") or duration
    told = distinct_column(header, "duration_s", parse)
    if "end_s" not in header:
        return told
    until_end = _until_end(header, context, submitted)
    place, end = header.index["duration_s"], header.index["end_s"]
    return lambda row: told(row) if row[place].strip() or not row[end].strip() else until_end(row)


def _until_end(header: Header, context: Context, submitted: Read[Seconds]) -> Read[Seconds]:
    ended = distinct_column(header, "end_s", context.clock)
    label = header.names[header.index["end_s"]]
    optional = blank_or(context.clock)
    started = distinct_column(header, "start_s", optional) if "start_s" in header else None

    def seconds(row: Row) -> Seconds:
        start = started(row) if started else None
        lasted = ended(row) - (submitted(row) if start is None else start)
        if lasted < 0:
            began = "is submitted" if start is None else "starts"
            raise CellError(f"column {label!r}: the job ends {-lasted:g} s before it {began}")
        return lasted

    return seconds


def _optional_duration(header: Header, own: str) -> Read[float | None]:
    if own not in header:
        return lambda _: None
    return column(header, own, blank_or(in_own_unit(header, own) or duration))


def _estimate(header: Header) -> Read[Estimate | None]:
    """Without an estimate, the time limit is the longest duration that the user expects."""
    told = "estimate_s" if "estimate_s" in header else "time_limit_s"
    middle, low, high = (_optional_duration(header, own) for own in (told, *ESTIMATE[1:]))

    def estimate(row: Row) -> Estimate | None:
        seconds = middle(row)
        if seconds is None or (told == "time_limit_s" and not seconds):
            return None
        return Estimate(seconds, low(row), high(row))

    return estimate


def _interruption(header: Header) -> Read[Interruption]:
    save, restore, lost = (_optional_duration(header, own) for own in INTERRUPTION)
    known: dict[tuple[float | None, ...], Interruption] = {}

    def interruption(row: Row) -> Interruption:
        costs = (save(row), restore(row), lost(row))
        if costs not in known:
            at_most = inf if costs[2] is None else costs[2]
            known[costs] = Interruption(costs[0] or 0.0, costs[1] or 0.0, at_most)
        return known[costs]

    return interruption
