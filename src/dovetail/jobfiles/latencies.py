"""How long a batch takes, as files of services say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.jobfiles.language_latency import is_language_latency, language_latency
from dovetail.serving.latency import (
    ANY_KIND,
    AffineLatency,
    Latency,
    LatencyPoint,
    LatencyTable,
)

LATENCY_FORMS: Final = (
    "write {fixed_ms: 4, per_item_ms: 2}, a list of {batch: 1, ms: 6}, {profile: FILE.csv}, or for a "
    "language model {prefill: …, decode: …, kv: …} or {profile: FILE.yaml}"
)
_LIVE_FORMS: Final = "write {fixed_ms: 4, per_item_ms: 2}, or a list of {batch: 1, ms: 6}"
_MOST_MS: Final = 1e9
_ROW: Final = ("batch", "ms", "kind", "share")


def latency_given(given: Any) -> Latency | str:
    """A profile stays a name: it is looked for beside the file."""
    if isinstance(given, Mapping) and set(given) == {"profile"}:
        if not isinstance(given["profile"], str) or not given["profile"].strip():
            raise Complaint("latency: profile names no file; write {profile: FILE.csv}", "latency")
        return given["profile"]
    if isinstance(given, Mapping) and set(given) == {"table"}:
        given = given["table"]
    if is_language_latency(given):
        return language_latency(given)
    try:
        if isinstance(given, Mapping) and given and set(given) <= {"fixed_ms", "per_item_ms"}:
            fixed, each = (_ms(given.get(own, 0)) for own in ("fixed_ms", "per_item_ms"))
            return AffineLatency(fixed, each)
        if isinstance(given, Sequence) and not isinstance(given, str):
            return LatencyTable([_point(row) for row in given])
    except BadInput as error:
        raise Complaint(str(error), "latency") from None
    except (TypeError, ValueError):
        raise Complaint(f"latency: there is something that is no number; {LATENCY_FORMS}") from None
    raise Complaint(f"latency: {shown(given)} is not understood; {LATENCY_FORMS}", "latency")


def latency_of(given: Any) -> Latency:
    """Of a service that runs: its file says it as it is, and is sent as plain values."""
    found = None if is_language_latency(given) else latency_given(given)
    if found is None or isinstance(found, str):
        raise Complaint(f"latency: that is for simulations; here {_LIVE_FORMS}", "latency")
    return found


def plain_latency(given: Any) -> Any:
    """The same as it was written, once it is known to be one."""
    latency_of(given)
    return given


def kinds_named(latency: Latency) -> Sequence[str]:
    """The GPU kinds that it knows one by one; if there are none, any."""
    named = {own.kind for own in latency.points} if isinstance(latency, LatencyTable) else set()
    return sorted(named) or [ANY_KIND]


def _point(row: Any) -> LatencyPoint:
    if not isinstance(row, Mapping) or not {"batch", "ms"} <= set(row) <= set(_ROW):
        raise BadInput(f"latency: each row of a table has batch and ms, and may have {_ROW[2:]}")
    seconds, share = _ms(row["ms"]), int(row.get("share", WHOLE_GPU))
    return LatencyPoint(int(row["batch"]), seconds, str(row.get("kind", "")), share)


def _ms(given: Any) -> float:
    """In seconds."""
    ms = float(given)
    if ms > _MOST_MS:
        raise BadInput(f"latency: {ms:g} ms is too long; give at most {_MOST_MS:g}")
    return ms / 1e3
