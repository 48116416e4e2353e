"""A server: a GPU, or a share of one, that does one batch at a time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Any, NamedTuple

from dovetail.core.model import WHOLE_GPU


class ServerStage(Enum):
    """Where a server is in its life."""

    STARTING = "starting"  # cold, or woken: it holds its GPU and answers nothing
    READY = "ready"
    DRAINING = "draining"  # it ends its batch and goes
    ASLEEP = "asleep"  # without GPU
    GONE = "gone"


class ServerSeat(NamedTuple):
    """A place for a server: which models it has, and where. Servers of one group are scaled together: a
    replica's group is its service."""

    group: str
    services: tuple[str, ...]
    share: int = WHOLE_GPU
    kind: str = ""  # of GPU; empty: any
    gpu: int = -1  # its number in the cluster; -1: any


class ServerGroup(NamedTuple):
    """Equal servers: at first `begin` of them; a scaling rule has between `least` and `most`."""

    seat: ServerSeat
    begin: int
    least: int
    most: int

    @classmethod
    def fixed(cls, seat: ServerSeat, count: int = 1) -> ServerGroup:
        return cls(seat, count, count, count)


class Server:
    """It has the models of one service (a replica) or of several. `batch` is what it does now: a list
    of requests, or anything that its controller understands, such as one iteration of a language
    model; None: nothing."""

    __slots__ = (
        *("batch", "busy_s", "ends", "gpu", "group", "kind", "notes", "number"),
        *("seat", "seconds", "share", "since", "stage", "was_ready"),
    )

    def __init__(
        self, number: int, seat: ServerSeat, gpu: int, kind: str, seconds: Mapping[str, list[float]]
    ) -> None:
        self.number = number
        self.seat = seat
        self.group = seat.group
        self.share = seat.share
        self.gpu = gpu  # its number in the cluster
        self.kind = kind
        self.seconds = seconds  # by service, then by batch size
        self.stage = ServerStage.STARTING
        self.since = 0.0  # it is in this stage
        self.was_ready = False
        self.batch: Any = None
        self.ends = inf  # when the batch will have ended, or it will be ready
        self.busy_s = 0.0
        self.notes: Any = None  # its controller's own

    @property
    def part(self) -> float:
        """Of a GPU."""
        return self.share / WHOLE_GPU
