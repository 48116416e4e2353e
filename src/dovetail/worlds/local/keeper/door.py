"""The keeper's door: a socket at which the daemon asks for what people do with the job's consoles.

A question is a line of JSON, of `type` with bytes behind it; its answer is a line of JSON. Whoever
listens keeps the connection: a byte comes when there is more to read in the pages, and they say with a
line how far they have read.
"""

from __future__ import annotations

import _socket
import json
import os
import struct
from contextlib import suppress

from . import DOOR
from .consoles import Console, Reader
from .descriptors import READ, WRITE

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .beside import Commands
    from .descriptors import Descriptors

_MOST_BYTES = 4 << 20  # of one question
_MOST_VISITORS = 256
_RING = b"."


class Door:
    """`of_job` is the console of the job itself, number 0."""

    def __init__(
        self, watch: Descriptors, folder: str, of_job: Console, commands: Commands
    ) -> None:
        self._watch = watch
        self._of_job = of_job
        self._commands = commands
        self._visitors: set[_Visitor] = set()
        self.may_start: Callable[[], str] = lambda: ""
        self._listener = _listen(folder)
        self._accept: Callable[[], tuple[int, Any]] = self._listener._accept  # type: ignore[attr-defined]
        watch.add(self._listener.fileno(), self._welcome)

    def _welcome(self, events: int) -> None:
        try:
            fd, _ = self._accept()
        except OSError:
            return
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        os.set_inheritable(fd, False)
        if _uid_of(connection) not in (0, os.geteuid()) or len(self._visitors) >= _MOST_VISITORS:
            connection.close()
            return
        connection.setblocking(False)
        self._visitors.add(_Visitor(self, self._watch, connection))

    def gone(self, visitor: _Visitor) -> None:
        self._visitors.discard(visitor)

    def console(self, number: int) -> Console:
        if number == 0:
            return self._of_job
        found = self._commands.get(number)
        if found is None:
            raise ValueError(f"it has no console {number}")
        return found.console

    def answer(self, asked: dict[str, Any], data: bytes) -> dict[str, Any]:
        do, number = asked["do"], int(asked.get("console", 0))
        if do == "start":
            if why := self.may_start():
                return {"error": why}
            return {"console": self._commands.start(asked)}
        console = self.console(number)
        if do == "type":
            taken = console.type(str(asked["session"]), int(asked["at"]), data, bool(asked["end"]))
            return {"taken": taken, "open": console.typing >= 0}
        if do == "resize":
            console.resize(int(asked["rows"]), int(asked["columns"]))
            return {}
        return self._of_command(do, number, asked)

    def _of_command(self, do: str, number: int, asked: dict[str, Any]) -> dict[str, Any]:
        command = self._commands.get(number)
        if command is None:
            return {"error": f"it has no console {number}"}
        if do == "signal":
            command.signal(int(asked["signal"]))
            return {}
        return command.standing()


class _Visitor:
    def __init__(self, door: Door, watch: Descriptors, connection: _socket.socket) -> None:
        self._door = door
        self._watch = watch
        self._connection = connection
        self._fd = connection.fileno()
        self._came = b""
        self._reader: Reader | None = None
        self._console: Console | None = None
        self._rung = self._rings = False
        watch.add(self._fd, self._look)

    def _look(self, events: int) -> None:
        if events & WRITE:
            self._send_ring()
        if not events & ~WRITE:
            return
        try:
            piece = self._connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self._came += piece
        if not piece or len(self._came) > _MOST_BYTES:
            self._leave()
        elif self._reader is not None:
            self._hear_place()
        else:
            self._hear_question()

    def _leave(self) -> None:
        if self._reader is not None and self._console is not None:
            self._console.left(self._reader)
        self._watch.remove(self._fd)
        self._connection.close()
        self._door.gone(self)

    def _hear_place(self) -> None:
        """The last whole line counts."""
        whole, newline, self._came = self._came.rpartition(b"\n")
        if newline and self._reader is not None and self._console is not None:
            with suppress(ValueError):
                self._reader.read_to(int(whole.rpartition(b"\n")[2]))
            self._rings = False
            if self._rung:
                self._ring()
            self._console.look()

    def _hear_question(self) -> None:
        line, newline, rest = self._came.partition(b"\n")
        if not newline:
            return
        try:
            told = self._told(json.loads(line), rest)
        except (ValueError, KeyError, TypeError, OSError) as error:
            told = {"error": str(error) or type(error).__name__}
        if told is not None:
            with suppress(OSError):
                self._connection.sendall(json.dumps(told).encode() + b"\n")
            self._leave()

    def _told(self, asked: dict[str, Any], data: bytes) -> dict[str, Any] | None:
        """None: there is more to hear, now or later."""
        if len(data) < int(asked.get("bytes", 0)):
            return None
        if asked["do"] != "listen":
            return self._door.answer(asked, data)
        self._listen(asked)
        return None

    def _listen(self, asked: dict[str, Any]) -> None:
        console = self._door.console(int(asked["console"]))
        stream = asked["stream"]
        if stream not in console.pages:
            raise ValueError(f"it has no stream {stream!r}")
        self._came = b""
        self._console, self._reader = console, Reader(stream, int(asked["start"]), self._ring)
        console.add(self._reader)

    def _ring(self) -> None:
        """Once, until they have said how far they have read."""
        if self._rings:
            self._rung = True
            return
        self._rings, self._rung = True, False
        self._send_ring()

    def _send_ring(self) -> None:
        try:
            self._connection.send(_RING)
            self._watch.want(self._fd, READ)
        except BlockingIOError:
            self._watch.want(self._fd, READ | WRITE)
        except OSError:
            pass  # they have left: seen at the next look


def _listen(folder: str) -> _socket.socket:
    """By way of the folder's descriptor: the path of a socket may have 107 bytes only."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    path = f"/proc/self/fd/{inside}/{DOOR}"
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(64)
    finally:
        os.close(inside)
    listener.setblocking(False)
    return listener


def _uid_of(connection: _socket.socket) -> int:
    raw = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", raw)[1]
    return uid
