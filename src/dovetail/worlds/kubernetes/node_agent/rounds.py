"""The agent of one node: it looks at what is wanted, has it done, and tells what became of it.

All that it is told stands in one object of the API server, which the controller alone may write; all
that it tells, in the status of that object. Orders that were answered are not repeated: after a restart
the agent reads its own answers there. What must not wait for the API server (a suspended pod that is to
end) does not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.version import version
from dovetail.worlds.kubernetes.client import Api, ApiError, Unreachable
from dovetail.worlds.kubernetes.node_agent.containers import ControlGroups
from dovetail.worlds.kubernetes.node_agent.orders import AgentAnswer, AgentOrder
from dovetail.worlds.kubernetes.node_agent.pods import HeldPod, weight_of
from dovetail.worlds.kubernetes.watching import Watch
from dovetail.worlds.local import machine
from dovetail.worlds.local.keeper import proc

_PATH: Final = "/apis/dovetail.dev/v1alpha1/namespaces/{}/dovetailnodes"
_ROUND_S: Final = 0.1
_GLANCE_S: Final = 0.02  # a study decides after each step: meanwhile a trial runs on
_CLOSER_EVERY_S: Final = 5.0
_HEARTBEAT_S: Final = 10.0
_REPORT_BYTES: Final = 1 << 19  # of all pods together: an object has its limit
_AT_ONCE: Final = 16

log = logging.getLogger("dovetail.kubernetes")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """Where things are on the node, as this process sees them."""

    kubelet: Path
    cgroups: Path
    notes: Path  # of ours alone


class NodeAgent:
    """`run` works until `stop`."""

    def __init__(self, api: Api, namespace: str, node: str, folders: NodeFolders) -> None:
        self._api: Final = api
        self._path: Final = f"{_PATH.format(namespace)}/{node}/status"
        self._folders: Final = folders
        self._groups: Final = ControlGroups(folders.cgroups)
        self._pods: Final[dict[str, HeldPod]] = {}
        self._busy: Final[set[str]] = set()
        self._wanted: Mapping[str, Any] | None = None
        self._wake: Final = threading.Event()
        self._news: Final = threading.Event()
        self._over: Final = threading.Event()
        self._workers: Final = ThreadPoolExecutor(_AT_ONCE, "order")
        self._taken: object = None  # the generation of the orders that were taken in
        self._reported: dict[str, int] = {}  # by pod: up to where its reports were told
        self._turn = 0
        self._is_early = False
        self._closer_at = 0.0
        query = {"fieldSelector": f"metadata.name={node}"}
        self._watch: Final = Watch(api, _PATH.format(namespace), self, **query)

    def run(self) -> None:
        self._watch.start()
        threading.Thread(target=self._tell, name="telling", daemon=True).start()
        while not self._over.is_set():
            self._wake.clear()
            self._round()
            self._wait()

    def stop(self) -> None:
        """Whoever is suspended stays so: another agent goes on from here."""
        self._over.set()
        self._wake.set()
        self._watch.stop()
        self._workers.shutdown()

    # ------------------------------------------------------------------------- seen by the watch

    def listed(self, objects: Sequence[Json], as_of: float) -> None:
        for thing in objects:
            self.changed(thing, False)

    def changed(self, thing: Json, is_gone: bool) -> None:
        if is_gone:  # nothing is wanted: all stays as it is
            return
        before, self._wanted = self._wanted, thing
        if before is None or _generation(before) != _generation(
            thing
        ):  # not what we said ourselves
            self._wake.set()

    # ---------------------------------------------------------------------------------- rounds

    def _round(self) -> None:
        wanted = self._wanted
        if wanted is not None and _generation(wanted) != self._taken:
            self._take(wanted)
        for uid, pod in list(self._pods.items()):
            if uid in self._busy or pod.rests():
                continue
            if pod.must_wake():
                self._have_done(uid, pod.wake)
            elif pod.is_behind():
                self._have_done(uid, partial(pod.carry_out, pod.order))
        self._look_closer()
        self._news.set()

    def _wait(self) -> None:
        """For the next round: sooner if something is wanted or somebody has reported. Who reports all
        the time makes twice as many rounds, and no more."""
        until = monotonic() + _ROUND_S
        was_early, self._is_early = self._is_early, False
        while monotonic() < until and not self._wake.wait(_ROUND_S if was_early else _GLANCE_S):
            awake = [pod for pod in list(self._pods.values()) if not pod.rests()]
            self._is_early = any([pod.has_reported() for pod in awake])
            if self._is_early:
                return

    def _take(self, wanted: Mapping[str, Any]) -> None:
        rows = {}
        for row in (wanted.get("spec") or {}).get("pods") or ():
            try:
                order = AgentOrder.from_row(row)
            except (BadInput, TypeError, ValueError) as error:
                log.warning("%s", error)
                continue
            rows[order.uid] = order
        gone = [uid for uid in self._pods if uid not in rows]
        for uid in gone:
            if uid not in self._busy:
                self._pods.pop(uid).forget()
        if self._busy.isdisjoint(gone):
            self._taken = _generation(wanted)
        for uid, order in rows.items():
            if uid not in self._pods:
                self._pods[uid] = self._known(order, wanted)
            elif order.number >= self._pods[uid].order.number:
                self._pods[uid].order = order

    def _known(self, order: AgentOrder, wanted: Mapping[str, Any]) -> HeldPod:
        """With the answer that we, or an agent before us, have given."""
        pod = HeldPod(order, self._groups, self._folders.kubelet, self._folders.notes)
        for row in (wanted.get("status") or {}).get("pods") or ():
            if row.get("uid") == order.uid:
                pod.answer = AgentAnswer.from_row(row)
        return pod

    def _have_done(self, uid: str, work: Callable[[], None]) -> None:
        self._busy.add(uid)

        def do() -> None:
            try:
                work()
            except Exception as error:
                log.error("the work on pod %s failed", uid, exc_info=error)
            finally:
                self._busy.discard(uid)
                self._wake.set()

        self._workers.submit(do)

    def _look_closer(self) -> None:
        if monotonic() < self._closer_at:
            return
        self._closer_at = monotonic() + _CLOSER_EVERY_S
        for uid, pod in list(self._pods.items()):
            if uid not in self._busy:
                pod.look_closer()

    # --------------------------------------------------------------------------------- telling

    def _tell(self) -> None:
        """On a thread of its own: the API server may take its time."""
        told, at = None, 0.0
        while not self._over.is_set():
            self._news.wait(_HEARTBEAT_S)
            self._news.clear()
            rows = self._rows()
            brief = self._brief(rows)
            is_due = monotonic() - at >= _HEARTBEAT_S
            if self._wanted is None or (brief == told and not is_due):
                continue
            try:
                self._api.patch(self._path, {"status": self._status(rows)})
                told, at = brief, monotonic()
            except (ApiError, Unreachable) as error:
                log.warning("the state of this node cannot be told: %s", error)
                self._over.wait(1.0)

    def _rows(self) -> list[Json]:
        """All have their turn with reports, however much others write."""
        pods = list(self._pods.values())
        self._turn += 1
        rows, left = [], _REPORT_BYTES
        for i in range(len(pods)):
            row = pods[(i + self._turn) % len(pods)].row(left)
            left -= weight_of(row)
            rows.append(row)
        return sorted(rows, key=lambda row: str(row["uid"]))

    def _brief(self, rows: Sequence[Json]) -> list[Json]:
        """What is told at once; the rest can wait for the heartbeat, and so can that reports are left
        out which the controller has by now."""
        before = self._reported
        self._reported = {
            row["uid"]: row["reports"]["to"] if "reports" in row else before.get(row["uid"], 0)
            for row in rows
        }
        later = ("memoryBytes", "reports")
        found = [{name: row[name] for name in row if name not in later} for row in rows]
        return [{**row, "reportsTo": self._reported[row["uid"]]} for row in found]

    def _status(self, rows: Sequence[Json]) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        gpus = [
            {"uuid": gpu.uuid, "kind": gpu.kind, "memoryBytes": int(gpu.memory_gb * (1 << 30))}
            for gpu in machine.find_gpus()
        ]
        memory = {
            "totalBytes": machine.host_memory_bytes(),
            "availableBytes": machine.memory_available_bytes(),
        }
        agent = {"version": version(), "heartbeat": now, "boot": proc.boot_id()}
        return {"agent": agent, "memory": memory, "gpus": gpus, "pods": list(rows)}


def _generation(thing: Mapping[str, Any]) -> object:
    """It changes with what is wanted, and not with what we say."""
    metadata = thing["metadata"]
    return metadata.get("uid"), metadata.get("generation")
