"""Services in simulation: how fast it is, and two public simulators beside it on the same requests."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from time import process_time

from benchmarks import serving_alpaserve, serving_speed, serving_vidur
from benchmarks.lines import Line
from dovetail.core.model import Node
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.settings import LanguageModel
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from dovetail.serving.traffic.catalogue import make as traffic

TRAFFIC = "poisson:rate=6:seconds=10000:prompt_tokens=1000:output_tokens=200"
WANTED = 50_000  # requests a CPU-second


def measured() -> Iterator[Line]:
    """Requests a CPU-second; memory of a day; Vidur; AlpaServe."""
    yield from serving_speed.measured()
    for replicas in (1, 4):
        for policy in ("continuous", "continuous:prefill=alone"):
            yield speed(policy, replicas)
    yield from serving_vidur.measured()
    yield from serving_alpaserve.measured()


def speed(policy: str, replicas: int) -> Line:
    model = LanguageModel(serving_vidur.COSTS, KvSize(30_000))
    service = ServedModel("chat", model, 20.0, 256, replicas, replicas)
    requests = list(traffic(TRAFFIC).requests("chat", inf, 1))
    scene = ServingScene({"chat": service}, [Node("n", 8)])
    began = process_time()
    simulate(scene, policy, requests)
    rate = len(requests) / (process_time() - began)
    what = f"{policy} on {replicas}: requests a CPU-second"
    return Line(what, f"{rate:,.0f}", f"at least {WANTED:,}", rate >= WANTED)
