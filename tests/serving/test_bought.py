"""INFaaS and MArk, simulated: which models on which GPUs, as the load changes."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency, LatencyPoint, LatencyTable
from dovetail.serving.request import Request
from dovetail.serving.rules.bought import forecast
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make

BY_KIND = LatencyTable(
    [
        LatencyPoint(b, seconds * b, kind)
        for kind, seconds in (("T4", 0.02), ("A100", 0.002))
        for b in (1, 64)
    ]
)
PRICES = {"T4": 1.0, "A100": 6.0}


def mixed(**more: Any) -> ServingScene:
    own: dict[str, Any] = {
        "slo_s": 0.2,
        "max_batch": 8,
        "start_s": 5.0,
        "wake_s": 1.0,
        "least": 1,
        "most": 8,
        **more,
    }
    service = ServedModel("chat", BY_KIND, **own)
    nodes = [Node("slow", 8, kind="T4"), Node("fast", 4, kind="A100")]
    return ServingScene({"chat": service}, nodes, PRICES)


def steps(rates: list[float], each_s: float, slo_s: float = 0.2) -> Iterator[Request]:
    """At even distances, at one rate after the other."""
    for number, rate in enumerate(rates):
        for n in range(int(rate * each_s)):
            at = number * each_s + n / rate
            yield Request(at, "chat", at + slo_s)


def hours(outcome: ServingOutcome) -> dict[str, float]:
    return {kind: seconds / 3600.0 for kind, seconds in outcome.fleet.gpu_seconds.items()}


def test_a_small_load_stays_on_the_cheap_gpu_and_a_large_one_goes_to_the_fast() -> None:
    """A T4 answers 50 a second for 1, an A100 500 for 6: from 300 on the A100 is cheaper."""
    small = simulate(mixed(), "infaas", steps([20.0], 600.0))
    assert hours(small)["T4"] > 10.0 * hours(small)["A100"]  # where the first replica was
    large = simulate(mixed(), "infaas", steps([20.0, 380.0], 200.0))
    assert hours(large)["A100"] > 0.04
    assert large.summary()["slo_attainment"] > 0.8


def test_the_fast_gpu_goes_back_after_the_load_has() -> None:
    found = simulate(mixed(), "infaas:check_s=2", steps([20.0, 380.0, 20.0], 200.0))
    assert [awake for _, group, awake, _ in found.fleet.changes if group == "chat@A100"][-1] == 0
    assert found.summary()["slo_attainment"] > 0.9


def test_who_asks_for_accuracy_is_answered_by_the_large_model() -> None:
    small = ServedModel("small", AffineLatency(0.0, 0.001), max_batch=8, accuracy=0.8, start_s=1.0)
    latency = AffineLatency(0.0, 0.01)

    def busy(least: float) -> set[str]:
        large = ServedModel(
            "chat",
            latency,
            slo_s=0.2,
            max_batch=8,
            accuracy=0.95,
            least_accuracy=least,
            variants=(small,),
            most=4,
            start_s=1.0,
        )
        own = ServingScene({"chat": large}, [Node("n", 4)])
        found = simulate(own, "infaas:check_s=2", steps([150.0], 60.0))
        changes = [(group, awake) for _, group, awake, _ in found.fleet.changes]
        return {group for group, awake in changes if awake and (group, 0) not in changes[-3:]}

    assert any(group.startswith("chat/small") for group in busy(0.5))
    assert not any(group.startswith("chat/small") for group in busy(0.9))


def test_a_forecast_goes_on_with_the_trend_and_ends_it() -> None:
    rising = forecast([10.0, 20.0, 30.0, 40.0], 12)
    assert rising[0] == 40.0
    assert rising[5] > rising[1] > 35.0
    assert rising[-1] < 120.0
    assert forecast([7.0], 3) == [7.0, 7.0, 7.0]


@pytest.mark.parametrize("policy", ["infaas", "mark"])
def test_every_request_has_an_end(policy: str) -> None:
    asked = list(make("bursty:rate=100:seconds=60").requests("chat", 0.2, 1))
    assert simulate(mixed(), policy, iter(asked)).summary()["requests"] == len(asked)


def day(own: ServingScene, policy: str, seed: int = 0) -> tuple[float, float]:
    made = make("daily:rate=60:seconds=600:day_s=600")
    row = simulate(own, policy, made.requests("chat", 0.2, seed)).summary()
    return float(row["cost"]), float(row["slo_attainment"])


def test_mark_keeps_the_slo_for_less_than_who_buys_for_the_peak() -> None:
    cost, kept = day(mixed(start_s=10.0), "mark:step_s=5")
    always, _ = day(mixed(least=5, most=5, kind="T4"), "static")
    assert cost < always
    assert kept > 0.97


def test_mark_costs_less_than_the_present_load_alone_where_both_keep_the_slo_as_well() -> None:
    """Ten seeds of a short day: whoever does not look ahead needs more headroom for the same."""

    ahead, now = (
        [day(mixed(start_s=10.0), f"mark:step_s=5:{how}", seed) for seed in range(10)]
        for how in ("steps=12:headroom=1.2", "steps=1:headroom=1.3")
    )
    assert mean(kept for _, kept in ahead) >= mean(kept for _, kept in now) - 0.0005
    assert mean(cost for cost, _ in ahead) <= mean(cost for cost, _ in now)
