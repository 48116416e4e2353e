"""The journal as text: one JSON object a line, in the order things happened.

Written by hand for the five entries that make up nearly all of a journal (`json.dumps` would double
the time of a run) and by field for the rest; read back with `json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from json.encoder import encode_basestring_ascii as quote
from math import isinf
from typing import Any, Final, final

from dovetail.core.entries import (
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Paced,
    Preempt,
    Promote,
    Refuse,
    Resize,
    Start,
    Started,
    Submitted,
    TenantSet,
    Woke,
)
from dovetail.core.errors import BadInput
from dovetail.core.model import (
    NO_INTERRUPTION_COST,
    WHOLE_GPU,
    Estimate,
    Interruption,
    Job,
    Node,
    Placement,
    Seconds,
    Slice,
    Tenant,
)

_LINES_AT_ONCE = 4096


@final
class JournalWriter:
    """Streams entries to `write` in large pieces. Call `flush` at the end."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write: Final = write
        self._lines: list[str] = []
        self._where: dict[Placement, str] = {}
        self._now: Seconds = 0.0
        self._at = '{"at":0.0,'

    def __call__(self, entry: JournalEntry, now: Seconds) -> None:
        if now != self._now:
            self._now = now
            self._at = f'{{"at":{now!r},'
        if isinstance(entry, Start):
            where = self._where.get(entry.placement)
            if where is None:
                where = self._where[entry.placement] = _placement_text(entry.placement)
            line = f'{self._at}"start":{quote(entry.job_id)},"on":{where}}}\n'
        elif isinstance(entry, Started):
            line = f'{self._at}"started":{quote(entry.job_id)}}}\n'
        elif isinstance(entry, Submitted):
            line = f'{self._at}"submitted":{_job_text(entry.job)}}}\n'
        elif isinstance(entry, Finished):
            line = f'{self._at}"finished":{quote(entry.job_id)}}}\n'
        elif isinstance(entry, Preempt):
            line = f'{self._at}"preempt":{quote(entry.job_id)}}}\n'
        else:
            line = encode(entry, now) + "\n"
        lines = self._lines
        lines.append(line)
        if len(lines) >= _LINES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        self._write("".join(self._lines))
        self._lines.clear()


def _job_text(job: Job) -> str:
    """Most jobs are told by their id, size and owner; the others by every field they set."""
    if (
        job.name
        or job.kinds
        or job.cpus
        or job.memory_gb
        or job.group
        or job.model
        or job.priority
        or job.retries
        or job.share != WHOLE_GPU
        or job.weight != 1.0
        or job.deadline is not None
        or job.min_gpus is not None
        or job.max_gpus is not None
        or job.estimate is not None
        or job.interruption is not NO_INTERRUPTION_COST
    ):
        return json.dumps(_own_fields(job), separators=(",", ":"))
    text = f'{{"id":{quote(job.id)},"gpus":{job.gpus}'
    if job.user:
        text += f',"user":{quote(job.user)}'
    if job.tenant:
        text += f',"tenant":{quote(job.tenant)}'
    return text + "}"


# ------------------------------------------------------------------------------------------ writing


def encode(entry: JournalEntry, now: Seconds) -> str:
    """One line of the journal, without its end."""
    row: dict[str, Any] = {"at": now}
    names = [name for name in entry.fields if name != "at"]
    row[entry.tag] = _plain(getattr(entry, names[0])) if names else True
    for name in names[1:]:
        row["on" if name == "placement" else name] = _plain(getattr(entry, name))
    return json.dumps(row, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, Job | Node | Tenant):
        return _own_fields(value)
    if isinstance(value, Placement):
        return json.loads(_placement_text(value))
    return value


def _own_fields(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults; infinity, which JSON lacks, as text."""
    row = {}
    for field in fields(value):
        own = getattr(value, field.name)
        if field.default is MISSING or own != field.default:
            if isinstance(own, Interruption | Estimate):
                own = _own_fields(own)
            elif isinstance(own, float) and isinf(own):
                own = "inf"
            row[field.name] = own
    return row


def _placement_text(placement: Placement) -> str:
    slices = ",".join(f"[{piece.node},{piece.mask}]" for piece in placement.slices)
    return f"[{placement.share},{slices}]" if slices else f"[{placement.share}]"


# ------------------------------------------------------------------------------------------ reading


def read(lines: Iterable[str]) -> Iterator[JournalEntry]:
    """The entries of a journal. A damaged line is named by its number."""
    for number, line in enumerate(lines, 1):
        try:
            yield decode(line)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise BadInput(f"journal line {number} cannot be read: {error}") from None


def decode(line: str) -> JournalEntry:
    row = json.loads(line)
    at = row.pop("at")
    tag, value = next(iter(row.items()))
    return _READERS[tag](at, value, row)


def _placement(data: list[Any]) -> Placement:
    return Placement(tuple(Slice(node, mask) for node, mask in data[1:]), data[0])


def _job(data: dict[str, Any]) -> Job:
    data = _with_infinity(data)
    data["kinds"] = tuple(data.get("kinds", ()))
    if "interruption" in data:
        data["interruption"] = Interruption(**_with_infinity(data["interruption"]))
    if "estimate" in data:
        data["estimate"] = Estimate(**data["estimate"])
    return Job(**data)


def _node(data: dict[str, Any]) -> Node:
    data = _with_infinity(data)
    data["labels"] = tuple((k, v) for k, v in data.get("labels", ()))
    return Node(**data)


def _with_infinity(data: dict[str, Any]) -> dict[str, Any]:
    return {name: float("inf") if value == "inf" else value for name, value in data.items()}


_READERS: Mapping[str, Callable[[float, Any, dict[str, Any]], JournalEntry]] = {
    Submitted.tag: lambda at, value, _: Submitted(at, _job(value)),
    Started.tag: lambda at, value, _: Started(at, value),
    Finished.tag: lambda at, value, _: Finished(at, value),
    Failed.tag: lambda at, value, row: Failed(at, value, row["reason"], row["lost_s"]),
    Interrupted.tag: lambda at, value, row: Interrupted(at, value, row["reason"], row["lost_s"]),
    Cancelled.tag: lambda at, value, row: Cancelled(at, value, row["reason"]),
    Paced.tag: lambda at, value, row: Paced(at, value, row["speed"]),
    NodeJoined.tag: lambda at, value, _: NodeJoined(at, _node(value)),
    NodeDown.tag: lambda at, value, _: NodeDown(at, value),
    NodeUp.tag: lambda at, value, _: NodeUp(at, value),
    NodeDraining.tag: lambda at, value, _: NodeDraining(at, value),
    NodeLeft.tag: lambda at, value, _: NodeLeft(at, value),
    TenantSet.tag: lambda at, value, _: TenantSet(at, Tenant(**_with_infinity(value))),
    Woke.tag: lambda at, _value, _row: Woke(at),
    Start.tag: lambda _, value, row: Start(value, _placement(row["on"])),
    Preempt.tag: lambda _, value, _row: Preempt(value),
    Promote.tag: lambda _, value, _row: Promote(value),
    Resize.tag: lambda _, value, row: Resize(value, _placement(row["on"])),
    Refuse.tag: lambda _, value, row: Refuse(value, row["reason"]),
}
