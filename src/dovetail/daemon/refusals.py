"""Errors of the daemon for its callers. The API turns each into a status of HTTP."""

from __future__ import annotations

from dovetail.core.errors import DovetailError


class NotFound(DovetailError):
    """There is no such job."""


class NotAllowed(DovetailError):
    """It is somebody else's."""


class Conflict(DovetailError):
    """It cannot be done to a job that is as this one is."""


class Unavailable(DovetailError):
    """Not now: the daemon is busy, or about to stop."""


class DiskFull(Unavailable):
    """Not before there is room for it."""
