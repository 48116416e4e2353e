"""Where a daemon keeps its things: the XDG folders, one folder of its own, or the system's."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dovetail.core.errors import BadInput

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
        """The file by which others find the daemon: its process and socket."""
        return self.state / "daemon.json"

    @property
    def outbox(self) -> Path:
        """The folder of messages to users that are not told yet."""
        return self.state / "outbox"

    @property
    def hooks(self) -> Path:
        """Programs of the administrator: `before-start` and `after-end` of every job."""
        return self.state / "hooks"

    @property
    def token(self) -> Path:
        """The file with the token by which callers from the network are known."""
        return self.state / "token"

    @property
    def power_note(self) -> Path:
        """Which GPUs have another power limit for a while, and which one they had before."""
        return self.state / "power.json"

    @property
    def world_note(self) -> Path:
        """Where jobs ran last time."""
        return self.state / "world"

    @property
    def archive(self) -> Path:
        """The folder of entries that the journal no longer holds, as compressed lines of JSON."""
        return self.state / "archive"

    @property
    def mark(self) -> Path:
        """There if it is everybody's: the journal knows, but not everybody may read that."""
        return self.state / "system"

    @property
    def config(self) -> Path:
        """The configuration file: of a home that was named it lies there, whoever starts it."""
        if self.state == system_home().state:
            return Path("/etc/dovetail/config.toml")
        if self.state == user_home().state:
            folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
            return Path(folder).expanduser() / "dovetail" / "config.toml"
        return self.state / "config.toml"

    @property
    def log(self) -> Path:
        return self.state / "daemon.log"

    def environment(self, job_id: str) -> Path:
        return self.environments / f"{job_id}.json"

    def environment_of_ended(self, job_id: str) -> Path:
        """Kept for another run; it goes with the job's folder."""
        return self.folder(job_id) / "environment.json"

    def stdin(self, job_id: str) -> Path:
        """The job's standard input, if it was given one; two numbers lie beside it."""
        return self.environments / f"{job_id}.stdin"

    def folder(self, job_id: str) -> Path:
        return self.runs / job_id


def up_again(state: Path, system: bool = False, command: str = "dovetail") -> str:
    """The command that starts the daemon of that folder."""
    from shlex import quote

    home = (
        "" if state in (user_home().state, system_home().state) else f" --home {quote(str(state))}"
    )
    return f"{command}{home} up{' --system' if system else ''}"


def check_own(home: Home) -> None:
    """Refuse a folder that others can change: they could make the daemon write elsewhere."""
    from shlex import quote

    found, folder = home.state.stat(), quote(str(home.state))
    if found.st_uid != os.geteuid():
        raise BadInput(
            f"{home.state} is another user's: they could change what the daemon does; name another "
            f"folder with --home, or try: chown {os.geteuid()} {folder}"
        )
    if home.system and found.st_mode & 0o022:
        raise BadInput(
            f"{home.state} is open to changes by others; try: chmod 711 {folder}, or name another "
            "folder with --home"
        )


def home_in(folder: Path) -> Home:
    """Everything under one folder. The socket too, whatever XDG_RUNTIME_DIR says: that one goes at
    logout and differs between shells, and the daemon would not be found again."""
    folder = folder.expanduser().absolute()
    socket = folder / "dovetail.sock"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
        socket = _private_folder() / f"{_hash_of(folder)}.sock"
    return Home(folder, socket)


def _private_folder() -> Path:
    """For sockets whose own folder has too long a name. Nobody else may put anything there."""
    folder = Path(f"/tmp/dovetail-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or not stat.S_ISDIR(found.st_mode):
        raise BadInput(
            f"{folder} is not yours alone; remove it, or use a --home with a shorter path"
        )
    return folder


def _hash_of(folder: Path) -> int:
    """The same for the same folder, in every process."""
    from zlib import crc32

    return crc32(os.fsencode(folder))


def user_home() -> Home:
    """The user's own, in the XDG folders."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return home_in(Path(state).expanduser() / "dovetail")


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
