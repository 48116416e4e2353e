"""One of our pods on this node, and how an order is carried out on it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.agent import COOPERATE, Used
from dovetail.worlds.kubernetes.node_agent import orders, report_file
from dovetail.worlds.kubernetes.node_agent.containers import Container, ControlGroups
from dovetail.worlds.kubernetes.node_agent.orders import AgentAnswer, AgentOrder
from dovetail.worlds.local.runs import ladder
from dovetail.worlds.local.runs.ladder import CannotGiveWay, JobSeat

_VOLUME: Final = "volumes/kubernetes.io~empty-dir/dovetail"
_ASKED_TO_END: Final = "asked-to-end"
_REST_S: Final = 0.5  # so long nothing is looked for at a pod that was found suspended
_NOBODY_WANTS: Final = "it was asked to end while it was suspended"

log = logging.getLogger("dovetail.kubernetes")


class HeldPod:
    """Its container is known by its control group. `folder` holds notes on its suspension; `shared` is
    the one that its processes see, and shows that it is ours."""

    def __init__(
        self, order: AgentOrder, groups: ControlGroups, kubelet: Path, notes: Path
    ) -> None:
        self.order = order
        self.answer = AgentAnswer()
        self.folder: Final = notes / order.uid
        self.shared: Final = kubelet / "pods" / order.uid / _VOLUME
        self._reports: Final = self.shared / report_file.REPORTS
        self._reports_path: Final = str(self._reports)
        self._groups: Final = groups
        self._container: Container | None = None
        self._saves_itself = False
        self._is_asked_to_end = False
        self._report_bytes = 0
        self.slow_facts: dict[str, Any] = {}
        self._row: dict[str, Any] = {}  # as told last
        self._resting: AgentAnswer | None = None  # the answer that it was told with
        self._rests_until = 0.0

    def rests(self) -> bool:
        """It was suspended a moment ago, and nothing else is wanted of it: nothing is new about it.
        Most pods of a node may be suspended, and each look at one takes a third of a millisecond."""
        if self._resting is not self.answer or self.answer.order < self.order.number:
            return False
        return monotonic() < self._rests_until

    def process_group(self) -> Container | None:
        container = self._container
        if container is None or not container.group.exists():
            container = self._container = self._find()
        return container

    def _find(self) -> Container | None:
        if not self.order.container_id or not self.shared.is_dir():
            return None
        group = self._groups.find(self.order.uid, self.order.container_id)
        return None if group is None else Container(group)

    # ------------------------------------------------------------------------------------- orders

    def is_behind(self) -> bool:
        """Its order has not been carried out, and can be."""
        is_there = bool(self.order.container_id)
        return is_there and self.answer.order < self.order.number and self.shared.is_dir()

    def carry_out(self, order: AgentOrder) -> None:
        began = monotonic()
        try:
            used = self._done(order)
            self.answer = AgentAnswer(order.number, used.rung, monotonic() - began, used.bytes)
        except (DovetailError, OSError) as error:
            self.answer = AgentAnswer(order.number, trouble=str(error) or type(error).__name__)
        log.info("pod %s: %s: %s", order.uid, order.want, self.answer)

    def _done(self, order: AgentOrder) -> Used:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        container = self.process_group()
        if container is None:
            raise CannotGiveWay("its container is gone")
        if order.want == orders.SUSPEND:
            return self._suspend(order, container)
        if order.want == orders.RUN and not container.is_frozen():
            return Used("", 0.0, 0, False)
        used = ladder.go_on(self, order.gpus)
        return used if order.want == orders.RUN else self._stop(container)

    def _suspend(self, order: AgentOrder, container: Container) -> Used:
        if self._is_asked_to_end or (self.folder / _ASKED_TO_END).exists():
            raise CannotGiveWay("it was asked to end")
        room = order.room_bytes
        if order.gpus:
            room = min(room, self._groups.memory_room(container.group))
        return ladder.suspend(self, self._seat(order, room))

    def _stop(self, container: Container) -> Used:
        try:
            report_file.ask_to_stop(self.shared)
        except OSError as error:  # a full disk: the signal says the same
            log.warning("pod %s has no stop file: %s", self.order.uid, error)
        container.ask_to_stop()
        return Used(COOPERATE, 0.0, 0, False)

    def _seat(self, order: AgentOrder, room_bytes: int) -> JobSeat:
        return JobSeat(order.gpus, self._reports, self.shared, room_bytes)

    # ------------------------------------------------------------------------- by the pod's own will

    def must_wake(self) -> bool:
        """It is to end (deleted, or evicted), and cannot hear that while it is suspended."""
        container = self.process_group()
        return container is not None and container.is_frozen() and container.is_asked_to_end()

    def wake(self) -> None:
        """Let it end as it would; it is not suspended again."""
        self._is_asked_to_end = True
        answer = self.answer
        try:
            with suppress(OSError):  # for an agent after us; a full disk must not keep it asleep
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (self.folder / _ASKED_TO_END).touch()
            ladder.go_on(self, self.order.gpus)
        except (DovetailError, OSError) as error:
            log.warning("pod %s ends without a word, suspended: %s", self.order.uid, error)
        self.answer = AgentAnswer(answer.order, answer.rung, answer.seconds, 0, _NOBODY_WANTS)

    # -------------------------------------------------------------------------------------- facts

    def state(self) -> str:
        if not self.order.container_id:
            return orders.UNKNOWN
        container = self.process_group()
        if container is None:
            return orders.ENDED
        return orders.SUSPENDED if container.is_frozen() else orders.RUNNING

    def row(self, room: int) -> dict[str, Any]:
        """Its part of the status, with reports if there is so much room for them. Whoever has ended has
        written all of them: so its state comes first."""
        if self.rests():
            row = {**self._row, **self.slow_facts}
            if weight_of(row) > room:
                del row["reports"]  # in the next turn
            return row
        answer = self.answer  # of a worker: state and reports are not older than it
        state, upto = self.state(), self.order.reports_upto
        end, text = report_file.read_within(self.shared, upto, room)
        row = {"uid": self.order.uid, "state": state, **answer.as_row()}
        if end > upto:
            row["reports"] = {"from": upto, "to": end, "text": text}
        self._saves_itself = self._saves_itself or ladder.said_hello(self._reports)
        self._row = {**row, "savesItself": self._saves_itself}
        if state == orders.SUSPENDED:
            self._resting, self._rests_until = answer, monotonic() + _REST_S
        return {**self._row, **self.slow_facts}

    def has_reported(self) -> bool:
        """Since this was asked the last time."""
        before, self._report_bytes = self._report_bytes, report_file.size(self._reports_path)
        return self._report_bytes > before

    def look_closer(self) -> None:
        """At what takes a while to find out."""
        container = self.process_group()
        if container is None or not container.pids():
            self.slow_facts = {}
            return
        obstacle = ""
        if not container.is_frozen():
            # What is left for suspended pods comes with the order to suspend; before, the node counts.
            room = self.order.room_bytes or self._groups.memory_room(container.group)
            obstacle = ladder.cannot_suspend(self, self._seat(self.order, room))
        self.slow_facts = {"obstacle": obstacle, "memoryBytes": container.memory_bytes()}

    def forget(self) -> None:
        """What is noted of a container that is still there stays: it may be wanted again."""
        if self.process_group() is None:
            shutil.rmtree(self.folder, ignore_errors=True)


def weight_of(row: Mapping[str, Any]) -> int:
    """Of its reports."""
    return report_file.weight(row["reports"]["text"]) if "reports" in row else 0
