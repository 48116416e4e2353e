"""Berths: a resource that each node with an agent advertises several times for each GPU.

A pod that is suspended keeps its berth, and another computes on its GPU meanwhile: who may run is the
controller's to count. The number is written into the status of the node, where its kubelet keeps it. It
grows when they are used up: what bounds suspended pods is the memory that they keep, not a number.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.cluster import Cluster
from dovetail.worlds.kubernetes.settings import BERTHS, Settings

_EVERY_S: Final = 1.0

log = logging.getLogger("dovetail.kubernetes")


class Berths:
    def __init__(self, api: Api, settings: Settings, cluster: Cluster) -> None:
        self._api: Final = api
        self._per_gpu: Final = 1 + settings.places
        self._cluster: Final = cluster
        self._over: Final = threading.Event()
        self._troubled: set[str] = set()
        self._thread: Final = threading.Thread(target=self._keep_on, name="berths", daemon=True)

    def start(self) -> None:
        self._advertise()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _keep_on(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._advertise()

    def _advertise(self) -> None:
        used = self._cluster.berths_used()
        for name, machine in self._cluster.inventory.machines().items():
            self._cluster.channel.open(name)
            gpus = machine.node.gpus
            wanted = max(gpus * self._per_gpu, gpus + used.get(name, 0))
            if wanted > machine.berths and self._cluster.channel.has_agent(name):
                self._write(name, wanted)

    def _write(self, name: str, berths: int) -> None:
        """Never fewer: a kubelet that starts shows no GPUs for a moment, and pods keep theirs."""
        try:
            path = f"/api/v1/nodes/{name}/status"
            self._api.patch(path, {"status": {"capacity": {BERTHS: str(berths)}}})
            self._troubled.discard(name)
        except DovetailError as error:
            if name not in self._troubled:
                log.warning("%s advertises no berths: %s", name, error)
            self._troubled.add(name)
