"""How long a job takes in each way to run it, and what it costs when it is late."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from dovetail.core.model import Option
from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.jobfiles.quantities import MOST_GPUS, duration, number, whole
from dovetail.jobfiles.texts import label

LARGEST_COST: Final = 1e12
MOST_OPTIONS: Final = 1000
_EXAMPLE: Final = "such as {H100: {1: 2h, 2: 70m}}"
_COST: Final = re.compile(r"(\S+?) ?/ ?(s|sec|second|min|minute|h|hr|hour|d|day)", re.IGNORECASE)
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}  # by the first letter

Times = dict[str, dict[int, float]]  # seconds, by GPU kind and number


def options(value: object) -> Times:
    """`{H100: {1: 2h, 2: 70m}, cpu: {4: 1-12:00:00}}`: the time of all of the job in each way."""
    if not isinstance(value, Mapping) or not value:
        raise Complaint(f"options: GPU kinds, numbers and times are needed, {_EXAMPLE}")
    found = {_kind(kind): _times(kind, own) for kind, own in value.items()}
    if sum(map(len, found.values())) > MOST_OPTIONS:
        raise Complaint(f"options: there are more than {MOST_OPTIONS:,}; name fewer")
    return found


def _kind(value: object) -> str:
    try:
        found = label(value)
    except ValueError as error:
        raise Complaint(f"options: {shown(value)} {error}", str(value)) from None
    if not found or ":" in found or found.isdigit():
        raise Complaint(
            f"options: {shown(value)} is not a GPU kind; write the times below one, {_EXAMPLE}",
            str(value),
        )
    return found


def _times(kind: object, value: object) -> dict[int, float]:
    if not isinstance(value, Mapping) or not value:
        raise Complaint(
            f"options.{kind}: numbers of GPUs and times are needed, {_EXAMPLE}", str(kind)
        )
    found: dict[int, float] = {}
    for gpus, time in value.items():
        try:
            count = whole(1, MOST_GPUS)(gpus)
        except ValueError as error:
            raise Complaint(f"options.{kind}: {shown(gpus)} GPUs {error}", str(kind)) from None
        try:
            found[count] = duration(time)
        except ValueError as error:
            where = f"options.{kind}.{count}"
            raise Complaint(f"{where}: {shown(time)} {error}", str(kind), str(gpus)) from None
    return found


def of_kinds(times: Mapping[str, Mapping[int, float]]) -> list[Option]:
    return [
        Option(kind, gpus, seconds) for kind, own in times.items() for gpus, seconds in own.items()
    ]


def as_times(found: Iterable[Option]) -> Times:
    times: Times = {}
    for kind, gpus, seconds in found:
        times.setdefault(kind, {})[gpus] = seconds
    return times


# ---------------------------------------------------------------------------------------- lateness


def late_cost(value: object) -> str:
    """`0.5/h`, `12/day`: money for a time after the deadline. Kept as written."""
    match = _COST.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("does not say per what time; write 0.5/h or 12/day")
    if not 0 <= number(match[1]) <= LARGEST_COST:
        raise ValueError(f"is out of range; give 0 to {LARGEST_COST:,g}")
    return match[0]


def late_cost_per_s(text: str) -> float:
    match = _COST.fullmatch(text)
    assert match is not None
    return float(match[1]) / _UNIT_S[match[2][0].lower()]
