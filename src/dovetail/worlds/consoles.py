"""Consoles, as the daemon sees them: what people see and type of a job's process that runs, and of
commands that are run beside it. The job's own is number 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.worlds.world import JobLog


class ConsoleAway(DovetailError):
    """The job has no processes just now: it has not begun, or has ended."""


class ConsoleRefused(DovetailError):
    """There is no such console, or it cannot be used like that."""


class Size(NamedTuple):
    rows: int = 24
    columns: int = 80


@dataclass(frozen=True, slots=True)
class CommandBeside:
    """A command to run beside a job. `size`: of the terminal that it gets, if any."""

    argv: tuple[str, ...]
    size: Size | None = None
    cwd: str = ""  # "": the job's


class Typed(NamedTuple):
    """Bytes that somebody has typed: in their session `at` came before them."""

    session: str
    at: int
    data: bytes
    is_all: bool = False


class TakenKeys(NamedTuple):
    bytes: int  # of that session, in all
    open: bool  # False: nobody reads more


class EndOfCommand(NamedTuple):
    code: int
    failure: str  # why it could not be run; "" as a rule


class Ring(Protocol):
    """Rings when there may be more to read of a console. It makes the job wait for whoever is behind."""

    def fileno(self) -> int:
        """Readable when it has rung, and when the console has ended."""

    def heard(self) -> bool:
        """After it could be read. False: it rings no more."""

    def read_to(self, place: int) -> None:
        """Tell how far the log was read; then it rings again."""

    def close(self) -> None: ...


class Consoles(Protocol):
    """From any thread. Each method may raise ConsoleAway or ConsoleRefused."""

    def start(self, job_id: JobId, command: CommandBeside) -> int:
        """Run it beside the job, which has GPUs now; the number of its console."""

    def type(self, job_id: JobId, console: int, typed: Typed) -> TakenKeys: ...

    def resize(self, job_id: JobId, console: int, size: Size) -> None: ...

    def signal(self, job_id: JobId, console: int, number: int) -> None:
        """To a command that runs beside the job."""

    def end_of(self, job_id: JobId, console: int) -> EndOfCommand | None:
        """How a command ended; None: it runs."""

    def log(self, job_id: JobId, console: int, stream: str) -> JobLog: ...

    def ring(self, job_id: JobId, console: int, stream: str, place: int) -> Ring:
        """For whoever has read up to that place."""
