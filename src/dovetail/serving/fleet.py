"""Which servers there are over time: they start cold, become ready, sleep, wake and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Protocol

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.serving.engine import RequestEngine
from dovetail.serving.server import Server, ServerGroup, ServerSeat, ServerStage
from dovetail.serving.service import ServedModel
from dovetail.text.counting import counted

HOLDS_A_GPU = (ServerStage.STARTING, ServerStage.READY, ServerStage.DRAINING)
Heard = Callable[[Server], None]


class Lender(Protocol):
    """Uses idle GPUs, and gives them up."""

    def make_room(self, seat: ServerSeat) -> Seconds | None:
        """After how long there is a GPU for the seat; nothing if there is none to give."""

    def loss(self, seat: ServerSeat) -> float:
        """GPU-seconds that making room for the seat would cost."""

    def fill(self) -> None:
        """GPUs have become free."""


class Fleet:
    """It holds GPUs, and tells the controller who joins and who leaves."""

    def __init__(
        self, engine: RequestEngine, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> None:
        self.services = services
        self.gpus = gpus  # the kind of each
        self.free = [WHOLE_GPU] * len(gpus)  # thousandths
        self.groups: dict[str, ServerGroup] = {}
        self.servers: dict[str, list[Server]] = {}  # by group, the gone ones left out
        self.changes: list[tuple[float, str, int, int]] = []  # when, group, awake, asleep
        self.gpu_seconds: dict[str, float] = {}  # by kind
        self.busy_s = 0.0  # GPU-seconds in batches
        self.joined: Heard = lambda server: None
        self.left: Heard = lambda server: None
        self.lender: Lender | None = None  # who has the GPUs that no server needs
        self._engine = engine
        self._numbers = 0

    def open(self, groups: Sequence[ServerGroup]) -> None:
        """The servers of the beginning are ready at once."""
        for group in groups:
            self.groups[group.seat.group] = group
            self.servers.setdefault(group.seat.group, [])
            for _ in range(group.begin):
                if self._gpu_for(group.seat) is None:
                    raise BadInput(self._no_room(groups))
                self._ready(self._start(group.seat))

    def _no_room(self, groups: Sequence[ServerGroup]) -> str:
        need = sum(group.begin * group.seat.share for group in groups) / WHOLE_GPU
        kinds = sorted({group.seat.kind for group in groups if group.seat.kind})
        of = f" (some of kind {', '.join(kinds)})" if kinds else ""
        have = counted(len(self.gpus), "GPU")
        return (
            f"the replicas of the services need {need:g} GPUs{of}, the cluster has {have}; give fewer "
            "replicas or a larger --cluster"
        )

    # ------------------------------------------------------------------------------------- how many

    def awake(self, group: str) -> int:
        """Those that answer or will soon."""
        return sum(
            own.stage in (ServerStage.STARTING, ServerStage.READY) for own in self.servers[group]
        )

    def ready(self, group: str) -> int:
        return sum(own.stage is ServerStage.READY for own in self.servers[group])

    def asleep(self, group: str) -> int:
        return sum(own.stage is ServerStage.ASLEEP for own in self.servers[group])

    def want(self, group: str, count: int) -> None:
        """So many awake, as far as there are GPUs. Who sleeps is woken before one is started."""
        while self.awake(group) < count and self._one_more(group):
            pass
        while self.awake(group) > count:
            self._one_less(group)

    def _one_more(self, group: str) -> bool:
        """Who sleeps, before all where a GPU is free; else a new one."""
        seat = self.groups[group].seat
        sleeping = [own for own in self.servers[group] if own.stage is ServerStage.ASLEEP]
        for server in sorted(sleeping, key=lambda own: self.free[own.gpu] < own.share):
            wait_s = self._room(seat._replace(gpu=server.gpu))
            if wait_s is not None:
                self.free[server.gpu] -= server.share
                self._enter(server, ServerStage.STARTING)
                self._ready_in(server, wait_s, self._slowest(seat, "wake_s"))
                return True
        wait_s = self._room(seat)
        if wait_s is None:
            return False
        self._ready_in(self._start(seat), wait_s, self._slowest(seat, "start_s"))
        return True

    def ready_in_s(self, group: str) -> Seconds:
        """How long one more would take."""
        seat = self.groups[group].seat
        return self._slowest(seat, "wake_s" if self.asleep(group) else "start_s")

    def _slowest(self, seat: ServerSeat, field: str) -> Seconds:
        return max(float(getattr(self.services[name], field)) for name in seat.services)

    def has_room(self, seat: ServerSeat) -> bool:
        return self._gpu_for(seat) is not None

    def _room(self, seat: ServerSeat) -> Seconds | None:
        """After how long there is a GPU for it; nothing: there is none, and nobody gives way."""
        if self._gpu_for(seat) is not None:
            return 0.0
        return self.lender.make_room(seat) if self.lender else None

    def _ready_in(self, server: Server, wait_s: Seconds, seconds: Seconds) -> None:
        """Until it has its GPU, that is not counted as its own."""
        server.since = self._engine.now + wait_s
        server.ends = server.since + seconds
        self._engine.at(server.ends, self._ready_if_wanted, server)

    def _one_less(self, group: str) -> None:
        """The youngest; one that is not ready yet before one that works."""
        awake = [
            own
            for own in self.servers[group]
            if own.stage in (ServerStage.STARTING, ServerStage.READY)
        ]
        server = max(
            awake, key=lambda own: (own.stage is ServerStage.STARTING, own.since, own.number)
        )
        was_ready = server.stage is ServerStage.READY
        self._enter(server, ServerStage.DRAINING)
        if was_ready:
            self.left(server)
        if server.batch is None:
            self.drained(server)

    # ---------------------------------------------------------------------------------- one server

    def _start(self, seat: ServerSeat) -> Server:
        """There is room."""
        gpu = self._gpu_for(seat)
        assert gpu is not None
        kind = self.gpus[gpu]
        seconds = {name: self.services[name].seconds(kind, seat.share) for name in seat.services}
        server = Server(self._numbers, seat, gpu, kind, seconds)
        self._numbers += 1
        server.since = self._engine.now
        self.free[gpu] -= seat.share
        self.servers[seat.group].append(server)
        self._note(seat.group)
        return server

    def _gpu_for(self, seat: ServerSeat) -> int | None:
        """The fullest that has room; the first of those."""
        fits = [
            (room, gpu)
            for gpu, room in enumerate(self.free)
            if room >= seat.share
            and (not seat.kind or self.gpus[gpu] == seat.kind)
            and seat.gpu in (-1, gpu)
        ]
        return min(fits)[1] if fits else None

    def _ready_if_wanted(self, server: Server) -> None:
        if server.stage is ServerStage.STARTING and server.ends == self._engine.now:
            server.ends = inf
            self._ready(server)

    def _ready(self, server: Server) -> None:
        server.was_ready = True
        self._enter(server, ServerStage.READY)
        self.joined(server)

    def drained(self, server: Server) -> None:
        """It has ended its last batch: it sleeps, or goes. One that never was ready has no weights."""
        may_sleep = [self.services[name].idle_s is not None for name in server.seat.services]
        sleeps = server.was_ready and all(may_sleep)
        server.ends = inf
        self._enter(server, ServerStage.ASLEEP if sleeps else ServerStage.GONE)
        self.free[server.gpu] += server.share
        if not sleeps:
            self.servers[server.group].remove(server)
        self._note(server.group)
        if self.lender:
            self.lender.fill()

    def close(self) -> None:
        """The end of the run: what is still there is counted to now."""
        for servers in self.servers.values():
            for server in servers:
                self._enter(server, server.stage)

    def _enter(self, server: Server, stage: ServerStage) -> None:
        now = self._engine.now
        if server.stage in HOLDS_A_GPU:
            held = max(now - server.since, 0.0) * server.part
            self.gpu_seconds[server.kind] = self.gpu_seconds.get(server.kind, 0.0) + held
        server.stage, server.since = stage, now
        self._note(server.group)

    def _note(self, group: str) -> None:
        self.changes.append((self._engine.now, group, self.awake(group), self.asleep(group)))
