"""InferLine, simulated: every step of a pipeline has servers of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import PipelineStep, ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from dovetail.serving.traffic.catalogue import make
from serving_scenes import scene, traffic

SLO_S = 0.3


def video(after: str = "detect", gpus: int = 12) -> ServingScene:
    """Everything is looked at, and three in ten are read."""
    detect = ServedModel("detect", AffineLatency(0.01, 0.01), max_batch=8, start_s=2.0)
    read = ServedModel("read", AffineLatency(0.02, 0.02), max_batch=8, start_s=2.0)
    steps = (PipelineStep(detect), PipelineStep(read, (after,), 0.3))
    whole = ServedModel("video", AffineLatency(0.016, 0.016), SLO_S, 8, steps=steps)
    return ServingScene({"video": whole}, [Node("n", gpus)])


def at_rates(*rates: float, each_s: float = 60.0) -> Iterator[Request]:
    for number, rate in enumerate(rates):
        for n in range(int(rate * each_s)):
            at = number * each_s + n / rate
            yield Request(at, "video", at + SLO_S)


def most_awake(changes: list[tuple[float, str, int, int]], step: str, until: float) -> int:
    return max(n for at, group, n, _ in changes if group.startswith(f"video/{step}") and at < until)


def test_a_request_goes_through_its_steps_and_is_answered_once() -> None:
    asked = [Request(1.0 + n, "video", 1.0 + n + SLO_S) for n in range(200)]
    found = simulate(video(), "inferline", iter(asked)).summary()
    assert (found["requests"], found["served"]) == (200, 200)
    assert 0.02 + 0.2 * 0.04 < found["mean_latency_s"] < 0.02 + 0.4 * 0.04
    assert found["p50_latency_s"] == pytest.approx(0.02, rel=1e-3)
    assert found["p99_latency_s"] == pytest.approx(0.06, rel=1e-3)


def test_the_plan_keeps_the_slo_with_few_gpus() -> None:
    found = simulate(
        video(), "inferline", make("poisson:rate=60:seconds=120").requests("video", SLO_S, 1)
    )
    row = found.summary()
    assert row["slo_attainment"] > 0.93  # the first seconds have one server of each step
    assert row["gpu_hours"] * 3600 < 6 * 120


def test_where_the_rate_doubles_so_do_the_replicas_and_a_calm_takes_them_away() -> None:
    changes = simulate(video(), "inferline", at_rates(60.0, 120.0, 20.0, 20.0)).fleet.changes
    planned, grown = (most_awake(changes, "detect", until) for until in (60.0, 120.0))
    assert grown >= 2 * planned - 1 >= 1
    assert [n for _, group, n, _ in changes if group.startswith("video/detect")][-1] < grown


def test_steps_that_wait_for_each_other_are_told() -> None:
    with pytest.raises(BadInput, match="'read' wait for each other, or for one that there is not"):
        simulate(video(after="nothing"), "inferline", at_rates(10.0))


def test_a_service_without_steps_is_one_step() -> None:
    own = scene(6, 2)
    asked = list(traffic(own, "poisson:rate=100:seconds=20"))
    found = simulate(own, "inferline", iter(asked)).summary()
    assert found["requests"] == len(asked)
    assert found["slo_attainment"] > 0.9
