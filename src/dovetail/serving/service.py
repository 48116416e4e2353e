"""A service as a simulation knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.serving.latency import Latency, by_batch

START_S = 45.0  # a cold start; people report 40 to 60 s for a language model of 8 GB
WAKE_S = 2.0  # a replica whose weights wait in host memory


@dataclass(frozen=True)
class ServedModel:
    """A service: its model, how fast it is, and how many replicas it may have."""

    name: str
    latency: Latency
    slo_s: float = inf
    max_batch: int = 1
    least: int = 1  # replicas
    most: int = 1
    share: int = WHOLE_GPU  # of a GPU, in thousandths, for each replica
    kind: str = ""  # of GPU; empty: any
    scaling: str = "reactive"  # the rule, if `least` is below `most`
    idle_s: float | None = None  # a replica not needed for so long sleeps; None: it ends
    start_s: float = START_S  # of a replica, cold
    wake_s: float = WAKE_S  # of one that sleeps
    percentile: float = 99.0  # of the answers that should keep the SLO
    rate_per_s: float | None = None  # of requests, as far as it is known before any came
    memory_gb: float = 0.0  # of its weights
    pressure: float = 0.0  # what it takes of caches and bandwidth that others on its GPU use too
    sensitivity: float = 0.0  # how much longer it takes, as a part, for each unit of such pressure
    accuracy: float = 1.0  # how good its answers are
    least_accuracy: float = 0.0  # how good they have to be
    variants: tuple[ServedModel, ...] = ()  # other models, or other ways, to answer the same
    steps: tuple[PipelineStep, ...] = ()  # the models that a request goes through, in order

    def __post_init__(self) -> None:
        own = f"service {self.name!r}"
        if not self.slo_s > 0:
            raise BadInput(f"{own}: slo_ms is above 0")
        if self.max_batch < 1:
            raise BadInput(f"{own}: max_batch is at least 1")
        if not 0 <= self.least <= self.most or self.most < 1:
            raise BadInput(f"{own}: {self.least} to {self.most} replicas cannot be")
        if not 0 < self.share <= WHOLE_GPU:
            raise BadInput(f"{own}: share is from 1 to {WHOLE_GPU} thousandths of a GPU")

    def seconds(self, kind: str = "", share: int | None = None) -> list[float]:
        """By batch size, from 0 to one more than the largest."""
        return by_batch(self.latency, self.max_batch + 1, kind, share or self.share)

    @property
    def ways(self) -> tuple[ServedModel, ...]:
        """All that can answer its requests alone."""
        return (self, *self.variants)


class PipelineStep(NamedTuple):
    """A model that `part` of the requests go through, after those steps."""

    model: ServedModel
    after: tuple[str, ...] = ()
    part: float = 1.0


def with_parts(services: Mapping[str, ServedModel]) -> dict[str, ServedModel]:
    """All models that servers may have: also variants and steps, as `chat/small`."""
    found = dict(services)
    for name, own in services.items():
        for inner in (*own.variants, *[step.model for step in own.steps]):
            found[f"{name}/{inner.name}"] = inner
    return found
