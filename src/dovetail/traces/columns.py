"""The columns of our own format, what else people call them, and typos told from other columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.traces.cells import Header, amount, label, labels, number, whole

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
