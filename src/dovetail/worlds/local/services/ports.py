"""Ports of this machine: which are free, and who listens at one."""

from __future__ import annotations

import pwd
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"


def free_port() -> int:
    with socket.create_server((HOST, 0)) as found:
        return int(found.getsockname()[1])


def is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def stranger_at(port: int, uid: int | None) -> str:
    """The name of another user whose process listens there; "" if it is the user's own, or root's, who
    may everything in any case (so does a container's proxy)."""
    owners = _owners(port) - {uid, 0}
    if uid is None or not owners:
        return ""
    other = min(owners)
    try:
        return pwd.getpwuid(other).pw_name
    except KeyError:
        return f"user {other}"


def _owners(port: int) -> set[int]:
    """The users of the sockets that listen at the port, whatever their address."""
    found, ending = set(), f":{port:04X}"
    for table in _TABLES:
        with suppress(OSError):
            for row in table.read_text().splitlines()[1:]:
                columns = row.split()
                if columns[3] == _LISTENS and columns[1].endswith(ending):
                    found.add(int(columns[7]))
    return found
