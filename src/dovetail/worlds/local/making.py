"""The local world of a home: the one place that joins a daemon's settings and this machine."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.home import Home
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.gpus.power import PowerLimits
from dovetail.worlds.local.machine import host_memory_bytes, machine_nodes
from dovetail.worlds.local.world import LocalMachine
from dovetail.worlds.world import World

SUSPENDED_PART = 0.6  # of host memory may hold suspended jobs


@dataclass(frozen=True)
class Local:
    """This machine: its GPUs, or so many processor slots (--slots)."""

    home: Home
    slots: int | None = None
    suspended_gb: float | None = None

    def make(self) -> World:
        return local_world(self.home, self.slots, self.suspended_gb)


def local_world(home: Home, slots: int | None, suspended_gb: float | None) -> World:
    """Its GPUs, or so many processor slots; suspended jobs may take up so much main memory."""
    power = PowerLimits(home.power_note)
    nodes = machine_nodes(slots, power.usual_watts)
    folders = Folders(home.runs, home.environments, home.socket, home.system)
    if suspended_gb is None:
        suspended_bytes = int(host_memory_bytes() * SUSPENDED_PART)
    else:
        suspended_bytes = int(suspended_gb * 1e9)
    return LocalMachine(nodes, folders, power, suspended_bytes)
