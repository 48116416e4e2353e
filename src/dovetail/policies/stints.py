"""How long a job should be let work between two interruptions."""

from __future__ import annotations

from typing import Final

from dovetail.core.model import Seconds
from dovetail.models.hourly import HOUR_S

PAYS: Final = 20.0  # a stint lasts at least so many times what interrupting it costs,
PAYS_LONG: Final = 4.0  # or an hour and so many times, where that is less


def least_stint_s(interruption_s: Seconds) -> Seconds:
    """So at most a twentieth of the time goes on interruptions, a quarter if they take hours."""
    return min(PAYS * interruption_s, HOUR_S + PAYS_LONG * interruption_s)
