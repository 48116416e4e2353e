"""The journal as text: one JSON object a line, in the order things happened.

Entries know their own lines; those of the frequent ones are written out here. `json` reads them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, TypeAlias, final

from dovetail.core import groups
from dovetail.core.entries import (
    Amended,
    Branch,
    Cancelled,
    Displaced,
    Entry,
    Failed,
    Finished,
    GpusClosed,
    GpusOpened,
    Held,
    Interrupted,
    JournalEntry,
    LimitSet,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    NoMoreNodes,
    Note,
    Occupied,
    Paced,
    Pinned,
    PolicySet,
    Preempt,
    Promote,
    Refuse,
    Released,
    Reported,
    Requeued,
    Resize,
    Restored,
    Saved,
    Start,
    Started,
    Stayed,
    Stop,
    Submitted,
    TenantSet,
    Unpinned,
    Woke,
)
from dovetail.core.entry import quote
from dovetail.core.errors import BadInput
from dovetail.core.model import (
    Estimate,
    Interruption,
    Job,
    Limit,
    Node,
    Option,
    Placement,
    Seconds,
    Slice,
    Tenant,
)

_NUMBERS: Final = 65
_DIGITS: Final = tuple([str(number) for number in range(_NUMBERS)])  # what most jobs ask for

Texts: TypeAlias = Callable[[list[Seconds]], list[str]]  # of numbers, as JSON has them


@final
class Journal:
    """Entries on their way to where they are kept: noted one by one, handed on some at a time.

    Where a decision must be safe before it is carried out, they go `at_once` 1 by 1. Elsewhere in
    larger pieces: many lines in a row are made faster than as many with a decision between any two,
    after which the processor has everything else at hand. Call `flush` at the end.
    """

    def __init__(
        self, hand_on: Callable[[list[Entry], list[Seconds]], object], at_once: int = 256
    ) -> None:
        self._hand_on: Final = hand_on
        self.at_once: Final = at_once
        self.entries: Final[list[Entry]] = []
        self.times: Final[list[Seconds]] = []  # of each of them

    def note(self, entry: Entry, now: Seconds) -> None:
        self.entries.append(entry)
        self.times.append(now)
        if len(self.entries) >= self.at_once:
            self.flush()

    def flush(self) -> None:
        if self.entries:
            self._hand_on(self.entries, self.times)
            self.entries.clear()
            self.times.clear()


def texts(times: list[Seconds]) -> list[str]:
    """By the standard library. Somebody who writes many may know a faster way."""
    return [repr(at) for at in times]


def lines(entries: Sequence[Entry], times: list[Seconds], texts: Texts = texts) -> str:
    """Many lines of the journal. The frequent ones are written out, as `json` would say them: that
    takes a tenth of the time."""
    said: list[str] = []
    for entry, at in zip(entries, texts(times), strict=True):
        if type(entry) is Start:
            on = entry.placement.text
            said.append(f'{{"at":{at},"start":{quote(entry.job_id)},"on":{on}}}\n')
        elif type(entry) is Finished:
            said.append(f'{{"at":{at},"finished":{quote(entry.job_id)}}}\n')
        elif type(entry) is Submitted and entry.job.simple and entry.job.gpus < _NUMBERS:
            job, gpus = entry.job, _DIGITS[entry.job.gpus]
            if job.user or job.tenant:
                said.append(entry.line(at))
            else:
                said.append(f'{{"at":{at},"submitted":{{"id":{quote(job.id)},"gpus":{gpus}}}}}\n')
        elif type(entry) is Preempt:
            said.append(f'{{"at":{at},"preempt":{quote(entry.job_id)}}}\n')
        elif type(entry) is Started:
            said.append(f'{{"at":{at},"started":{quote(entry.job_id)}}}\n')
        else:
            said.append(entry.line(at))
    return "".join(said)


def encode(entry: JournalEntry, now: Seconds) -> str:
    """One line of the journal."""
    return lines([entry], [now])


# ------------------------------------------------------------------------------------------ reading


def read(lines: Iterable[str]) -> Iterator[JournalEntry]:
    """The entries of a journal. A damaged line is named by its number."""
    for number, line in enumerate(lines, 1):
        try:
            yield decode(line)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise BadInput(f"journal line {number} cannot be read: {error}") from None


def decode(line: str) -> JournalEntry:
    row = json.loads(line)
    at = row.pop("at")
    if not isinstance(at, int | float) or not isfinite(at) or not row:
        raise ValueError("it does not say what happened when")
    tag, value = next(iter(row.items()))
    reader = _READERS.get(tag) or groups.readers()[tag]
    return reader(at, value, row)


def placement_from(data: list[Any]) -> Placement:
    share, *pieces = data
    limit = pieces.pop() if pieces and isinstance(pieces[-1], int) else 0
    return Placement(tuple(Slice(node, mask) for node, mask in pieces), share, limit)


def job_from(data: dict[str, Any]) -> Job:
    data = with_infinity(data)
    data["kinds"] = tuple(data.get("kinds", ()))
    data["after"] = tuple(data.get("after", ()))
    data["alike"] = tuple(data.get("alike", ()))
    if "trial" in data:  # as the first version wrote it
        data["member"] = data.pop("trial")
    if "settings" in data:
        data["settings"] = pairs_from(data["settings"])
    data["options"] = tuple(Option(*option) for option in data.get("options", ()))
    if "interruption" in data:
        data["interruption"] = Interruption(**with_infinity(data["interruption"]))
    if "estimate" in data:
        data["estimate"] = Estimate(**with_infinity(data["estimate"]))
    return Job(**data)


def pairs_from(data: Iterable[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple([(name, value) for name, value in data])


def node_from(data: dict[str, Any]) -> Node:
    data = with_infinity(data)
    data["labels"] = pairs_from(data.get("labels", ()))
    return Node(**data)


def tenant_from(data: dict[str, Any]) -> Tenant:
    data = with_infinity(data)
    data["labels"] = pairs_from(data.get("labels", ()))
    data["users"] = tuple(data.get("users", ()))
    data["groups"] = tuple(data.get("groups", ()))
    return Tenant(**data)


def limit_from(data: dict[str, Any]) -> Limit:
    return Limit(**with_infinity(data))


def with_infinity(data: dict[str, Any]) -> dict[str, Any]:
    """Where a number belongs, "inf" is one; a user may well be called so."""
    return {
        name: float(value) if value in ("inf", "-inf") and name not in _NAMES else value
        for name, value in data.items()
    }


_NAMES = frozenset(
    ("id", "user", "tenant", "name", "group", "model", "kind", "rack", "metric", "rule")
)


_READERS: Mapping[str, Callable[[float, Any, dict[str, Any]], JournalEntry]] = {
    Submitted.tag: lambda at, value, _: Submitted(at, job_from(value)),
    Started.tag: lambda at, value, _: Started(at, value),
    Finished.tag: lambda at, value, _: Finished(at, value),
    Failed.tag: lambda at, value, row: Failed(
        at, value, row["reason"], row["lost_s"], row.get("exit_code")
    ),
    Interrupted.tag: lambda at, value, row: Interrupted(at, value, row["reason"], row["lost_s"]),
    Cancelled.tag: lambda at, value, row: Cancelled(at, value, row["reason"]),
    Paced.tag: lambda at, value, row: Paced(at, value, row["speed"]),
    Reported.tag: lambda at, value, row: Reported(
        at, value, row.get("step"), row["metrics"], row["upto"], row.get("left_out")
    ),
    Saved.tag: lambda at, value, row: Saved(
        *(at, value, row["rung"], row["seconds"], row["bytes"], row["parked"], row["lost_s"]),
        row.get("tied"),
    ),
    Restored.tag: lambda at, value, row: Restored(at, value, row["rung"], row["seconds"]),
    Pinned.tag: lambda at, value, row: Pinned(at, value, row["reason"]),
    Unpinned.tag: lambda at, value, _: Unpinned(at, value),
    Stayed.tag: lambda at, value, row: Stayed(at, value, placement_from(row["on"]), row["reason"]),
    Displaced.tag: lambda at, value, row: Displaced(at, value, row["reason"]),
    Held.tag: lambda at, value, row: Held(at, value, row["reason"]),
    Released.tag: lambda at, value, _: Released(at, value),
    Requeued.tag: lambda at, value, row: Requeued(at, value, row["reason"]),
    Amended.tag: lambda at, value, _: Amended(at, job_from(value)),
    Occupied.tag: lambda at, value, row: Occupied(
        at, value, row["mask"], row.get("cpus"), row.get("memory_gb")
    ),
    GpusClosed.tag: lambda at, value, row: GpusClosed(
        at, value, row["mask"], row["reason"], row["vacate"]
    ),
    GpusOpened.tag: lambda at, value, row: GpusOpened(at, value, row["mask"]),
    PolicySet.tag: lambda at, value, _: PolicySet(at, value),
    NodeJoined.tag: lambda at, value, _: NodeJoined(at, node_from(value)),
    NodeDown.tag: lambda at, value, _: NodeDown(at, value),
    NodeUp.tag: lambda at, value, _: NodeUp(at, value),
    NodeDraining.tag: lambda at, value, _: NodeDraining(at, value),
    NodeLeft.tag: lambda at, value, _: NodeLeft(at, value),
    NoMoreNodes.tag: lambda at, _value, _row: NoMoreNodes(at),
    TenantSet.tag: lambda at, value, _: TenantSet(at, tenant_from(value)),
    LimitSet.tag: lambda at, value, _: LimitSet(at, limit_from(value)),
    Woke.tag: lambda at, _value, _row: Woke(at),
    Start.tag: lambda _, value, row: Start(value, placement_from(row["on"])),
    Preempt.tag: lambda _, value, _row: Preempt(value),
    Promote.tag: lambda _, value, _row: Promote(value),
    Resize.tag: lambda _, value, row: Resize(value, placement_from(row["on"])),
    Stop.tag: lambda _, value, row: Stop(
        value, row["reason"], row.get("exit_code"), row.get("unneeded")
    ),
    Branch.tag: lambda _, value, row: Branch(value, row["source"], pairs_from(row["settings"])),
    Note.tag: lambda _, value, row: Note(value, row.get("value"), row.get("job_id")),
    Refuse.tag: lambda _, value, row: Refuse(value, row["reason"]),
}
