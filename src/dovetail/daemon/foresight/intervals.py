"""A time that is expected, with an interval around it."""

from __future__ import annotations

from typing import NamedTuple

from dovetail.api.forecast_row import Span
from dovetail.core.model import Seconds


class Drawn(NamedTuple):
    """A time as the scenarios have it, in seconds of the state's clock."""

    expected: Seconds  # if everything takes the time it is believed to
    low: Seconds  # in a tenth of the scenarios it is sooner,
    centre: Seconds  # in half of them,
    high: Seconds | None  # in a tenth of them later; None: open

    @property
    def span(self) -> Span:
        """The interval as drawn, around the expected time."""
        high = None if self.high is None else max(self.high, self.expected)
        return Span(self.expected, min(self.low, self.expected), high)
