"""Services that all take 4 ms and 2 ms for each request, and requests to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request, merged
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene
from dovetail.serving.traffic.catalogue import make

LATENCY = AffineLatency(0.004, 0.002)
SLO_S = 0.02


def scene(gpus: int = 1, services: int = 1, **more: Any) -> ServingScene:
    """GPUs dealt out to the services as replicas."""
    each = max(gpus // services, 1)
    given: dict[str, Any] = {"slo_s": SLO_S, "max_batch": 8, "least": each, "most": each, **more}
    names = [f"m{number}" for number in range(services)]
    models = {name: ServedModel(name, LATENCY, **given) for name in names}
    return ServingScene(models, [Node("n", gpus)])


def traffic(own: ServingScene, text: str, seed: int = 0) -> Iterator[Request]:
    """To each service as much, by chances of its own."""
    made = make(text)
    return merged(
        made.requests(name, model.slo_s, 1000 * seed + number)
        for number, (name, model) in enumerate(own.services.items())
    )
