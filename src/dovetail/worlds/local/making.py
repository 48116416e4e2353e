"""The local world of a home: the one place that joins a daemon's settings and this machine."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.home import Home
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.gpus.power import PowerLimits
from dovetail.worlds.local.gpus.strangers import least_free
from dovetail.worlds.local.machine import ALL_GPUS, host_memory_bytes, machine_nodes
from dovetail.worlds.local.services.hosting import LocalHosting
from dovetail.worlds.local.world import LocalMachine
from dovetail.worlds.world import MachineAsked, World

SUSPENDED_PART = 0.6  # of host memory may hold suspended jobs


@dataclass(frozen=True)
class Local:
    """This machine: its GPUs (some of them with --gpus), or so many processor slots (--slots)."""

    home: Home
    slots: int | None = None
    suspended_gb: float | None = None
    gpus: str | None = None
    free_memory: str | None = None

    def make(self) -> World:
        return local_world(
            MachineAsked(self.home, self.slots, self.suspended_gb, self.gpus, self.free_memory)
        )


def local_world(asked: MachineAsked) -> World:
    """Its GPUs, or so many processor slots; suspended jobs may take up so much main memory."""
    home = asked.home
    power = PowerLimits(home.power_note)
    least = least_free(asked.free_memory)
    nodes = machine_nodes(asked.slots, power.usual_watts, asked.gpus or ALL_GPUS)
    folders = Folders(home.runs, home.environments, home.socket, home.system)
    if asked.suspended_gb is None:
        suspended_bytes = int(host_memory_bytes() * SUSPENDED_PART)
    else:
        suspended_bytes = int(asked.suspended_gb * 1e9)
    hosting = LocalHosting(home.state / "services")
    return LocalMachine(nodes, folders, power, suspended_bytes, hosting, least)
