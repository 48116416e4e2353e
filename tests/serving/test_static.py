"""Static batching against closed forms of queueing."""

from __future__ import annotations

from math import inf

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make


def run(traffic: str, policy: str = "static", **service: object) -> ServingOutcome:
    latency = service.pop("latency", AffineLatency(0.004, 0.002))
    model = ServedModel("m", latency, **service)  # type: ignore[arg-type]
    scene = ServingScene({"m": model}, [Node("n", 8)])
    return simulate(scene, policy, make(traffic).requests("m", model.slo_s, 1))


def test_a_server_of_one_request_at_a_time_is_the_queue_of_the_book() -> None:
    """M/D/1 at 80 a second and 10 ms: 30 ms in the system on average."""
    found = run("poisson:rate=80:seconds=5000", latency=AffineLatency(0.0, 0.01))
    assert found.summary()["mean_latency_s"] == pytest.approx(0.030, rel=0.02)


@pytest.mark.parametrize(("batch", "rate"), [(3, 300), (8, 400)])
def test_a_full_server_answers_a_batch_every_time_it_takes(batch: int, rate: int) -> None:
    found = run("poisson:rate=1000:seconds=60", max_batch=batch)
    whole = found.tally.whole()
    assert whole.served / (found.ended - found.began) == pytest.approx(rate, rel=0.01)


def test_a_batch_waits_for_company_no_longer_than_it_may() -> None:
    latency = AffineLatency(0.004, 0.002)
    scene = ServingScene({"m": ServedModel("m", latency, max_batch=4)}, [Node("n", 1)])
    alone = simulate(scene, "static:wait_ms=5", [Request(1.0, "m")])
    assert alone.ended == pytest.approx(1.0 + 0.005 + 0.006)
    full = simulate(scene, "static:wait_ms=5", [Request(1.0, "m")] * 4)
    assert full.ended == pytest.approx(1.0 + 0.012)


def test_nothing_is_dropped_and_gpu_hours_are_those_of_the_replicas() -> None:
    found = run("poisson:rate=100:seconds=10", least=3, most=3)
    summary = found.summary()
    assert summary["dropped"] == 0
    assert summary["gpu_hours"] == pytest.approx(3 * (found.ended - found.began) / 3600)
    assert found.tally.by_service["m"].good == summary["served"]  # no SLO: all are in time
    assert found.ended < inf
