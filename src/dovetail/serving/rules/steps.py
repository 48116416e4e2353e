"""The steps of a pipeline, and a request on its way through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.core.errors import BadInput
from dovetail.serving.request import Request
from dovetail.serving.server import Server
from dovetail.serving.service import PipelineStep, ServedModel


class StepLine:
    """What waits for a step, and who serves it."""

    __slots__ = ("batch", "free", "servers", "waiting")

    def __init__(self, step: PipelineStep) -> None:
        self.batch = step.model.max_batch
        self.servers: list[Server] = []
        self.free: list[Server] = []
        self.waiting: deque[Journey] = deque()


class Journey:
    """A request, the steps it is not through yet, and how many each of them still has to wait for."""

    __slots__ = ("gone", "missing", "request", "steps_left")

    def __init__(self, request: Request, steps: Sequence[PipelineStep]) -> None:
        self.request = request
        self.steps_left = len(steps)
        self.missing = {step.model.name: len(step.after) for step in steps}
        self.gone = False  # answered or dropped


def order_of_steps(service: ServedModel) -> tuple[PipelineStep, ...]:
    """Each after those that it waits for."""
    left, found, known = list(service.steps), list[PipelineStep](), set[str]()
    while left:
        ready = [step for step in left if known.issuperset(step.after)]
        if not ready:
            names = ", ".join(repr(step.model.name) for step in left)
            raise BadInput(
                f"service {service.name!r}: steps {names} wait for each other, or for one that there "
                "is not; let `after` name earlier steps"
            )
        found += ready
        known |= {step.model.name for step in ready}
        left = [step for step in left if step.model.name not in known]
    return tuple(found)


@dataclass(frozen=True)
class OneAfterTheOther:
    """The latency of a pipeline whose steps all run on one server: for policies that know no steps."""

    steps: tuple[PipelineStep, ...]

    def seconds(self, batch: int, kind: str, share: int) -> float:
        return sum(
            own.model.latency.seconds(max(round(own.part * batch), 1), kind, share)
            for own in self.steps
            if own.part
        )
