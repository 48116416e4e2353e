"""Our own format: CSV or JSON lines with few required columns and many optional ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Interruption, Job, JobId
from dovetail.models.workload import Arrival
from dovetail.traces.cells import (
    Header,
    Read,
    Row,
    amount,
    amounts,
    blank_or,
    column,
    distinct_column,
    shown,
)
from dovetail.traces.columns import ASKED, ESTIMATE, INTERRUPTION, REQUIRED, resolved
from dovetail.traces.rows import Context, MakeArrival

Fields = Sequence[tuple[str, Read[Any]]]


def native(header: Header, context: Context) -> MakeArrival:
    missing = [own for own in REQUIRED if own not in (header := resolved(header))]
    if missing:
        raise BadInput(
            f"{header.source}: there is no column {missing[0]!r} (seen: {shown(header.names)}); "
            "submit_s and duration_s are needed, job_id and gpus are usual"
        )
    job_id = distinct_column(header, "job_id", str.strip) if "job_id" in header else None
    submitted = distinct_column(header, "submit_s", context.clock)
    duration = distinct_column(header, "duration_s", amount)
    asked = _asked(header, context)
    fate = _fate(header, context)

    def arrival(row: Row, row_number: int) -> Arrival:
        own_id = (job_id and job_id(row)) or str(row_number)
        at = submitted(row)  # first, so that it decides whether the file has dates
        wishes = {field: value for field, read in asked if (value := read(row)) is not None}
        job = Job(JobId(own_id), **wishes)
        if not fate:
            return Arrival(at, job, duration(row))
        told = {field: value for field, read in fate if (value := read(row)) is not None}
        return Arrival(at, job, duration(row), **told)

    return arrival


def _asked(header: Header, context: Context) -> Fields:
    """How to read each field of `Job` that the file has; nothing is spent on absent columns."""
    fields: list[tuple[str, Read[Any]]] = [
        (field, column(header, field, blank_or(parse)))
        for field, parse in ASKED.items()
        if field in header
    ]
    if "deadline_s" in header:
        fields.append(("deadline", distinct_column(header, "deadline_s", blank_or(context.clock))))
    if any(part in header for part in ESTIMATE):
        fields.append(("estimate", _estimate(header)))
    if any(part in header for part in INTERRUPTION):
        fields.append(("interruption", _interruption(header)))
    return fields


def _fate(header: Header, context: Context) -> Fields:
    fields: list[tuple[str, Read[Any]]] = []
    if "failures" in header:
        fields.append(("failures", column(header, "failures", blank_or(amounts))))
    if "cancel_s" in header:
        fields.append(("cancel_at", distinct_column(header, "cancel_s", blank_or(context.clock))))
    return fields


def _optional_amount(header: Header, own: str) -> Read[float | None]:
    return column(header, own, blank_or(amount)) if own in header else lambda _: None


def _estimate(header: Header) -> Read[Estimate | None]:
    middle, low, high = (_optional_amount(header, own) for own in ESTIMATE)

    def estimate(row: Row) -> Estimate | None:
        seconds = middle(row)
        return None if seconds is None else Estimate(seconds, low(row), high(row))

    return estimate


def _interruption(header: Header) -> Read[Interruption]:
    save, restore, lost = (_optional_amount(header, own) for own in INTERRUPTION)
    known: dict[tuple[float | None, ...], Interruption] = {}

    def interruption(row: Row) -> Interruption:
        costs = (save(row), restore(row), lost(row))
        if costs not in known:
            at_most = inf if costs[2] is None else costs[2]
            known[costs] = Interruption(costs[0] or 0.0, costs[1] or 0.0, at_most)
        return known[costs]

    return interruption
