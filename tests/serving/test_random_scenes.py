"""What every serving policy must keep, on scenes made by chance."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chances import CHANCES
from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Node
from dovetail.serving.latency import AffineLatency, LatencyPoint, LatencyTable
from dovetail.serving.request import Request
from dovetail.serving.rules import BUILTIN, make
from dovetail.serving.service import PipelineStep, ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate

QUICK = {  # so that runs of seconds see every part of a policy
    "gpulet": "gpulet:epoch_s=3",
    "igniter": "igniter:epoch_s=3",
    "alpaserve": "alpaserve:epoch_s=3",
    "infaas": "infaas:check_s=1:patience=2",
    "mark": "mark:step_s=1:steps=4",
    "inferline": "inferline:plan_s=8:tune_s=1",
}
TEXTS = [QUICK.get(name, name) for name in BUILTIN if name != "continuous"]  # of language models
KINDS = ("A100", "T4")


def latency(chance: Random) -> AffineLatency | LatencyTable:
    fixed, each = chance.choice([0.0, 0.004, 0.02]), chance.choice([0.001, 0.004])
    if chance.random() < 0.6:
        return AffineLatency(fixed, each)
    at = chance.choice([200, 400, 1000])
    return LatencyTable(
        [
            LatencyPoint(b, (fixed + each * b) * slow * max(at / share, 1.0), kind, share)
            for b in (1, 8)
            for kind, slow in zip(KINDS, (1.0, 3.0), strict=True)
            for share in sorted({25, at, 1000})
        ]
    )


def inner(chance: Random, name: str) -> ServedModel:
    return ServedModel(
        name, latency(chance), max_batch=chance.choice([1, 4]), kind=chance.choice(["", "A100"]),
        accuracy=chance.random(), start_s=chance.choice([0.0, 2.0]), wake_s=0.5,
    )  # fmt: skip


def service(chance: Random, name: str) -> ServedModel:
    least = chance.randint(0, 2)
    more: dict[str, Any] = {}
    if chance.random() < 0.4:
        more["variants"] = (inner(chance, "small"),)
    elif chance.random() < 0.4:
        more["steps"] = (
            PipelineStep(inner(chance, "one")),
            PipelineStep(inner(chance, "two"), ("one",), chance.choice([0.0, 0.4, 1.0])),
        )
    return ServedModel(
        name,
        latency(chance),
        slo_s=chance.choice([0.002, 0.05, 0.3]),
        max_batch=chance.choice([1, 4, 16]),
        least=least,
        most=max(least + chance.randint(0, 2), 1),
        share=chance.choice([1000, 1000, 500, 300]),
        idle_s=chance.choice([None, 3.0]),
        start_s=chance.choice([0.0, 3.0]),
        wake_s=chance.choice([0.0, 1.0]),
        rate_per_s=chance.choice([None, 20.0]),
        pressure=chance.choice([0.0, 0.5]),
        sensitivity=chance.choice([0.0, 0.5]),
        least_accuracy=chance.choice([0.0, 0.5]),
        **more,
    )


def scene_by(chance: Random) -> ServingScene:
    names = [f"s{number}" for number in range(chance.randint(1, 3))]
    nodes = [Node("a", chance.randint(3, 6), kind="A100"), Node("t", 6, kind="T4")]
    prices = {"A100": chance.choice([0.0, 3.0]), "T4": 1.0}
    return ServingScene({name: service(chance, name) for name in names}, nodes, prices)


def asked(chance: Random, own: ServingScene) -> list[Request]:
    """Bursts and pauses, and now and then a request with no deadline."""
    at, found = chance.uniform(0.0, 50.0), []
    for _ in range(chance.randint(0, 250)):
        at += chance.choice([0.0, 0.001, 0.02, 0.1, chance.uniform(0.0, 3.0) ** 2])
        one = chance.choice(list(own.services.values()))
        slo_s = float("inf") if chance.random() < 0.02 else one.slo_s
        found.append(Request(at, one.name, at + slo_s))
    return found


def run(own: ServingScene, text: str, requests: list[Request]) -> ServingOutcome | None:
    try:
        return simulate(own, text, iter(requests))
    except BadInput:
        return None  # too few GPUs to begin with


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=25)
@given(chance=CHANCES)
def test_every_request_ends_once_and_no_gpu_is_oversold(text: str, chance: Random) -> None:
    own = scene_by(chance)
    requests = asked(chance, own)
    found = run(own, text, requests)
    if found is None:
        return
    row = found.summary()
    assert row["requests"] == len(requests) == row["served"] + row["dropped"]
    assert all(0 <= room <= WHOLE_GPU for room in found.fleet.free)
    span = found.ended - found.began
    assert row["gpu_hours"] * 3600.0 <= len(own.gpus) * span + 1e-6
    assert row["cost"] >= 0.0
    for name, tally in found.tally.by_service.items():
        assert tally.requests == sum(one.service == name for one in requests)
        assert tally.good <= tally.served


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=5)
@given(seed=st.integers(0, 10_000))
def test_the_same_scene_gives_the_same_figures(text: str, seed: int) -> None:
    def once() -> tuple[object, ...]:
        chance = Random(seed)
        own = scene_by(chance)
        found = run(own, text, asked(chance, own))
        return () if found is None else (found.summary(), found.fleet.changes)

    assert once() == once()


def test_every_policy_is_tried() -> None:
    assert [make(text) for text in TEXTS]
