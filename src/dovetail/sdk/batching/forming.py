"""The interface: a rule looks at the line of one server that is free, and answers with a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

SLACK_S = 1e-9  # what rounding may take from a deadline


class BadRule(ValueError):
    """There is no such rule, or its parameters cannot be."""


class WaitingRequest(Protocol):
    """What a rule may know of a request."""

    @property
    def at(self) -> float:
        """When it came, in seconds."""

    @property
    def deadline(self) -> float:
        """When its answer is due; infinite if it has no SLO."""


class RequestLine(Protocol):
    """The requests that wait for one server, the most urgent first: a deque or a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> WaitingRequest: ...

    def __iter__(self) -> Iterator[WaitingRequest]: ...


Durations: TypeAlias = Sequence[float]  # by batch size, from 0 on: the seconds that a batch takes


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """What a batcher has to keep to. Live, `seconds` is a list that is measured and changes."""

    max_batch: int
    seconds: Durations  # at least to max_batch
    slo_s: float = inf


class Step(NamedTuple):
    """First `drop` requests at the front are given up: they cannot be in time. The next `take` are one
    batch, now. If none is taken: look again at `again_at`, or when another request comes."""

    take: int = 0
    drop: int = 0
    again_at: float = inf


class Batcher(Protocol):
    """Forms the batches of one line. It may remember what it has seen."""

    def step(self, now: float, line: RequestLine) -> Step:
        """Asked whenever its server is free and somebody waits."""

    def took(self, size: int, seconds: float) -> None:
        """A batch of that size took so long."""


class BatchRule(Protocol):
    """A frozen dataclass whose fields are the parameters."""

    def batcher(self, bounds: BatchBounds) -> Batcher: ...
