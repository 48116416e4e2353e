"""Consoles as the daemon tells them: what is typed to a job, and commands that run beside it."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.wire import about, row


@row
class TypedTaken:
    """How much of what was typed has been taken."""

    taken: int = field(metadata=about("Bytes of that session in all; send what follows them."))
    open: bool = field(metadata=about("False: nobody reads more."))


@row
class CommandStarted:
    """A command that runs beside a job."""

    console: int = field(metadata=about("The number of its console."))


@row
class CommandStanding:
    """Whether a command beside a job has ended, and how."""

    over: bool
    code: int | None = field(metadata=about("Its exit code, as a shell tells it."))
    failure: str = field(metadata=about('Why it could not be run; "" as a rule.'))


@row
class Resized:
    """The terminal has that size."""

    rows: int
    columns: int
