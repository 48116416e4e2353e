"""Columns of time: seconds, or dates that become seconds since the first submission."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.core.model import Seconds
from dovetail.traces.readers.cells import seconds as plain_seconds


class TimeReader:
    """Reads the times of one file. The first one decides for all whether they are dates."""

    def __init__(self) -> None:
        self.dated = False
        self.seconds: Callable[[str], Seconds] = self._first

    def __call__(self, text: str) -> Seconds:
        return self.seconds(text)

    def _first(self, text: str) -> Seconds:
        try:
            float(text)
        except ValueError:
            since_epoch = dates()
            value = since_epoch(text)  # may refuse: then the next one decides
            self.dated, self.seconds = True, since_epoch
            return value
        value = plain_seconds(text)
        self.seconds = plain_seconds
        return value


def dates() -> Callable[[str], Seconds]:
    """Seconds since 1970 of `2017-10-09 07:01:55`; local times are taken as they stand."""
    from datetime import UTC, datetime

    local_epoch, epoch = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)

    def seconds(text: str) -> Seconds:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError("is not a time: give seconds, or 2024-05-31 18:30:00") from None
        return (when - (epoch if when.tzinfo else local_epoch)).total_seconds()

    return seconds
