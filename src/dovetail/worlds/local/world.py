"""The local world: this machine and its processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dovetail.core.entries import Event
from dovetail.core.model import JobId, Node, Seconds
from dovetail.worlds.connecting import named, tell_nodes
from dovetail.worlds.local import findings, machine
from dovetail.worlds.local.agent import LocalAgent
from dovetail.worlds.local.consoles import LocalConsoles
from dovetail.worlds.local.containers.engine import NoEngine, find_engine
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.gpus.power import PowerLimits
from dovetail.worlds.local.gpus.probing import Probed, Prober
from dovetail.worlds.local.gpus.strangers import LeastFree
from dovetail.worlds.local.services.hosting import LocalHosting
from dovetail.worlds.local.watching.usage import UsageMeter
from dovetail.worlds.staged import Staging
from dovetail.worlds.world import Finding, Gauge, Ground, Order, Wanted


class LocalMachine:
    """Not to be used before it has joined a daemon."""

    def __init__(
        self,
        nodes: Sequence[Node],
        folders: Folders,
        power: PowerLimits,
        suspended_limit_bytes: int,
        hosting: LocalHosting,
        least_free: LeastFree | None = None,
    ) -> None:
        self.nodes: Sequence[Node] = nodes
        self.declarations: Final = None
        self.shelf: Final = folders
        self.hosting: Final = hosting
        self.consoles: Final = LocalConsoles(folders, self._gpus_of)
        self._meter: Final = UsageMeter(folders, self._gpus_of)
        self.used_by: Final = self._meter.used_by
        self.power: Final = power
        self._suspended_limit: Final = suspended_limit_bytes
        self._least_free: Final = least_free

    def join(self, ground: Ground) -> None:
        self._ground = ground
        self.nodes = named(self.nodes, ground.view)
        tell_nodes(ground.view, self.nodes, ground.clock())  # refused now rather than half-way
        self._agent = LocalAgent(self.nodes, self.shelf, ground, self._look_around)
        self._watcher = self._agent.watcher
        self._staging = Staging(self._agent, ground, self._suspended_limit, self.power)
        self._stage = self._staging.stage
        self._prober = Prober(self._stage, self._agent, self._agent.post, self._least_free)

    def _look_around(self) -> None:
        """Called on the watcher's thread."""
        self._prober.probe()

    # ----------------------------------------------------------------------- from any thread

    @property
    def trouble(self) -> str:
        if self._watcher.trouble:
            return f"the watcher of the jobs stumbles: {self._watcher.trouble}"
        return self._stage.stalled and f"jobs wait to be worked on: {self._stage.stalled}"

    def why_not(self, order: Order) -> str:
        if order.nodes > 1:
            return f"it asks for {order.nodes} nodes, and this machine is one node"
        if order.volumes or order.service_account:
            what = "the volume " + order.volumes[0].claim if order.volumes else "a service account"
            return f"it asks for {what}, which only a Kubernetes cluster has"
        if order.image and (trouble := self._image_trouble(order)):
            return f"it asks for the image {order.image}, and {trouble}"
        return ""

    def _image_trouble(self, order: Order) -> str:
        try:
            engine = find_engine()
        except NoEngine as error:
            return str(error)
        wants_gpus = order.gpus and any(node.labels for node in self.nodes)
        return engine.gpu_trouble() if wants_gpus else ""

    def _gpus_of(self, job_id: JobId) -> tuple[str, ...]:
        """Those that it has now: it may have been moved since its processes began."""
        track = self._ground.view.tracks.get(job_id)
        if track is None or track.placement is None:
            return ()
        return self._agent.gpus_of(track.placement)

    def has_processes(self, job_id: JobId | None = None) -> bool:
        return bool(self.shelf.live()) if job_id is None else self.shelf.note(job_id).exists()

    def gauges(self) -> Iterable[Gauge]:
        places = {
            uuid: {"node": node.id, "gpu": i, "uuid": uuid}
            for node in self.nodes
            for i, (_, uuid) in enumerate(node.labels)
        }
        drawn = machine.power_watts() if places else {}
        watts = [(places[uuid], own) for uuid, own in drawn.items() if uuid in places]
        return [Gauge("dovetail_gpu_power_watts", "What each GPU draws now.", watts)]

    def users_beside(self) -> Mapping[str, list[str]]:
        return self._prober.beside

    def findings(self) -> Iterable[Finding]:
        return findings.of_this_machine()

    # ------------------------------------------------------------------------------- the loop

    def catch_up(self) -> list[Event]:
        events = self._staging.take_up()
        self._watcher.read_now()
        return sorted(events + self._staging.past(), key=lambda event: event.at)

    def begin(self) -> list[Event]:
        self._watcher.start()
        self._meter.start()
        events = tell_nodes(self._ground.view, self.nodes, self._ground.clock())
        self._stage.step_all()
        return events

    def stop(self) -> None:
        self._watcher.stop()
        self._meter.stop()

    def observe(self) -> list[Event]:
        return self._staging.observe(self)

    def seen(self, fact: object, at: Seconds) -> list[Event]:
        assert isinstance(fact, Probed)
        return self._prober.probed(fact)

    def look_again_s(self) -> Seconds:
        return self._staging.look_again_s()

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        self._staging.carry_out(wanted)
