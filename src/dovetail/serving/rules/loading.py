"""Which models are in the memory of which GPU: loaded from the host when they are asked for, and the
one unused for longest makes way."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.serving.server import Server
from dovetail.serving.service import ServedModel


class GpuMemories:
    """Of all servers. At first each has the models that fit, in the order of the file; one is loaded at
    a time, beside the batches, in the `wake_s` of its service."""

    def __init__(self, services: Mapping[str, ServedModel], gb: float) -> None:
        self._services = services
        self._gb = gb
        self.holds_all = sum(own.memory_gb for own in services.values()) <= gb
        self._ready: dict[
            int, dict[str, Seconds]
        ] = {}  # when a model is there; unused longest first
        self._homes = dict.fromkeys(services, 0)
        self._loads_until: dict[int, Seconds] = {}
        for own in services.values():
            if own.memory_gb > gb:
                raise BadInput(
                    f"service {own.name!r} needs {own.memory_gb:g} GB of GPU memory, a GPU has {gb:g}"
                )

    def ready_at(self, server: Server, service: str) -> Seconds:
        """Infinite if it is neither there nor on its way."""
        return self._of(server).get(service, inf)

    def used(self, server: Server, service: str) -> None:
        own = self._of(server)
        own[service] = own.pop(service)

    def load(self, now: Seconds, server: Server, service: str, work_s: Seconds) -> None:
        """If nobody has it, or its line is more than those who have it can do within an SLO."""
        homes = self._homes[service]
        if homes and work_s <= homes * self._services[service].slo_s:
            return
        if self._loads_until.get(server.number, 0.0) > now:
            return
        own = self._of(server)
        while own and self._taken(own) + self._services[service].memory_gb > self._gb:
            self._homes[next(iter(own))] -= 1
            del own[next(iter(own))]
        until = now + self._services[service].wake_s
        own[service] = self._loads_until[server.number] = until
        self._homes[service] += 1

    def _of(self, server: Server) -> dict[str, Seconds]:
        own = self._ready.get(server.number)
        if own is None:
            own = self._ready[server.number] = {}
            for name in server.seat.services:
                if self._taken(own) + self._services[name].memory_gb <= self._gb:
                    own[name] = 0.0
                    self._homes[name] += 1
        return own

    def _taken(self, names: Mapping[str, Seconds]) -> float:
        return sum(self._services[name].memory_gb for name in names)
