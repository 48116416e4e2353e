"""Where a daemon keeps its things: the XDG folders, one folder of its own, or the system's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_LONGEST_SOCKET_PATH = 100  # the kernel allows 107 bytes


@dataclass(frozen=True, slots=True)
class Home:
    """The state (journal, runs, logs) and the socket that leads to the daemon."""

    state: Path
    socket: Path
    system: bool = False

    @property
    def journal(self) -> Path:
        return self.state / "dovetail.db"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def environments(self) -> Path:
        return self.state / "env"

    @property
    def note(self) -> Path:
        """Who the daemon is, for those who look for it."""
        return self.state / "daemon.json"

    @property
    def token(self) -> Path:
        """What opens the daemon to the network."""
        return self.state / "token"

    @property
    def log(self) -> Path:
        return self.state / "daemon.log"

    def environment(self, job_id: str) -> Path:
        return self.environments / f"{job_id}.json"

    def folder(self, job_id: str) -> Path:
        return self.runs / job_id


def home_in(folder: Path) -> Home:
    """Everything under one folder; the socket elsewhere if its path would be too long."""
    folder = folder.expanduser().absolute()
    socket = folder / "dovetail.sock"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
        socket = _runtime_folder() / f"dovetail-{abs(hash_of(folder))}.sock"
    return Home(folder, socket)


def hash_of(folder: Path) -> int:
    """The same for the same folder, in every process."""
    from zlib import crc32

    return crc32(os.fsencode(folder))


def user_home() -> Home:
    """The user's own, in the XDG folders."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(state).expanduser() / "dovetail"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Home(folder, Path(runtime) / "dovetail.sock")
    return home_in(folder)


def system_home() -> Home:
    """The one of a box that several people share."""
    return Home(Path("/var/lib/dovetail"), Path("/run/dovetail/dovetail.sock"), system=True)


def find_home(folder: str | None) -> Home:
    """The one that was named, else the user's own if it is in use, else the system's if there is one."""
    named = folder or os.environ.get("DOVETAIL_HOME")
    if named:
        return home_in(Path(named))
    own, shared = user_home(), system_home()
    return shared if shared.socket.exists() and not own.socket.exists() else own


def _runtime_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) if runtime and Path(runtime).is_dir() else Path("/tmp")
