"""A short form of `python -m benchmarks forecasts`."""

from __future__ import annotations

from random import Random

from benchmarks.forecast_days import SLOTS, day, repeats, strangers
from benchmarks.forecasts import simulated


def _covered(family: str) -> dict[tuple[str, bool], float]:
    chance = Random(f"{family}/suite")
    made = {"repeats": repeats, "strangers": strangers}[family](chance)
    found = simulated(day(made, chance, SLOTS)[:150], "fifo")
    rows: dict[tuple[str, bool], list[bool]] = {}
    for said in found:
        if said.low is not None:
            rows.setdefault((said.what, said.known), []).append(said.holds)
    return {key: sum(own) / len(own) for key, own in rows.items() if len(own) >= 20}


def test_intervals_of_known_commands_hold_four_times_of_five() -> None:
    covered = _covered("repeats")
    assert covered["end", True] >= 0.80
    assert covered["start", True] >= 0.80


def test_intervals_of_names_never_seen_hold_three_times_of_four() -> None:
    covered = _covered("strangers")
    assert covered["end", False] >= 0.75
    assert covered["start", False] >= 0.75
