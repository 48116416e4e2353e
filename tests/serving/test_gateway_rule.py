"""The rule `gateway`: what a live service does with its requests, against closed forms of queueing."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make

TENTH = ServedModel("m", AffineLatency(0.1, 0.0), max_batch=2)
PLENTY = 10_000


def run(model: ServedModel, *times: float, policy: str = "gateway") -> ServingOutcome:
    requests = [Request(at, "m", at + model.slo_s) for at in times]
    return simulate(ServingScene({"m": model}, [Node("n", 8)]), policy, requests)


def mean_s(latency: AffineLatency, at_once: int, rate: int = 80) -> float:
    model = ServedModel("m", latency, max_batch=at_once)
    requests = make(f"poisson:rate={rate}:seconds=5000").requests("m", inf, 1)
    found = simulate(ServingScene({"m": model}, [Node("n", 1)]), "gateway", requests)
    return float(found.summary()["mean_latency_s"])


def test_with_one_request_at_a_time_it_is_the_queue_of_the_book() -> None:
    assert mean_s(AffineLatency(0.0, 0.01), 1) == pytest.approx(0.030, rel=0.02)


def test_requests_that_share_a_replica_are_processor_sharing() -> None:
    """M/D/1-PS at a load of 0.8: service over what is left of the server, 10 ms / 0.2."""
    assert mean_s(AffineLatency(0.0, 0.01), PLENTY) == pytest.approx(0.050, rel=0.03)


def test_requests_that_do_not_slow_each_other_take_their_time_however_many_there_are() -> None:
    assert mean_s(AffineLatency(0.05, 0.0), PLENTY) == pytest.approx(0.05)


def test_a_replica_has_so_many_at_once_and_the_others_wait_in_order() -> None:
    found = run(TENTH, 0.0, 0.01, 0.02, 0.05)
    assert found.ended == pytest.approx(0.21)  # the fourth begins when the second has ended
    assert found.tally.whole().latency.total == pytest.approx(0.1 + 0.1 + 0.18 + 0.16)


def test_who_comes_later_slows_those_who_are_there_for_the_rest_of_their_work() -> None:
    shared = ServedModel("m", AffineLatency(0.0, 0.1), max_batch=2)
    found = run(shared, 0.0, 0.05)  # half alone, half at half the speed; then the other one
    assert found.tally.whole().latency.total == pytest.approx(0.15 + 0.15)


def test_a_line_that_is_full_and_a_wait_that_is_too_long_are_refused() -> None:
    full = run(TENTH, *[0.0] * 6, policy="gateway:queue=3").tally.whole()
    assert (full.served, full.dropped) == (5, 1)
    late = run(TENTH, *[0.0] * 6, policy="gateway:queue_s=0.15").tally.whole()
    assert (late.served, late.dropped) == (4, 2)


def test_a_request_that_finds_nobody_wakes_a_replica_at_once() -> None:
    sleeps = replace(TENTH, least=0, most=1, idle_s=5.0, wake_s=0.5)
    assert run(sleeps, 0.0, 100.3).tally.whole().latency.most == pytest.approx(0.5 + 0.1)


def test_its_scaling_rule_counts_requests_in_work_as_that_of_a_live_service_does() -> None:
    """40 a second of 100 ms are 4 in work; a replica with 2 at once is to be 70 % busy: three."""
    model = replace(TENTH, least=1, most=8, start_s=1.0, idle_s=5.0)
    found = run(model, *[number / 40 for number in range(2400)])
    assert [awake for at, _, awake, _ in found.fleet.changes if at < 60.0][-1] == 3
