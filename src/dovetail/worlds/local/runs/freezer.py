"""The freezer of a control group, of version 1 and 2: all processes in it stop where they are."""

from __future__ import annotations

import time
from pathlib import Path

from dovetail.core.errors import DovetailError

_ROUND_S = 0.002
_V1, _V2 = "freezer.state", "cgroup.freeze"


class NotFrozen(DovetailError):
    """A job that could not be frozen as a whole. It goes on running as a whole."""


def freeze(group: Path, within_s: float) -> None:
    """Until all of them have stopped. Where they do not, none is."""
    _write(group, "FROZEN", "1")
    deadline = time.monotonic() + within_s
    while not _has_come_to_rest(group):
        if time.monotonic() > deadline:
            thaw(group)
            raise NotFrozen(f"{group} does not come to rest")
        time.sleep(_ROUND_S)


def thaw(group: Path) -> None:
    _write(group, "THAWED", "0")


def is_frozen(group: Path) -> bool:
    """Or on the way to it."""
    try:
        if (group / _V1).exists():
            return (group / _V1).read_text().strip() != "THAWED"
        return (group / _V2).read_text().strip() == "1"
    except OSError:
        return False


def _write(group: Path, v1: str, v2: str) -> None:
    if (group / _V1).exists():
        (group / _V1).write_text(v1)
    else:
        (group / _V2).write_text(v2)


def _has_come_to_rest(group: Path) -> bool:
    if (group / _V1).exists():
        return (group / _V1).read_text().strip() == "FROZEN"
    return "frozen 1" in (group / "cgroup.events").read_text()
