"""Services side by side on parts of GPUs, simulated: gpulet and iGniter."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import LatencyPoint, LatencyTable
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from serving_scenes import scene, traffic

SHARES = (25, 100, 200, 400, 500, 600, 800, 1000)


def saturating(at: int) -> LatencyTable:
    """4 ms and 2 ms for each request on as much of a GPU as it can use; in proportion on less."""
    return LatencyTable(
        [
            LatencyPoint(b, (0.004 + 0.002 * b) * max(at / share, 1.0), share=share)
            for b in (1, 2, 64)
            for share in SHARES
        ]
    )


def models(services: int, at: int = 400, **more: Any) -> dict[str, ServedModel]:
    names = [f"m{number}" for number in range(services)]
    latency = saturating(at)
    return {
        name: ServedModel(name, latency, slo_s=0.04, max_batch=16, wake_s=0.0, **more)
        for name in names
    }


def side_by_side(gpus: int, services: int, at: int = 400, **more: Any) -> ServingScene:
    """As many GPUs as the replicas would have that the services ask for."""
    each, share = max(gpus // services, 1), min(1000 * gpus // services, 1000)
    own = models(services, at, **more)
    own = {name: replace(one, least=each, most=each, share=share) for name, one in own.items()}
    return ServingScene(own, [Node("n", gpus)])


@pytest.mark.parametrize("policy", ["gpulet", "igniter"])
def test_without_interference_and_with_exact_latencies_nobody_is_late(policy: str) -> None:
    own = side_by_side(4, 2)
    found = simulate(own, policy, traffic(own, "poisson:rate=150:seconds=30")).tally.whole()
    assert found.served == found.good
    assert found.dropped < 0.01 * found.requests


def attainment(own: ServingScene, policy: str, text: str, seed: int = 0) -> float:
    return float(simulate(own, policy, traffic(own, text, seed)).summary()["slo_attainment"])


def test_parts_side_by_side_serve_more_than_turns_where_models_saturate_below_a_whole_gpu() -> None:
    """Spatial sharing is at least as good as sharing in time, over ten seeds of bursts."""
    own = side_by_side(2, 4)
    text = "bursty:rate=250:seconds=12"
    means = {
        policy: mean(attainment(own, policy, text, seed) for seed in range(10))
        for policy in ("gpulet:split=false", "nexus", "gpulet")
    }
    assert means["gpulet"] >= means["nexus"]
    assert means["gpulet"] >= means["gpulet:split=false"] + 0.05


def test_where_models_use_a_whole_gpu_parts_are_no_use_and_no_harm() -> None:
    own = side_by_side(2, 2, at=1000)
    text = "poisson:rate=200:seconds=12"
    whole, split = (attainment(own, policy, text) for policy in ("gpulet:split=false", "gpulet"))
    assert split >= whole - 0.02


def test_igniter_gives_neighbours_that_disturb_each_other_more_of_the_gpu() -> None:
    """Who plans with the interference that there is keeps the SLO."""
    rude = side_by_side(4, 4, pressure=1.0, sensitivity=0.3)
    text = "poisson:rate=60:seconds=20"
    assert attainment(rude, "igniter", text) > 0.97


@pytest.mark.parametrize("policy", ["gpulet", "igniter"])
def test_more_than_the_gpus_can_answer_is_refused_and_the_rest_is_in_time(policy: str) -> None:
    own = side_by_side(1, 2)
    found = simulate(own, policy, traffic(own, "poisson:rate=2000:seconds=8")).tally.whole()
    assert found.good == found.served > 0.05 * found.requests


@pytest.mark.parametrize("policy", ["gpulet", "igniter", "gpulet:split=false"])
def test_every_request_has_an_end_whatever_the_cluster(policy: str) -> None:
    for gpus, services in ((1, 1), (3, 5), (2, 1)):
        own = scene(gpus, services) if services <= gpus else side_by_side(gpus, services)
        asked = list(traffic(own, "bursty:rate=100:seconds=5"))
        assert simulate(own, policy, iter(asked)).summary()["requests"] == len(asked)


@pytest.mark.parametrize("policy", ["gpulet", "igniter"])
def test_the_same_seed_gives_the_same_figures(policy: str) -> None:
    own = side_by_side(2, 3)
    once, again = (
        simulate(own, policy, traffic(own, "bursty:rate=200:seconds=6")).summary() for _ in range(2)
    )
    assert once == again
