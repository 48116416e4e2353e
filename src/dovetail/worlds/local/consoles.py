"""Consoles of jobs on this machine: asked for at the doors of their keepers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.consoles import (
    CommandBeside,
    ConsoleAway,
    ConsoleRefused,
    EndOfCommand,
    Size,
    TakenKeys,
    Typed,
)
from dovetail.worlds.local import keeper
from dovetail.worlds.local.containers.command import beside_in_image
from dovetail.worlds.local.folders import Folders, LogFile
from dovetail.worlds.world import JobLog

_ANSWERS_WITHIN_S: Final = 10.0
_CHUNK: Final = 1 << 16


class LocalConsoles:
    """`gpus_of` says which GPUs a job has now."""

    def __init__(self, folders: Folders, gpus_of: Callable[[JobId], Sequence[str]]) -> None:
        self._folders: Final = folders
        self._gpus_of: Final = gpus_of

    def start(self, job_id: JobId, command: CommandBeside) -> int:
        launched = self._run(job_id).launched()
        words, env, cwd = command.argv, {}, command.cwd
        if launched.get("image"):
            words, cwd = beside_in_image(launched, command), ""
        elif gpus := self._gpus_of(job_id):
            env = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        asked: dict[str, Any] = {"argv": words, "cwd": cwd, "env": env}
        if command.size is not None:
            asked |= {"terminal": True, **command.size._asdict()}
        return int(self._ask(job_id, "start", **asked)["console"])

    def type(self, job_id: JobId, console: int, typed: Typed) -> TakenKeys:
        said = {"session": typed.session, "at": typed.at, "end": typed.is_all}
        length = len(typed.data)
        told = self._ask(job_id, "type", typed.data, console=console, bytes=length, **said)
        return TakenKeys(told["taken"], told["open"])

    def resize(self, job_id: JobId, console: int, size: Size) -> None:
        self._ask(job_id, "resize", console=console, **size._asdict())

    def signal(self, job_id: JobId, console: int, number: int) -> None:
        self._ask(job_id, "signal", console=console, signal=number)

    def end_of(self, job_id: JobId, console: int) -> EndOfCommand | None:
        told = self._ask(job_id, "standing", console=console)
        return EndOfCommand(told["code"], told["failure"]) if told["over"] else None

    def log(self, job_id: JobId, console: int, stream: str) -> JobLog:
        if console == 0:
            return self._folders.log(job_id, stream)
        name = "err" if stream == "stderr" else "out"
        return LogFile(self._run(job_id).folder / keeper.BESIDE / str(console) / name)

    def ring(self, job_id: JobId, console: int, stream: str, place: int) -> KeeperRing:
        connection = self._connect(job_id)
        said = {"do": "listen", "console": console, "stream": stream, "start": place}
        try:
            connection.sendall(json.dumps(said).encode() + b"\n")
        except OSError as error:
            connection.close()
            raise ConsoleAway(f"job {job_id} has just ended: {error.strerror}") from None
        return KeeperRing(connection)

    # --------------------------------------------------------------------------------- below

    def _run(self, job_id: JobId) -> Any:
        try:
            return self._folders.run(job_id, self._folders.live_run(job_id).number)
        except (OSError, ValueError):
            raise ConsoleAway(f"job {job_id} has no processes now") from None

    def _connect(self, job_id: JobId) -> socket.socket:
        folder: Path = self._run(job_id).folder
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWERS_WITHIN_S)
        try:
            inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                connection.connect(f"/proc/self/fd/{inside}/{keeper.DOOR}")
            finally:
                os.close(inside)
        except OSError:
            connection.close()
            raise ConsoleAway(f"job {job_id} has no processes now") from None
        return connection

    def _ask(self, job_id: JobId, do: str, data: bytes = b"", **more: Any) -> Mapping[str, Any]:
        with self._connect(job_id) as connection:
            try:
                connection.sendall(json.dumps({"do": do, **more}).encode() + b"\n" + data)
                raw = b""
                while piece := connection.recv(_CHUNK):
                    raw += piece
            except OSError as error:
                raise ConsoleAway(f"job {job_id} does not answer: {error}") from None
        if not raw:
            raise ConsoleAway(f"job {job_id} has just ended")
        told: dict[str, Any] = json.loads(raw)
        if "error" in told:
            raise ConsoleRefused(f"job {job_id}: {told['error']}")
        return told


class KeeperRing:
    def __init__(self, connection: socket.socket) -> None:
        self._connection: Final = connection
        connection.setblocking(False)

    def fileno(self) -> int:
        return self._connection.fileno()

    def heard(self) -> bool:
        try:
            return self._connection.recv(1) == b"."
        except BlockingIOError:
            return True
        except OSError:
            return False

    def read_to(self, place: int) -> None:
        with suppress(OSError):  # it has ended: seen when it is heard
            self._connection.send(b"%d\n" % place)

    def close(self) -> None:
        self._connection.close()
