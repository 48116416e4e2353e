"""How many replicas a load needs."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.serving.scaling_rules import make_rule
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import SeenLoad

DESIGN = ServiceDesign("v1", "chat", least=0, most=8, at_once=1, slo_s=0.3)


def load(rate: float = 0.0, service_s: float = 0.0, **more: float) -> SeenLoad:
    values: dict[str, Any] = {"in_flight": 0.0, "queued": 0.0, "tail_s": 0.0, "awake": 1, **more}
    return SeenLoad(rate, service_s, **values)


def test_rate_times_latency_over_the_target_is_what_a_load_needs() -> None:
    """41 requests a second at 45 ms keep 1.8 busy: at 70 % that is 2.6 replicas, so three."""
    found = make_rule("reactive").wanted(load(41.0, 0.045), DESIGN)
    assert found.replicas == 3
    assert found.reason == "41 requests a second need 2.6 at 45 ms (1 at once, 70% busy)"


def test_nobody_needs_no_replica_and_one_who_waits_needs_one() -> None:
    rule = make_rule("reactive")
    assert rule.wanted(load(), DESIGN).replicas == 0
    assert rule.wanted(load(queued=0.5), DESIGN).replicas == 1


def test_the_reason_names_what_the_need_rests_on() -> None:
    rule = make_rule("reactive")
    told = [
        rule.wanted(seen, DESIGN).reason.partition(" (")[0]
        for seen in (
            load(in_flight=0.14),
            load(queued=1.0),
            load(queued=2.0),
            load(3.0, in_flight=1.4, queued=0.7),
            load(10.0, 0.07, in_flight=0.5, queued=0.7),
        )
    ]
    assert told == [
        "0.14 requests in work need 0.2",
        "1 request waiting needs 1.4",
        "2 requests waiting need 2.9",
        "1.4 requests in work and 0.7 waiting need 3.0",
        "10 requests a second at 70 ms and 0.7 waiting need 1.1",
    ]


def test_who_waits_counts_as_if_it_came_this_second() -> None:
    """40 at once of 50 ms are 2 in work for a second, not 40; 40 of a minute are 40."""
    rule = make_rule("reactive:target=1")
    assert rule.wanted(load(10.0, 0.05, queued=40.0), DESIGN).replicas == 3
    assert rule.wanted(load(10.0, 60.0, in_flight=5.0, queued=40.0), DESIGN).replicas == 640


def test_a_small_need_is_told_as_it_is_and_one_request_as_one() -> None:
    rule = make_rule("reactive")
    assert "need 0.02 at 5 ms" in rule.wanted(load(3.0, 0.005), DESIGN).reason
    assert rule.wanted(load(queued=1.0), DESIGN).reason.startswith("1 request waiting needs 1.4")


def test_one_more_is_added_while_answers_are_later_than_the_slo() -> None:
    found = make_rule("reactive:target=1").wanted(load(10.0, 0.1, tail_s=0.4, awake=2), DESIGN)
    assert found.replicas == 3
    assert "400 ms instead of 300 ms" in found.reason


def test_nobody_is_added_where_one_replica_alone_is_too_slow() -> None:
    found = make_rule("reactive:target=1").wanted(load(5.0, 0.4, tail_s=0.5, awake=2), DESIGN)
    assert found.replicas == 2


@pytest.mark.parametrize("text", ["best", "reactive:target=2", "reactive:speed=1", "reactive:x"])
def test_a_rule_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"scaling rule|target=2"):
        make_rule(text)
