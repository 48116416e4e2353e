"""The contract of worlds, as shipped, on the simulated and on the local world."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.core.entries import Finished, Start, Started, Submitted
from dovetail.core.loop import Backend
from dovetail.core.model import Job, Node
from dovetail.core.state import State
from dovetail.models.workload import Arrival
from dovetail.testing.contract_policies import FIRST, HERE
from dovetail.testing.world_contract import (
    ContractJob,
    LiveWorldContract,
    WorldContract,
)
from dovetail.worlds.agent import Done, ProcessEnded
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.gpus.power import PowerLimits
from dovetail.worlds.local.services.hosting import LocalHosting
from dovetail.worlds.local.world import LocalMachine
from dovetail.worlds.simulated import SimulatedCluster
from dovetail.worlds.world import Order, World
from waiting import until


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
        return SimulatedCluster([Node("n", self.gpus)], arrivals)


class TestLocalWorld(LiveWorldContract):
    def make(self, folder: Path) -> World:
        runs, environments = folder / "runs", folder / "env"
        for own in (runs, environments):
            own.mkdir(exist_ok=True)
        folders = Folders(runs, environments, folder / "socket", shared=False)
        power = PowerLimits(folder / "power.json")
        hosting = LocalHosting(folder / "services")
        return LocalMachine([Node("n", self.gpus, "cpu")], folders, power, 1 << 33, hosting)

    def keep_environment(self, order: Order, environment: Mapping[str, str]) -> None:
        """The keeper of a job reads the file that the daemon keeps."""
        path = self.folder / "env" / f"{order.kept_under}.json"
        path.write_text(json.dumps(dict(environment)))

    def test_a_start_that_two_facts_of_one_batch_tell_is_in_the_journal_once(self) -> None:
        """A daemon is killed before it can say that a job runs. The next one adopts the job, and sees
        in one look that it is up and that it has ended."""
        go = self.folder / "go"
        script = f"while [ ! -e {go} ]; do sleep 0.02; done"
        orders = {FIRST: Order(FIRST, ("/bin/sh", "-c", script), {}, "/", "ann")}
        state = State()
        self.join(state, orders)
        for event in self.world.begin():
            state.record(event)
        state.record(Submitted(state.now, Job(FIRST, user="ann")))
        state.record(Start(FIRST, HERE))
        self.world.carry_out([Start(FIRST, HERE)])
        until(lambda: Done in self.facts())
        self.world.stop()  # nobody has observed it

        self.join(state, orders)
        assert self.world.catch_up() == self.world.begin() == []
        until(lambda: Done in self.facts())
        go.touch()
        until(lambda: ProcessEnded in self.facts())
        assert self.facts() == [Done, ProcessEnded]
        events = self.world.observe()
        for event in events:
            state.record(event)
        assert [type(event) for event in events] == [Started, Finished]

    def facts(self) -> list[type]:
        """Those that wait to be observed."""
        assert isinstance(self.world, LocalMachine)
        return [type(fact) for _, fact in self.world._agent.facts(self.world._staging._seen)]
