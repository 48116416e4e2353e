"""Our own format: CSV or JSON lines with few required columns and many optional ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Estimate, Interruption, Job, JobId
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
    label,
    labels,
    name,
    number,
    shown,
    whole,
)
from dovetail.traces.rows import Context, MakeArrival

REQUIRED = ("submit_s", "duration_s")


def _share(text: str) -> int:
    """Thousandths as a whole number (`500`), or a part of one as a fraction (`0.5`)."""
    return round(amount(text) * WHOLE_GPU) if "." in text else whole(text)


# Columns that become the field of `Job` with the same name.
ASKED: Mapping[str, Callable[[str], Any]] = {
    "gpus": whole,
    "share": _share,
    "kinds": labels,
    "cpus": amount,
    "memory_gb": amount,
    "user": label,
    "tenant": label,
    "name": label,
    "group": label,
    "model": label,
    "priority": number,
    "weight": amount,
    "min_gpus": whole,
    "max_gpus": whole,
    "retries": whole,
}
ESTIMATE = ("estimate_s", "estimate_low_s", "estimate_high_s")
INTERRUPTION = ("save_s", "restore_s", "lost_s")
COLUMNS = (
    *("job_id", "submit_s", "duration_s"),
    *ASKED,
    *ESTIMATE,
    *INTERRUPTION,
    *("deadline_s", "cancel_s", "failures"),
)

# What people call these columns in files of their own.
ALIASES: Mapping[str, str] = {
    alias: column_name
    for column_name, aliases in {
        "job_id": "id job jobid",
        "submit_s": "submit submitted submitted_at submit_time submit_timestamp submission_time "
        "arrival arrival_s arrival_time created created_at creation_time timestamp time",
        "duration_s": "duration duration_sec duration_seconds runtime runtime_s run_time run_s "
        "elapsed elapsed_s seconds work_s service_time",
        "gpus": "gpu num_gpu num_gpus n_gpu n_gpus ngpus gpu_count gpu_num gpus_requested "
        "requested_gpus",
        "share": "gpu_share gpu_milli",
        "kinds": "kind gpu_kind gpu_kinds gpu_type gpu_types gpu_spec",
        "cpus": "cpu num_cpu num_cpus n_cpus cpu_count",
        "memory_gb": "mem_gb ram_gb",
        "user": "users username user_name user_id owner",
        "tenant": "vc virtual_cluster team project account",
        "name": "job_name",
        "model": "model_name application",
        "estimate_s": "estimate estimated_duration time_limit_s walltime_s",
        "deadline_s": "deadline",
        "cancel_s": "cancel_at cancelled_at",
    }.items()
    for alias in aliases.split()
}


def resolved(header: Header) -> Header:
    """The same header under our names. Unknown columns are passed over, likely typos are not."""
    index: dict[str, int] = {}
    for own in COLUMNS:
        spellings = [name for name in header.index if ALIASES.get(name) == own]
        if own in header:
            index[own] = header.index[own]
        elif len(spellings) == 1:
            index[own] = header.index[spellings[0]]
        elif spellings:
            both = " and ".join(map(repr, spellings))
            raise BadInput(
                f"{header.source}: {both} could each be {own!r}; rename the one you mean"
            )
    _refuse_typos(header, index)
    return Header(header.source, header.names, index)


def _refuse_typos(header: Header, found: Mapping[str, int]) -> None:
    """A `dealine_s` that is silently ignored would cost its owner more than this message."""
    strange = [name for name in header.index if name not in COLUMNS and name not in ALIASES]
    if not strange:
        return
    from difflib import get_close_matches

    for name in strange:
        for meant in get_close_matches(name, [own for own in COLUMNS if own not in found], 1, 0.85):
            raise BadInput(
                f"{header.source}: column {name!r} is not known; did you mean {meant!r}? "
                "Rename it, or remove it if it means something else"
            )


def looks_native(header: Header) -> bool:
    spelled = {ALIASES.get(name, name) for name in header.index}
    return spelled.issuperset(REQUIRED)


def native(header: Header, context: Context) -> MakeArrival:
    missing = [own for own in REQUIRED if own not in (header := resolved(header))]
    if missing:
        raise BadInput(
            f"{header.source}: there is no column {missing[0]!r} (seen: {shown(header.names)}); "
            "submit_s and duration_s are needed, job_id and gpus are usual"
        )
    job_id = distinct_column(header, "job_id", name) if "job_id" in header else None
    submitted = distinct_column(header, "submit_s", context.clock)
    duration = distinct_column(header, "duration_s", amount)
    asked = _asked(header, context)
    fate = _fate(header, context)

    def arrival(row: Row, row_number: int) -> Arrival:
        own_id = job_id(row) if job_id else str(row_number)
        at = submitted(row)  # first, so that it decides whether the file has dates
        wishes = {field: value for field, read in asked if (value := read(row)) is not None}
        job = Job(JobId(own_id), **wishes)
        if not fate:
            return Arrival(at, job, duration(row))
        told = {field: value for field, read in fate if (value := read(row)) is not None}
        return Arrival(at, job, duration(row), **told)

    return arrival


Fields = Sequence[tuple[str, Read[Any]]]


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
