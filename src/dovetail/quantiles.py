"""The value below which a given part of ordered values lies; numpy's own where there are arrays."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], part: float) -> float:
    """Between the two nearest ranks in proportion, as numpy and most tools have it; 0 for no values."""
    return value_at(ordered, (len(ordered) - 1) * part) if ordered else 0.0


def value_at(ordered: Sequence[float], place: float) -> float:
    """The value at that place, counted from 0, or between two; values may be infinite."""
    place = min(max(place, 0.0), len(ordered) - 1.0)
    low = int(place)
    below, above = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    return below if place == low or below == above else below + (above - below) * (place - low)
