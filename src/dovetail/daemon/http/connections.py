"""How many may be connected: in all, over the network, and each. Some descriptors stay for the jobs.

Connections are counted where they are accepted, before anything is read or a handshake begins. Who
is too many is told so and let go. Descriptors are given out lowest first: the number of the one that
a connection got says how many are in use.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EMFILE, ENFILE
from typing import Any, Final, NoReturn

from dovetail.daemon.http.access import peer_of
from dovetail.gateway.guesses import network_of

MOST = 2048  # connections, however many descriptors there are: each takes some 40 kB
_LONGEST_REQUEST_UNREAD = 1 << 16

log = logging.getLogger("dovetail.daemon")


def refused(status: str, error: str) -> bytes:
    """The bytes of an answer such as `503 Service Unavailable`, with one line that says why."""
    body = json.dumps({"error": error}).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """By the number of descriptors that the daemon may have."""

    files: int

    @property
    def reserve(self) -> int:
        """Descriptors that no connection gets: for the journal, the jobs and what watches them."""
        return min(256, max(self.files // 4, min(48, self.files // 2)))

    @property
    def in_all(self) -> int:
        return min(MOST, self.files - self.reserve)

    @property
    def of_user(self) -> int:
        return max(self.in_all // 4, 4)

    @property
    def of_network(self) -> int:
        return self.in_all // 2

    @property
    def of_address(self) -> int:
        return max(self.in_all // 8, 4)


class Doors:
    """Counts who is in. Administrators may come as long as anybody can, and have the last places."""

    def __init__(self, limits: ConnectionLimits, is_admin: Callable[[int], bool]) -> None:
        self.limits: Final = limits
        self._is_admin: Final = is_admin
        self._inside: Counter[str] = Counter()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def listening(self, listener: socket.socket) -> socket.socket:
        """The same socket; every connection that it accepts has been counted here."""
        return _Listener(self, listener)

    def accept(self, accept: Callable[[], tuple[socket.socket, Any]]) -> tuple[socket.socket, Any]:
        """The next one who may come in. BlockingIOError: nobody just now."""
        try:
            connection, address = accept()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            log.warning("no descriptor is left for who connects: %s", error.strerror)
            self._refuse_on_the_spare(accept)
        whose = _whose(connection, address)
        if why := self._too_many(whose, connection):
            _turn_away(connection, why)
            raise BlockingIOError
        self._inside[whose] += 1
        return _Visit(connection, lambda: self._left(whose)), address

    def _refuse_on_the_spare(self, accept: Callable[[], tuple[socket.socket, Any]]) -> NoReturn:
        """Else nobody would learn why they wait, and we would be called for them without end."""
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)
            connection, _ = accept()
            _turn_away(connection, "too many connections: the daemon has no descriptor left")
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        raise BlockingIOError

    def _left(self, whose: str) -> None:
        self._inside[whose] -= 1
        if not self._inside[whose]:
            del self._inside[whose]

    def _too_many(self, whose: str, connection: socket.socket) -> str:
        """Why they cannot come in; "" if they can."""
        limits, inside = self.limits, self._inside
        kind, _, name = whose.partition(" ")
        is_admin = kind == "user" and self._is_admin(int(name))
        kept = limits.reserve // 2 if is_admin else limits.reserve
        network = sum(n for who, n in inside.items() if who.startswith("address "))
        if kind == "address" and inside[whose] >= limits.of_address:
            return _told(inside[whose], f"from {name}", limits.of_address)
        if kind == "address" and network >= limits.of_network:
            return _told(network, "over the network", limits.of_network)
        if kind == "user" and not is_admin and inside[whose] >= limits.of_user:
            return _told(inside[whose], f"of user {name}", limits.of_user)
        if inside.total() >= limits.in_all or connection.fileno() >= limits.files - kept:
            return _told(inside.total(), "in all", limits.in_all)
        return ""


def _told(number: int, whose: str, most: int) -> str:
    return (
        f"too many connections: {number} are open {whose}, and {most} may be; "
        "close some, or try again in a minute"
    )


def _whose(connection: socket.socket, address: Any) -> str:
    if connection.family == socket.AF_UNIX:
        return f"user {peer_of(connection).uid}"
    return f"address {network_of(str(address[0]))}"


def _turn_away(connection: socket.socket, why: str) -> None:
    """They are told, and never waited for."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(refused("503 Service Unavailable", why))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(_LONGEST_REQUEST_UNREAD)  # what is left unread may cost them the answer


class _Listener(socket.socket):
    def __init__(self, doors: Doors, listener: socket.socket) -> None:
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.detach())
        self._doors = doors

    def accept(self) -> tuple[socket.socket, Any]:
        return self._doors.accept(super().accept)


class _Visit(socket.socket):
    """Tells once that it is over."""

    def __init__(self, connection: socket.socket, left: Callable[[], None]) -> None:
        family, kind, protocol = connection.family, connection.type, connection.proto
        super().__init__(family, kind, protocol, fileno=connection.detach())
        self._left: Callable[[], None] | None = left

    def close(self) -> None:
        super().close()
        left, self._left = self._left, None
        if left is not None:
            left()

    def __del__(self) -> None:
        if self._left is not None:
            self.close()
