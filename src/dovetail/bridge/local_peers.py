"""Whose process is at the other end of a loopback connection: everybody on a machine can reach a port.

A cookie for 127.0.0.1 goes to every port of it, also to a server of another user whose page is looked
at. That user then has the cookie, but still cannot come here.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

TABLE: Final = Path("/proc/net/tcp")
_ESTABLISHED: Final = "01"  # a connection whose process has gone counts as root's


def is_ours(peer: tuple[str, int], own: tuple[str, int], table: Path = TABLE) -> bool:
    """True also where the system does not tell: then the cookie alone keeps others out."""
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except FileNotFoundError:
        return True
    wanted = [_as_listed(*peer), _as_listed(*own), _ESTABLISHED]
    found = [line.split() for line in lines]
    return any(row[1:4] == wanted and int(row[7]) == os.getuid() for row in found)


def _as_listed(host: str, port: int) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
