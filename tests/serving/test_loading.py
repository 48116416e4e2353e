"""Clockwork with more models than GPU memory: cold ones are loaded, and served if that is in time."""

from __future__ import annotations

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate

POLICY = "clockwork:gpu_memory_gb=16"


def run(slo_s: float, *requests: tuple[float, str], gpus: int = 1) -> ServingOutcome:
    """Of two models one fits into a GPU; the warm one is there at first."""
    models = {
        name: ServedModel(
            name, AffineLatency(0.01), slo_s, wake_s=0.1, memory_gb=10.0, share=500 * gpus
        )
        for name in ("warm", "cold")
    }
    scene = ServingScene(models, [Node("n", gpus)])
    return simulate(scene, POLICY, [Request(at, name, at + slo_s) for at, name in requests])


def test_a_cold_model_is_served_if_loading_and_answering_are_in_time() -> None:
    whole = run(0.12, (0.0, "cold")).tally.whole()
    assert (whole.served, whole.good) == (1, 1)
    assert whole.latency.most == pytest.approx(0.11)


def test_else_its_request_is_dropped_and_the_next_one_finds_it_there() -> None:
    found = run(0.05, (0.0, "cold"), (0.2, "cold")).tally.whole()
    assert (found.served, found.dropped) == (1, 1)
    assert found.latency.most == pytest.approx(0.01)


def test_the_model_unused_for_longest_makes_way() -> None:
    found = run(0.12, (0.0, "warm"), (0.2, "cold"), (0.5, "cold"), (0.8, "warm")).tally.by_service
    assert found["cold"].latency.total == pytest.approx(0.11 + 0.01)
    assert found["warm"].latency.total == pytest.approx(0.01 + 0.11)


def test_what_is_there_on_one_gpu_is_served_there() -> None:
    both = [(0.3 + step * 0.05, name) for step in range(9) for name in ("cold", "warm")]
    found = run(0.12, (0.0, "cold"), *both, gpus=2).tally.whole()
    assert found.dropped == 0


def test_a_model_that_fits_nowhere_is_told() -> None:
    models = {"warm": ServedModel("warm", AffineLatency(0.01), memory_gb=10.0)}
    scene = ServingScene(models, [Node("n", 1)])
    with pytest.raises(BadInput, match="service 'warm' needs 10 GB of GPU memory, a GPU has 8"):
        simulate(scene, "clockwork:gpu_memory_gb=8", [Request(0.0, "warm")])
