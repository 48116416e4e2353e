"""How batches form in one line for one server: worked examples, and what holds for every rule."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.sdk.batching import RULES, BadRule, BatchBounds, Step, make
from dovetail.sdk.batching.in_time import largest_in_time
from dovetail.sdk.batching.nexus import batch_of_half
from dovetail.sdk.batching.symphony import window


class Asked(NamedTuple):
    at: float
    deadline: float = inf


SECONDS = [0.0, *[0.004 + 0.002 * size for size in range(1, 33)]]
BOUNDS = BatchBounds(32, SECONDS, 0.02)


def line(*slack_ms: float) -> list[Asked]:
    """Requests with so much time left at time 0."""
    return [Asked(ms / 1e3 - 0.02, ms / 1e3) for ms in slack_ms]


def test_clipper_finds_the_largest_batch_that_keeps_the_slo() -> None:
    batcher = make("clipper").batcher(BOUNDS)
    sizes = []
    for _ in range(40):
        size = batcher.step(0.0, line(*[20.0] * 32)).take
        batcher.took(size, SECONDS[size])
        sizes.append(size)
    assert sizes[:9] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert set(sizes[9:]) == {8, 9}  # 8 take 20 ms, 9 take 22


def test_a_batch_of_nexus_leaves_time_for_the_one_before_it() -> None:
    assert batch_of_half(SECONDS, 0.02, 32) == 3
    assert make("nexus").batcher(BOUNDS).step(0.0, line(*[20.0] * 10)) == Step(3, 0)


def test_nexus_gives_up_who_would_make_the_batch_late() -> None:
    assert make("nexus").batcher(BOUNDS).step(0.0, line(5, 7, 9, 12, 15, 18)) == Step(3, 3)


@pytest.mark.parametrize(
    ("size", "opens", "closes"), [(1, 12, 14), (2, 10, 12), (3, 8, 10), (4, 6, 8)]
)
def test_a_batch_of_symphony_has_a_window(size: int, opens: float, closes: float) -> None:
    found = window(0.02, size, SECONDS, 32)
    assert found == pytest.approx((opens / 1e3, closes / 1e3))


def test_symphony_waits_for_company_until_one_more_would_be_late() -> None:
    batcher = make("symphony").batcher(BOUNDS)
    assert batcher.step(0.0, line(20)).again_at == pytest.approx(0.012)
    assert batcher.step(0.0, line(20, 20)).again_at == pytest.approx(0.010)
    assert batcher.step(0.010, line(20, 20)) == Step(2, 0)


def test_clockwork_takes_the_largest_batch_that_is_in_time() -> None:
    batcher = make("clockwork").batcher(BOUNDS)
    assert batcher.step(0.0, line(12, 13, 20, 20)) == Step(4, 0)
    assert batcher.step(0.0, line(5, 5)) == Step(0, 2)  # not even alone
    assert batcher.step(0.0, line(6, 12, 12, 12, 12)) == Step(4, 1)  # the first would be alone


@pytest.mark.parametrize("name", sorted(RULES))
@given(slacks=st.lists(st.integers(0, 60), min_size=1, max_size=40), most=st.integers(1, 12))
def test_every_step_can_be_taken_and_goes_on(name: str, slacks: list[int], most: int) -> None:
    waiting = line(*sorted(slacks))
    take, drop, again_at = make(name).batcher(BatchBounds(most, SECONDS, 0.02)).step(0.0, waiting)
    assert 0 <= take <= most
    assert 0 <= drop <= len(waiting) - take
    assert take or drop == len(waiting) or 0.0 < again_at < inf


@pytest.mark.parametrize("name", ["nexus", "clockwork", "shepherd", "symphony"])
@given(slacks=st.lists(st.integers(0, 60), min_size=1, max_size=40))
def test_no_batch_of_a_rule_that_knows_durations_is_late(name: str, slacks: list[int]) -> None:
    waiting = line(*sorted(slacks))
    step = make(name).batcher(BOUNDS).step(0.0, waiting)
    for request in waiting[step.drop : step.drop + step.take]:
        assert request.deadline >= SECONDS[step.take] - 1e-6


@given(slacks=st.lists(st.integers(0, 60), max_size=30), most=st.integers(1, 12))
def test_the_largest_batch_is_the_largest_of_all(slacks: list[int], most: int) -> None:
    waiting = line(*sorted(slacks))
    ways = [
        size
        for size in range(1, most + 1)
        if sum(own.deadline >= SECONDS[size] - 1e-9 for own in waiting) >= size
    ]
    assert largest_in_time(0.0, waiting, SECONDS, most)[1] == max(ways, default=0)


def test_an_unknown_rule_or_parameter_is_one_line() -> None:
    with pytest.raises(BadRule, match="no batching rule 'best'; choose from static, clipper"):
        make("best")
    with pytest.raises(BadRule, match="static has no parameter 'wait'; it has wait_ms"):
        make("static:wait=3")
    with pytest.raises(BadRule, match="wait_ms='long' is not a number"):
        make("static:wait_ms=long")
