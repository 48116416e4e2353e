"""Services on this machine: replicas share its ports, gateways are processes of their users."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from dovetail.core.model import JobId
from dovetail.worlds.gateway_settings import GatewaySettings
from dovetail.worlds.hosting import Endpoint, GatewayOrder
from dovetail.worlds.local.services import ports
from dovetail.worlds.local.services.door import ProcessDoor


class LocalHosting:
    """`folder` has one of the daemon's alone for each gateway."""

    replica_host = ports.HOST

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def why_not(
        self, name: str, tenant: str, listen: int | None, port: int | None, most: int
    ) -> str:
        if port is not None and most > 1:
            return (
                f"port: {most} replicas cannot share one port of a machine; leave it out and write "
                "{port} in the command"
            )
        if listen is not None and not ports.is_free(listen):
            return f"listen: port {listen} is taken; choose another, or leave it out"
        if port is not None and not ports.is_free(port):
            return (
                f"port: {port} is taken by another process; choose another, or leave it out and write "
                "{port} in the command"
            )
        return ""

    def address_port(self, listen: int | None) -> int:
        return listen or ports.free_port()

    def replica_port(self, port: int | None, taken: Collection[int]) -> int:
        if port is not None:
            return port
        while (found := ports.free_port()) in taken:
            pass
        return found

    def address(self, service: str, tenant: str, port: int) -> str:
        return f"http://{Endpoint(ports.HOST, port)}"

    def endpoint(self, job_id: JobId, port: int) -> Endpoint | None:
        return Endpoint(ports.HOST, port)

    def waits_for(self, job_id: JobId) -> str:
        return ""

    def stranger_at(self, endpoint: Endpoint, uid: int | None) -> str:
        return ports.stranger_at(endpoint.port, uid)

    def door(self, order: GatewayOrder) -> ProcessDoor:
        folder = self._folder / order.id
        settings = GatewaySettings(
            service=order.service,
            host=order.host,
            port=order.port,
            control=str(folder / "line"),
            slo_s=order.slo_s,
            bounds=order.bounds,
            network=order.network,
            tls=order.tls,
            percentile=order.percentile,
        )
        return ProcessDoor(folder, settings, order.account_of)

    def end_all_but(self, known: Collection[str]) -> None:
        """A gateway ends once its folder is removed."""
        for folder in self._folder.glob("*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
