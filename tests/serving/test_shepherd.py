"""Shepherd: when a batch gives way to a larger one, and what that loses at worst."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.rules.in_time import LargestFirst, ShepherdPool
from dovetail.serving.rules.pooled import WorkItem
from dovetail.serving.server import Server, ServerSeat
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate

WORST = 12.62  # so many times what it serves could have been served, at most
SECOND = ServedModel("m", AffineLatency(1.0, 0.0), slo_s=1.0, max_batch=2000)

Waves = list[tuple[float, int]]  # when, and how many requests, which have to begin at once


def served(waves: Waves) -> int:
    requests = [Request(at, "m", at + 1.0) for at, size in waves for _ in range(size)]
    scene = ServingScene({"m": SECOND}, [Node("n", 1)])
    return simulate(scene, "shepherd", requests).tally.whole().good


def could_be_served(waves: Waves) -> int:
    """The best choice of waves of which no two overlap, made by who knows them all."""
    best = [0]
    for number, (at, size) in enumerate(waves):
        before = sum(other + 1.0 <= at for other, _ in waves[:number])
        best.append(max(best[-1], best[before] + size))
    return best[-1]


@pytest.mark.parametrize(("size", "gives_way"), [(12, False), (13, True)])
def test_a_batch_of_four_gives_way_to_thirteen_and_not_to_twelve(
    size: int, gives_way: bool
) -> None:
    seconds = SECOND.seconds()
    server = Server(0, ServerSeat("m", ("m",)), 0, "", {"m": seconds})
    server.batch = WorkItem("m", [Request(0.0, "m")] * 4)
    rule = LargestFirst(ShepherdPool(), {"m": SECOND})
    lines = {"m": deque([Request(0.5, "m", 1.5)] * size)}
    assert (rule.displaced(0.5, "m", lines, [server]) is server) == gives_way


@pytest.mark.parametrize("growth", [1.5, 3.0, 3.1, 10.0])
def test_waves_that_grow_lose_no_more_than_is_promised(growth: float) -> None:
    waves = [(0.9 * step, max(int(4 * growth**step), 1)) for step in range(9)]
    waves = [(at, min(size, 1_000)) for at, size in waves]
    assert served(waves) * WORST >= could_be_served(waves)


def test_waves_by_chance_lose_no_more_than_is_promised() -> None:
    chance = Random(5)
    for _ in range(50):
        times = sorted(chance.uniform(0.0, 8.0) for _ in range(12))
        waves = [(at, int(10 ** chance.uniform(0.0, 2.5))) for at in times]
        assert served(waves) * WORST >= could_be_served(waves)
