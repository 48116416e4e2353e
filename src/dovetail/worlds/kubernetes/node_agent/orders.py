"""What the controller wants of a pod on this node, and what came of it: rows of a DovetailNode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from dovetail.core.errors import BadInput

RUN, SUSPEND, STOP = "run", "suspend", "stop"
RUNNING, SUSPENDED, ENDED, UNKNOWN = "running", "suspended", "ended", "unknown"

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONTAINER: Final = re.compile(r"(?:[a-z0-9.-]+://([0-9a-f]{64}))?")


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """One row of the spec. `number` rises with each change of `want`."""

    uid: str
    container_id: str  # "": not known yet
    want: str
    number: int
    room_bytes: int
    gpus: tuple[str, ...]
    reports_upto: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> AgentOrder:
        """Names become paths here: whatever is not a plain one is refused."""
        uid, container = str(row.get("uid")), _CONTAINER.fullmatch(str(row.get("container") or ""))
        if not _UID.fullmatch(uid) or container is None or row.get("want") not in _WANTS:
            raise BadInput(f"pod {uid!r} cannot be treated: its row has odd names")
        return cls(
            uid,
            container[1] or "",
            row["want"],
            int(row.get("order") or 0),
            int(row.get("roomBytes") or 0),
            tuple(row.get("gpus") or ()),
            int(row.get("reportsUpto") or 0),
        )


_WANTS: Final = (RUN, SUSPEND, STOP)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What came of the last order, in the words of the status."""

    order: int = -1
    rung: str = ""
    seconds: float = 0.0
    bytes: int = 0  # that the pod keeps while it is suspended
    trouble: str = ""  # why it could not be carried out: the pod is as it was before

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> AgentAnswer:
        known = {name: row[name] for name in cls.__slots__ if name in row}
        return cls(**known)

    def as_row(self) -> dict[str, Any]:
        return asdict(self)
