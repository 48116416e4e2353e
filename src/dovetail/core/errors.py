"""One tree of errors. A user's mistake becomes one line at the command line, never a traceback."""

from __future__ import annotations


class DovetailError(Exception):
    """Anything that a user or an operator can put right. The message says what, why and the way out."""


class BadInput(DovetailError):
    """A file, a cluster or a parameter that cannot be used as it is."""


class IllegalEntry(DovetailError):
    """A journal entry that contradicts the state it is recorded into."""


class UnfinishedRun(DovetailError):
    """The world has nothing more to tell, yet some jobs have not ended."""


class CannotGoOn(DovetailError):
    """Trying again would not help: the program ends and says why."""
