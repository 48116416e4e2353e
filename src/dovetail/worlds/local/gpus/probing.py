"""Probes that run now and then: which jobs could give way, and which GPUs strangers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dovetail.core.entries import Event, Occupied, Pinned, Unpinned
from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.lives import Life, Place, Want
from dovetail.worlds.local.agent import LocalAgent
from dovetail.worlds.local.gpus import strangers
from dovetail.worlds.local.gpus.strangers import LeastFree
from dovetail.worlds.local.runs import ladder
from dovetail.worlds.stage import ProcessStage


@dataclass(frozen=True, slots=True)
class Probed:
    pins: Mapping[JobId, str]
    occupied: Mapping[str, int]


class Prober:
    def __init__(
        self,
        stage: ProcessStage,
        agent: LocalAgent,
        post: Callable[[object], None],
        least: LeastFree | None,
    ) -> None:
        self._stage: Final = stage
        self._agent: Final = agent
        self._nodes: Final = agent.nodes()
        self._post: Final = post
        self._least: Final = least
        self.beside: dict[str, list[str]] = {}  # who computes on which GPU, see `strangers`
        room = stage.view.room
        self._occupied = {room.nodes[n].id: mask for n, mask in room.strangers.items()}

    def probe(self) -> None:
        """In the watcher's thread: who could give way now, and which GPUs others use."""
        pins, ours = dict[JobId, str](), list[int]()
        for life in list(self._stage.lives.values()):
            if life.run is None:
                continue
            group = self._agent.run(life.run.id).process_group()
            if group is None:
                continue
            ours += group.pids()
            if life.place is not Place.AT_WORK or life.busy:
                continue
            pins[life.job_id] = self._obstacle(life, life.run.id)
        occupied = self._strangers(ours)
        told_pins = {life.job_id: life.pin for life in list(self._stage.lives.values())}
        changed = any(told_pins.get(job_id, "") != why for job_id, why in pins.items())
        if changed or occupied != self._occupied:
            self._post(Probed(pins, occupied))

    def _obstacle(self, life: Life, run: RunId) -> str:
        """Why the job could not be made to give way now; "" if it could."""
        order, gpus = (
            self._stage.order_for(life.job_id),
            self._stage.gpus_of(life.stands or life.booked),
        )
        seat = self._agent.seat(order, gpus, self._stage.room_bytes())
        return ladder.obstacle(self._agent.run(run), order, seat)

    def _strangers(self, ours: Sequence[int]) -> dict[str, int]:
        """Per node the GPUs with processes that are not ours."""
        if not any(node.labels for node in self._nodes):
            return {}
        foreign = strangers.taken(ours, self._least)
        self.beside = strangers.users_beside(ours)
        return {
            node.id: sum(1 << i for i, (_, uuid) in enumerate(node.labels) if uuid in foreign)
            for node in self._nodes
        }

    def probed(self, probed: Probed) -> list[Event]:
        now, events = self._stage.clock(), list[Event]()
        for job_id, why in probed.pins.items():
            life = self._stage.lives.get(job_id)
            if life is None or life.place is not Place.AT_WORK or life.want is not Want.RUN:
                continue
            if bool(why) != bool(life.pin):
                events.append(Pinned(now, job_id, why) if why else Unpinned(now, job_id))
            life.pin = why
        for node_id, mask in probed.occupied.items():
            if mask != self._occupied.get(node_id, 0):
                events.append(Occupied(now, node_id, mask))
        self._occupied = dict(probed.occupied)
        return events
