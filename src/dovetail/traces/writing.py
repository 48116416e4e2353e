"""Writing our own format, with only the columns that carry information."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from os import PathLike, fspath
from typing import Any, TextIO, cast

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Estimate, Interruption
from dovetail.models.workload import Arrival
from dovetail.traces.readers.columns import ASKED, COLUMNS
from dovetail.traces.readers.text_files import STDIN
from dovetail.traces.spreadsheets import escaped

Value = str | int | float | None | tuple[str, ...] | tuple[float, ...]
Get = Callable[[Arrival], Value]

ALWAYS = ("job_id", "submit_s", "duration_s", "gpus")
DEFAULTS: Mapping[str, Value] = {
    **dict.fromkeys(COLUMNS),
    **dict.fromkeys(("user", "tenant", "name", "group", "model"), ""),
    **dict.fromkeys(
        ("nodes", "cpus", "memory_gb", "priority", "save_s", "restore_s", "retries"), 0
    ),
    **dict.fromkeys(("kinds", "failures", "options"), ()),
    "share": WHOLE_GPU,
    "weight": 1,
    "lost_s": Interruption().lost_s,
}


def write(path: str | PathLike[str], arrivals: Iterable[Arrival]) -> None:
    """Write .csv or .jsonl, compressed if the name ends in .gz; `-` is CSV on standard output."""
    target = fspath(path)
    suffix = target.removesuffix(".gz").rpartition(".")[2].lower()
    if target != STDIN and suffix not in ("csv", "jsonl"):
        raise BadInput(
            f"cannot write {target!r}: end the name in .csv or .jsonl, then .gz if wished"
        )
    try:
        with _opened(target) as text:
            write_text(text, arrivals, suffix)
    except UnicodeEncodeError as error:
        raise BadInput(f"cannot write {target!r}: {error.object!r} is no proper text") from None


def write_text(text: TextIO, arrivals: Iterable[Arrival], form: str) -> None:
    """As `jsonl`, else as CSV."""
    (_write_jsonl if form == "jsonl" else _write_csv)(text, list(arrivals))


@contextmanager
def _opened(target: str) -> Iterator[TextIO]:
    if target == STDIN:
        yield sys.stdout
        return
    try:
        with open(target, "wb") as raw:
            packed = _packed(raw) if target.endswith(".gz") else raw
            with TextIOWrapper(packed, encoding="utf-8", newline="") as text:
                yield text
    except OSError as error:
        raise BadInput(f"cannot write {target!r}: {error.strerror or error}") from None


def _packed(raw: Any) -> Any:
    import gzip

    # no name and no date inside: equal traces make equal files
    return gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)


class UnixLines:
    """Ends rows in a line feed alone. csv itself would then not quote carriage returns."""

    def __init__(self, text: TextIO) -> None:
        self._write = text.write

    def write(self, row: str) -> int:
        return self._write(row[:-2] + "\n")


def _write_csv(text: TextIO, jobs: Sequence[Arrival]) -> None:
    import csv

    columns = _told(jobs)
    getters = [GET[name] for name in columns]
    table = csv.writer(UnixLines(text))
    table.writerow(columns)
    table.writerows([_cell(get(job)) for get in getters] for job in jobs)


def _write_jsonl(text: TextIO, jobs: Sequence[Arrival]) -> None:
    import json

    names = _told(jobs)
    kept = {*ALWAYS, *([_WITH_LIMITS] if "time_limit_s" in names else ())}
    used = [(name, GET[name]) for name in names]
    for job in jobs:
        told = {
            name: _short(value)
            for name, get in used
            if (value := get(job)) != DEFAULTS[name] or name in kept
        }
        text.write(json.dumps(told, ensure_ascii=False) + "\n")


_WITH_LIMITS = "estimate_s"  # if it is missing, limits would be read as estimates


def _told(jobs: Sequence[Arrival]) -> list[str]:
    """The columns that carry information."""
    used = {name for name in COLUMNS if name in ALWAYS or _is_used(name, jobs)}
    if "time_limit_s" in used:
        used.add(_WITH_LIMITS)
    return [name for name in COLUMNS if name in used]


def _is_used(name: str, jobs: Iterable[Arrival]) -> bool:
    get, default = GET[name], DEFAULTS[name]
    return any(get(job) != default for job in jobs)


def _cell(value: Value) -> str | int | float | None:
    own = _joined(value) if isinstance(value, tuple) else cast("str | int | float", _short(value))
    return escaped(own) if isinstance(own, str) else own


def _joined(values: tuple[str, ...] | tuple[float, ...]) -> str:
    return "|".join(str(_short(value)) for value in values)


def _short(value: Value) -> Value:
    """Without `.0`, and so that it reads back equal; csv and json write other floats in full."""
    if isinstance(value, tuple):
        return tuple(map(_short, value))  # type: ignore[return-value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value


def _kinds(arrival: Arrival) -> tuple[str, ...]:
    for kind in arrival.job.kinds:
        if "|" in kind or not kind.strip():
            raise BadInput(f"job {arrival.job.id!r}: a GPU kind cannot be written as {kind!r}")
    return arrival.job.kinds


def _share(arrival: Arrival) -> Value:
    """In thousandths, except for a whole GPU: `1`."""
    return arrival.job.share if arrival.job.share > 1 else arrival.job.share / WHOLE_GPU


def _options(arrival: Arrival) -> tuple[str, ...]:
    for kind, _, _ in arrival.job.options:
        if "|" in kind or "=" in kind or not kind.strip():
            raise BadInput(f"job {arrival.job.id!r}: a GPU kind cannot be written as {kind!r}")
    return tuple(
        [f"{kind}:{gpus}={_short(seconds)!r}" for kind, gpus, seconds in arrival.job.options]
    )


def _from_job(field: str) -> Get:
    return lambda arrival: cast(Value, getattr(arrival.job, field))


def _from_estimate(field: str) -> Get:
    def get(arrival: Arrival) -> Value:
        estimate: Estimate | None = arrival.job.estimate
        return None if estimate is None else cast(Value, getattr(estimate, field))

    return get


def _from_interruption(field: str) -> Get:
    return lambda arrival: cast(Value, getattr(arrival.job.interruption, field))


GET: Mapping[str, Get] = {
    **{field: _from_job(field) for field in ASKED},
    **{field: _from_interruption(field) for field in ("save_s", "restore_s", "lost_s")},
    "job_id": _from_job("id"),
    "share": _share,
    "kinds": _kinds,
    "options": _options,
    "preemptible": lambda arrival: None if arrival.job.preemptible else "no",
    "estimate_s": _from_estimate("seconds"),
    "estimate_low_s": _from_estimate("low"),
    "estimate_high_s": _from_estimate("high"),
    "deadline_s": _from_job("deadline"),
    "submit_s": lambda arrival: arrival.at,
    "duration_s": lambda arrival: arrival.work_s,
    "cancel_s": lambda arrival: arrival.cancel_at,
    "cancel_after_s": lambda arrival: arrival.cancel_after_s,
    "failures": lambda arrival: arrival.failures,
}
