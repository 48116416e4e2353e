"""AlpaServe, simulated request by request."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request, merged
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from serving_scenes import scene, traffic


def two(slo_s: float = inf) -> ServingScene:
    """Models of 100 ms, one GPU's memory each, and two GPUs."""
    models = {
        name: ServedModel(name, AffineLatency(0.1, 1e-9), slo_s=slo_s, memory_gb=10.0, wake_s=0.0)
        for name in "ab"
    }
    return ServingScene(models, [Node("n", 2)])


def in_turns(length_s: float, bursts: int, gap_s: float, slo_s: float) -> Iterator[Request]:
    """A burst to one model, then to the other, and so on."""

    def of(name: str, first: float) -> Iterator[Request]:
        for burst in range(bursts):
            start = first + 2.0 * length_s * burst
            for n in range(int(length_s / 2.0 / gap_s)):
                at = start + gap_s * n
                yield Request(at, name, at + slo_s)

    return merged([of("a", 0.0), of("b", length_s)])


def attained(policy: str, own: ServingScene, requests: Iterator[Request]) -> float:
    return float(simulate(own, policy, requests).summary()["slo_attainment"])


def test_bursts_in_turns_are_answered_by_the_gpus_of_both() -> None:
    """Each model is asked 16 times a second while it is asked, which is more than one GPU answers."""
    own = two(0.5)
    found = {
        policy: attained(policy, own, in_turns(4.0, 40, 1 / 16, 0.5))
        for policy in (
            "alpaserve:gpu_memory_gb=10",
            "alpaserve:gpu_memory_gb=10:stage_overhead=3:operator_overhead=3",
        )
    }
    shared, apart = found.values()
    assert shared > 0.95
    assert apart < 0.85


def test_a_placement_needs_the_memory() -> None:
    own = two(0.5)
    assert attained("alpaserve:gpu_memory_gb=4", own, in_turns(4.0, 4, 0.5, 0.5)) == 0.0


@pytest.mark.parametrize(("gpus", "services"), [(1, 1), (4, 2), (6, 3)])
def test_every_accepted_request_is_in_time(gpus: int, services: int) -> None:
    own = scene(gpus, services)
    asked = list(traffic(own, "bursty:rate=120:seconds=6"))
    found = simulate(own, "alpaserve", iter(asked)).tally.whole()
    assert found.requests == len(asked)
    assert found.good == found.served > 0
