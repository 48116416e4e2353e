"""Nexus: GPUs of their own for what fills them, and duty cycles for the rest."""

from __future__ import annotations

import pytest

from dovetail.serving.rules.nexus_plan import DutyCycle, RateOfService, packed

SECONDS = [0.0, *[0.004 + 0.002 * size for size in range(1, 34)]]


def asked(name: str, rate: float, slo_s: float = 0.020) -> RateOfService:
    return RateOfService(name, rate, SECONDS, slo_s, 32)


def batches(cycle: DutyCycle) -> dict[str, int]:
    return {own.service: size for own, size in cycle.batches}


def test_650_a_second_are_two_gpus_and_a_rest_of_50() -> None:
    """Batches of 3 in 10 ms are 300 a second; the rest is gathered one by one, every 20 ms at most."""
    *full, rest = packed([asked("a", 650.0)])
    assert [batches(own) for own in full] == [{"a": 3}, {"a": 3}]
    assert [own.occupancy for own in full] == pytest.approx([1.0, 1.0])
    ((left, _),) = rest.batches
    assert left.rate == pytest.approx(50.0)


def test_two_rests_share_a_gpu_in_the_shorter_of_their_cycles() -> None:
    """At 50 ms: 100 a second gather 3 in 30 ms and take 10; 50 gather 2 in 40 and take 8, and 2 in
    30 ms too."""
    (both,) = packed([asked("a", 100.0, 0.050), asked("b", 50.0, 0.050)])
    assert both.seconds == pytest.approx(0.030)
    assert batches(both) == {"a": 3, "b": 2}
    assert both.occupancy == pytest.approx((0.010 + 0.008) / 0.030)


def test_rests_that_would_be_late_beside_each_other_have_gpus_of_their_own() -> None:
    cycles = packed([asked("a", 250.0), asked("b", 250.0)])
    assert [list(batches(own)) for own in cycles] == [["a"], ["b"]]
