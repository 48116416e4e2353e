"""The contract of worlds, as shipped, on the simulated and on the local world."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.core.loop import Backend
from dovetail.core.model import Node
from dovetail.core.state import State
from dovetail.models.workload import Arrival
from dovetail.testing.world_contract import ContractJob, LiveWorldContract, WorldContract
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.power import PowerLimits
from dovetail.worlds.local.world import LocalMachine
from dovetail.worlds.simulated import SimulatedCluster
from dovetail.worlds.world import Order, World


class TestSimulatedWorld(WorldContract):
    def begin(self, state: State, tasks: Sequence[ContractJob]) -> Backend:
        arrivals = [
            Arrival(
                *(0.0, own.job, own.work_s),
                failures=(own.work_s / 2,) if own.fails else (),
                cancel_at=own.cancelled_after_s,
            )
            for own in tasks
        ]
        return SimulatedCluster([Node("n", 1)], arrivals)


class TestLocalWorld(LiveWorldContract):
    def make(self, folder: Path) -> World:
        runs, environments = folder / "runs", folder / "env"
        for own in (runs, environments):
            own.mkdir(exist_ok=True)
        folders = Folders(runs, environments, folder / "socket", shared=False)
        power = PowerLimits(folder / "power.json")
        return LocalMachine([Node("n", 1, "cpu")], folders, power, 1 << 33)

    def keep_environment(self, order: Order, environment: Mapping[str, str]) -> None:
        """The keeper of a job reads the file that the daemon keeps."""
        path = self.folder / "env" / f"{order.kept_under}.json"
        path.write_text(json.dumps(dict(environment)))
