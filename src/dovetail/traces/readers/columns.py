"""The columns of our own format, their other common names, and typos told from other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from sys import intern
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Option
from dovetail.traces.readers import cells
from dovetail.traces.spreadsheets import unescaped

REQUIRED = ("submit_s", "duration_s")


def _share(text: str) -> int:
    """A part of a GPU (`0.5`; `1` is a whole one), or, above 1, thousandths of it (`500`)."""
    value = cells.amount(text)
    if value <= 1.0:
        return round(value * WHOLE_GPU)
    if not value.is_integer() or value > WHOLE_GPU:
        raise ValueError("is no share: give part of a GPU, such as 0.5, or thousandths up to 1000")
    return int(value)


def _limit(text: str) -> float | None:
    """None if there is no limit; Slurm and others write 0 for that."""
    return cells.duration(text) or None


def options(text: str) -> tuple[Option, ...]:
    """`V100:1=7200|V100:2=70m`: GPU kind, number, and the duration of the whole job there."""
    return tuple([_option(part.strip()) for part in unescaped(text.strip()).split("|")])


def _option(text: str) -> Option:
    way, equals, time = text.rpartition("=")
    kind, colon, gpus = way.rpartition(":")
    if not (equals and colon and kind.strip()):
        raise ValueError("is no option: give kind, GPUs and time, such as V100:1=7200|V100:2=70m")
    return Option(intern(kind.strip()), cells.whole(gpus), cells.duration(time))


# Columns that become the field of `Job` with the same name.
ASKED: Mapping[str, Callable[[str], Any]] = {
    "gpus": cells.whole,
    "share": _share,
    "kinds": cells.labels,
    "cpus": cells.amount,
    "memory_gb": cells.amount,
    "nodes": cells.whole,
    "user": cells.label,
    "tenant": cells.label,
    "name": cells.label,
    "group": cells.label,
    "model": cells.label,
    "priority": cells.number,
    "weight": cells.amount,
    "min_gpus": cells.whole,
    "max_gpus": cells.whole,
    "retries": cells.whole,
    "time_limit_s": _limit,
    "late_cost_per_s": cells.amount,
    "preemptible": cells.yes,
    "options": options,
}
ESTIMATE = ("estimate_s", "estimate_low_s", "estimate_high_s")
INTERRUPTION = ("save_s", "restore_s", "lost_s")
COLUMNS = (
    *("job_id", "submit_s", "duration_s"),
    *ASKED,
    *ESTIMATE,
    *INTERRUPTION,
    *("deadline_s", "cancel_s", "cancel_after_s", "failures"),
)
ENDS = ("start_s", "end_s")  # only if there is no duration_s

# Names that include a unit, and how such cells become the numbers of our own column.
UNITS: Mapping[str, tuple[str, Callable[[str], float]]] = {
    "gpu_milli": ("share", lambda text: cells.whole(text) / WHOLE_GPU),
    **{
        f"{stem}_{unit}": (own, cells.counted_in(*size))
        for own, stems in {
            "duration_s": ("duration", "runtime", "run_time", "elapsed", "elapsed_time"),
            "estimate_s": ("estimate",),
            "time_limit_s": ("time_limit", "walltime"),
        }.items()
        for units, size in {
            ("ms", "msec", "millis", "milliseconds"): (1.0, 1000.0),
            ("m", "min", "mins", "minutes"): (60.0, 1.0),
            ("h", "hr", "hrs", "hour", "hours"): (3600.0, 1.0),
            ("d", "day", "days"): (86_400.0, 1.0),
        }.items()
        for stem in stems
        for unit in units
    },
}

# Other common names of these columns.
ALIASES: Mapping[str, str] = {
    **{alias: own for alias, (own, _) in UNITS.items()},
    **{
        alias: column_name
        for column_name, aliases in {
            "job_id": "id job jobid",
            "submit_s": "submit submitted submitted_at submit_time submit_timestamp submission_time "
            "arrival arrival_s arrival_time created created_at creation_time timestamp time",
            "duration_s": "duration duration_sec duration_seconds runtime runtime_s run_time run_s "
            "elapsed elapsed_s seconds work_s service_time",
            "start_s": "start started started_at start_time start_timestamp",
            "end_s": "end ended ended_at end_time end_timestamp finish finished finished_at finish_s "
            "finish_time completed_at completion_time",
            "gpus": "gpu num_gpu num_gpus n_gpu n_gpus ngpus gpu_count gpu_num gpus_requested "
            "requested_gpus gpu_requested requested_gpu n_gpu_requested n_gpus_requested "
            "num_gpu_requested num_gpus_requested gpus_req gpu_req req_gpus req_gpu gpus_count",
            "share": "gpu_share",
            "kinds": "kind gpu_kind gpu_kinds gpu_type gpu_types gpu_spec",
            "cpus": "cpu num_cpu num_cpus n_cpus cpu_count",
            "memory_gb": "mem_gb ram_gb",
            "nodes": "num_nodes n_nodes nnodes node_count",
            "user": "users username user_name user_id owner",
            "tenant": "vc virtual_cluster team project account",
            "name": "job_name",
            "model": "model_name application",
            "estimate_s": "estimate estimated_duration",
            "time_limit_s": "walltime_s",
            "deadline_s": "deadline",
            "cancel_s": "cancel_at cancelled_at",
        }.items()
        for alias in aliases.split()
    },
}


def resolved(header: cells.Header) -> cells.Header:
    """The same header under our names. Unknown columns are skipped, likely typos are refused."""
    index: dict[str, int] = {}
    for own in (*COLUMNS, *ENDS):
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
    return cells.Header(header.source, header.names, index)


def _refuse_typos(header: cells.Header, found: Mapping[str, int]) -> None:
    """A `dealine_s` that is silently ignored would cost its owner more than this message."""
    known = {*COLUMNS, *ENDS, *ALIASES}
    strange = [name for name in header.index if name not in known]
    if not strange:
        return
    from difflib import get_close_matches

    for name in strange:
        for meant in get_close_matches(name, [own for own in COLUMNS if own not in found], 1, 0.85):
            raise BadInput(
                f"{header.source}: column {name!r} is not known; did you mean {meant!r}? "
                "Rename it, or remove it if it means something else"
            )


def in_own_unit(header: cells.Header, own: str) -> Callable[[str], float] | None:
    """A parser for a column whose name includes another unit than ours."""
    found = UNITS.get(cells.plain(header.names[header.index[own]]))
    return found[1] if found else None


def missing(header: cells.Header) -> list[str]:
    """The required columns that exist under no name; an end replaces a duration."""
    spelled = {ALIASES.get(name, name) for name in header.index}
    if "end_s" in spelled or "options" in spelled:
        spelled.add("duration_s")
    return [own for own in REQUIRED if own not in spelled]


def refusal(header: cells.Header) -> str:
    """The message that names the missing required column and the columns found."""
    return (
        f"{header.source}: there is no column {' and none '.join(map(repr, missing(header)))} "
        f"(found: {cells.shown(header.names)})"
    )


def notes(header: cells.Header, found: cells.Header) -> list[str]:
    """Notes for the owner of the file: skipped columns, and the consequences."""
    said = []
    for own, place in found.index.items():
        rivals = [name for name in header.index if ALIASES.get(name) == own]
        if own in header and rivals:
            said.append(f"column {header.names[place]} is taken, not {cells.shown(rivals)}")
    if "duration_s" not in found and "end_s" in found:
        since = "start_s" if "start_s" in found else "submit_s"
        waiting = "" if since == "start_s" else ", so they include any waiting"
        said.append(f"durations are end_s less {since}{waiting}")
    known = {*COLUMNS, *ENDS, *ALIASES}
    return said + unused((n for n in header.names if cells.plain(n) not in known), "gpus" in found)


def unused(names: Iterable[str], gpus_known: bool) -> list[str]:
    strange = [name for name in names if name.strip()]
    if not strange:
        return []
    guess = "" if gpus_known else "; every job is taken to ask for 1 GPU"
    return [f"columns not used: {cells.shown(strange)}{guess}"]
