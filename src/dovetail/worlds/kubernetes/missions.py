"""From an errand to all that a flow must know: what the state says is asked here, on its own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dovetail.core.model import Placement
from dovetail.worlds.agent import Errand, Work
from dovetail.worlds.kubernetes.bringing_up import Mission
from dovetail.worlds.kubernetes.channel import Channel
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.inventory import ClusterInventory
from dovetail.worlds.kubernetes.manifest import OWN_ADDRESS, PodPlan
from dovetail.worlds.kubernetes.manners import Manners
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.shelf import PodShelf
from dovetail.worlds.ranks import Rank
from dovetail.worlds.world import Ground


@dataclass(frozen=True, slots=True)
class Missions:
    """On the loop's own thread."""

    settings: Settings
    ground: Ground
    folders: PodShelf
    inventory: ClusterInventory
    channel: Channel
    manners: Manners

    def of(
        self,
        errand: Errand,
        gang: Gang,
        is_called_off: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> Mission:
        placement = errand.placement
        nodes: tuple[str, ...] = ()
        plans: list[PodPlan] = []
        if errand.work is Work.BRING_UP and placement is not None:
            room = self.ground.view.room.nodes
            nodes = tuple(room[piece.node].id for piece in placement.slices)
            plans = self._plans(errand, placement, nodes)
        return Mission(
            *(gang, errand, plans, nodes),
            self.manners.saves_itself(errand.order, gang.all_pods()),
            is_called_off,
            is_over,
        )

    def _plans(self, errand: Errand, placement: Placement, nodes: Sequence[str]) -> list[PodPlan]:
        job, order = self.ground.view.tracks[errand.run.job_id].job, errand.order
        given = self.ground.environment_of(order.kept_under)
        order = replace(order, env={**given, **order.env})
        addresses = (OWN_ADDRESS, *nodes[1:])
        return [
            PodPlan(
                *(order, job, errand.run, 0, Rank(number, addresses), placement),
                home=self.settings.home,
                namespace=job.tenant or self.settings.namespace,
                gpus=self._uuids(node, placement.slices[number].mask),
                has_berth=self._has_berth(node),
                tries=errand.attempts,
                copied_from=self._begins_with(order.job_id, order.begins_from),
            )
            for number, node in enumerate(nodes)
        ]

    def gpus_of(self, placement: Placement) -> tuple[str, ...]:
        nodes = self.ground.view.room.nodes
        pieces = [self._uuids(nodes[piece.node].id, piece.mask) for piece in placement.slices]
        return tuple(uuid for piece in pieces for uuid in piece)

    def _uuids(self, node: str, mask: int) -> tuple[str, ...]:
        return tuple(uuid for i, uuid in enumerate(self.channel.uuids(node)) if mask >> i & 1)

    def _has_berth(self, node: str) -> bool:
        machine = self.inventory.machine(node)
        return machine is not None and machine.berths > 0 and self.channel.has_agent(node)

    def _begins_with(self, job_id: str, begins_from: str | None) -> str:
        if not self.settings.checkpoints:
            return ""
        return self.folders.begins_with(job_id) or str(begins_from or "")
