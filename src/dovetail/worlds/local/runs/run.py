"""One launch of a job's process: its folder, and what can be said of it from there.

Nothing is remembered: a daemon that was killed at any moment asks the same folder again. `launch` may be
called again whenever it is not sure that the run has begun: it never runs twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.core.model import JobId
from dovetail.worlds.agent import ProcessGroup, RunId
from dovetail.worlds.endings import Ending
from dovetail.worlds.local import keeper
from dovetail.worlds.local.containers.groups import group_of, main_inside
from dovetail.worlds.local.keeper import files, proc
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.processes import Process
from dovetail.worlds.shortage import GIVEN_FILES

_LOOK_AGAIN_S = 0.002
_ENGINE_CODES: Final = (125, 126, 127)  # of podman and docker: not of the job
_LAST_WORDS: Final = 2000  # bytes
KEEPER_PROGRAM: Final = str(Path(keeper.__file__).with_name("__main__.py"))

# Keepers that this process has started and not yet waited for, lest they stay zombies.
_children: Final[dict[Path, subprocess.Popen[bytes]]] = {}


@dataclass(frozen=True, slots=True)
class Launch:
    """What a keeper is told: what to run, where, as whom (None: as we are). The environment is what
    `env_file` (JSON) says, then `env`."""

    argv: tuple[str, ...]
    cwd: str
    env_file: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    log_bytes: int = 64 * 1024 * 1024
    grace_s: float = 60.0  # for the record; the daemon counts it
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    umask: int = 0o022
    open_files: int = GIVEN_FILES  # we may have raised it for ourselves
    out: Path | None = None  # logs of their own for output and errors, both in `log` as well
    err: Path | None = None
    output: str = ""  # files of its user's for the same, below `cwd`; see `keeper.copies`
    error: str = ""
    is_first: bool = True  # of the job's launches: it begins these files anew
    stdin: Path | None = None  # see `keeper.feed`
    terminal: tuple[int, int] | None = None  # its rows and columns, in place of pipes
    image: str = ""  # `argv` is the client of this engine, which runs the job in this container
    engine: str = ""
    container: str = ""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise BadInput("there is no command to run; give one after --")

    def to_json(self) -> str:
        content = {item.name: getattr(self, item.name) for item in fields(self)}
        return json.dumps({**content, "env": dict(self.env)}, default=str)

    @classmethod
    def from_json(cls, text: str) -> Launch:
        content = json.loads(text)
        paths = {name: Path(content[name]) for name in ("env_file", "log")}
        groups = None if content["groups"] is None else tuple(content["groups"])
        return cls(**{**content, **paths, "argv": tuple(content["argv"]), "groups": groups})


class ProcessRun:
    """One launch, named by its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = Path(os.path.abspath(folder))
        self._known: dict[str, Any] | None = None  # keeper.json, once it is there: never changes

    @property
    def id(self) -> RunId:
        return RunId(JobId(self.folder.parent.name), int(self.folder.name))

    def launch(self, launch: Launch) -> None:
        """Let a keeper run it, unless one has begun. It may be called again at any time."""
        _reap_all()
        if self.begun() or self._is_coming():
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if launch.uid is not None:
            self.folder.chmod(0o711)  # the job looks for its stop file here
        self._write(keeper.LAUNCH, launch.to_json())
        _children[self.folder] = self._spawn()

    def begun(self) -> bool:
        """Whether a keeper has taken it on. From then on it is never begun again."""
        return (self.folder / keeper.KEEPER).exists()

    def wait_until_begun(self, within_s: float = 10.0) -> bool:
        """False: it has not begun, and does not look as if it would. `launch` may be called again."""
        deadline = time.monotonic() + within_s
        while not self.begun():
            if time.monotonic() > deadline or not self._is_coming():
                return self.begun()
            time.sleep(_LOOK_AGAIN_S)
        return True

    def trouble(self) -> str:
        """The keeper's message when it failed before it could begin (no room on the disk), or ""."""
        try:
            lines = (self.folder / keeper.TROUBLE).read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def is_alive(self) -> bool:
        """Whether its keeper lives, and so `ending` is still to come; or, if that one was killed, the
        guard that ends what it left behind."""
        self._reap()
        if self.keeper_pid() is not None or self._guard_pid() is not None:
            return True
        self._reap()  # it may have gone between
        return False

    def is_lost(self) -> bool:
        """It had begun, and its keeper was killed: nobody will say how it ended."""
        return self.begun() and not self.is_alive() and self.ending() is None

    def keeper_pid(self) -> int | None:
        """None if it has not begun or is over."""
        return self._pid_if_alive("pid", "started")

    def process_group(self) -> ProcessGroup | None:
        """Its processes; None if it has not begun or is over."""
        keeper_pid = self.keeper_pid()
        return None if keeper_pid is None else group_of(keeper_pid, self.launched())

    def is_frozen(self) -> bool:
        group = self.process_group()
        return group is not None and group.is_frozen()

    def _guard_pid(self) -> int | None:
        """The keeper's parent: it ends last, as a rule."""
        return self._pid_if_alive("guard", "guard_started")

    def main_pid(self) -> int | None:
        """The job's main process: leader of a session and of a process group. In a container, its own
        and not the engine's client."""
        group = self.process_group()
        inside = main_inside(group) if group is not None else None
        return inside or self._pid_if_alive("child", "child_started")

    def pidfd(self) -> int:
        """A descriptor that can be read once the guard has ended; or the keeper, if it has lost its
        guard. Yours to close."""
        known = self._read_keeper() or {}
        for role, started in (("guard", "guard_started"), ("pid", "started")):
            if self._pid_if_alive(role, started) is None:
                continue
            handle = os.pidfd_open(known[role])
            if processes.is_alive(known[role], known[started]):
                return handle
            os.close(handle)  # it may be a stranger's by now
        raise ProcessLookupError(f"no keeper runs {self.folder}")

    def ending(self) -> Ending | None:
        """How it ended; None as long as nobody has said so."""
        self._reap()
        try:
            text = (self.folder / keeper.EXIT).read_bytes()
        except FileNotFoundError:
            return None
        ending = Ending(**json.loads(text))
        if ending.code in _ENGINE_CODES and not ending.failure:
            return replace(ending, failure=self._why_not_in_image(ending.code))
        return ending

    def over_since(self) -> float:
        """When it ended; where nobody has said so, its last sign of life."""
        ending = self.ending()
        return ending.ended_at if ending is not None else self._last_sign()

    def ask_to_stop(self) -> None:
        """Make the file that `should_stop` looks for. If the job does not run yet, it never will."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / keeper.STOP).touch(mode=0o644)

    @property
    def stop_asked(self) -> bool:
        return (self.folder / keeper.STOP).exists()

    # --------------------------------------------------------------------------------- below

    def _last_sign(self) -> float:
        """When one of its own files, its reports or its output was last written to."""
        try:
            signs = [*self.folder.iterdir(), *self.folder.parent.iterdir(), self._log()]
        except OSError:
            return 0.0  # its folder is gone
        return max((sign.stat().st_mtime for sign in signs if sign.is_file()), default=0.0)

    def _why_not_in_image(self, code: int) -> str:
        """An engine that could not run the job has said why at the end of the job's log."""
        launch = self.launched()
        if not launch.get("image"):
            return ""
        with suppress(OSError, ValueError):
            said = Path(launch["log"]).read_bytes()[-_LAST_WORDS:].decode(errors="replace")
            line = said.strip().rpartition("\n")[2]
            return f"{launch['engine']} could not run it in {launch['image']}: {line}"
        return f"{launch['engine']} could not run it in {launch['image']}: exit code {code}"

    def launched(self) -> dict[str, Any]:
        """The `Launch` that its keeper was given."""
        return files.read_json(str(self.folder / keeper.LAUNCH))

    def _log(self) -> Path:
        return Path(self.launched()["log"])

    def _is_coming(self) -> bool:
        """A keeper that we have started is on its way, or at work."""
        self._reap()
        return self.folder in _children

    def _spawn(self) -> subprocess.Popen[bytes]:
        """In a session of its own; nobody's terminal, nobody's files, none of our environment."""
        command = [sys.executable, "-I", "-S", "-X", "utf8", KEEPER_PROGRAM, str(self.folder)]
        # Where Python itself was built against libraries elsewhere, it does not start without this.
        env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with open(self.folder / keeper.TROUBLE, "wb", opener=_for_us_alone) as trouble:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=trouble,
                cwd="/",
                env=env,
                start_new_session=True,
            )

    def _write(self, name: str, text: str) -> None:
        temporary = self.folder / f"{name}.tmp"
        with open(temporary, "w", encoding="utf-8", opener=_for_us_alone) as file:
            file.write(text)
        temporary.rename(self.folder / name)

    def _read_keeper(self) -> dict[str, Any] | None:
        if self._known is None:
            try:
                self._known = files.read_json(str(self.folder / keeper.KEEPER))
            except (FileNotFoundError, ValueError):
                return None
        return self._known

    def _pid_if_alive(self, pid: str, started: str) -> int | None:
        known = self._read_keeper()
        if known is None or known["boot"] != _this_boot() or pid not in known:
            return None
        process = Process(known[pid], known[started])
        return process.pid if processes.is_alive(process.pid, process.started) else None

    def _reap(self) -> None:
        child = _children.get(self.folder)
        if child is not None and child.poll() is not None:
            _children.pop(self.folder, None)


@cache
def _this_boot() -> str:
    return proc.boot_id()


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _reap_all() -> None:
    for folder, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(folder, None)
