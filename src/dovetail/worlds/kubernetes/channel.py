"""What passes between the controller and the agents of the nodes: one object for each node.

The controller alone writes its spec: which of our pods are there, and what is wanted of each. The
agent alone writes its status: what became of that. Both say all of it each time, so that nothing is
lost with a message; an order has a number, which the answer carries back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from dovetail.worlds.kubernetes.client import NOT_FOUND, Api, ApiError, Unreachable
from dovetail.worlds.kubernetes.settings import GROUP, VERSION, Settings

RUN, SUSPEND, STOP = "run", "suspend", "stop"
_SILENT_S: Final = 35.0  # an agent says something every ten seconds
_KNOWN_BYTES: Final = 4096  # of the reports of a pod, that its agent may send again and again

log = logging.getLogger("dovetail.kubernetes")

Json = dict[str, Any]


@dataclass(slots=True)
class PodOrder:
    """What is wanted of one pod."""

    uid: str
    name: str
    namespace: str
    job: str
    container: str
    gpus: tuple[str, ...] = ()
    want: str = RUN
    order: int = 0
    grace_s: float = 60.0
    room_bytes: int = 0
    reports_upto: int = 0
    told_upto: int = 0  # of that, what its agent was told

    def row(self) -> Json:
        row: Json = {
            "uid": self.uid,
            "name": self.name,
            "namespace": self.namespace,
            "job": self.job,
            "want": self.want,
            "order": self.order,
            "graceS": self.grace_s,
            "roomBytes": max(self.room_bytes, 0),
            "gpus": list(self.gpus),
            "reportsUpto": self.reports_upto,
        }
        return {**row, "container": self.container} if self.container else row


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent says of one pod."""

    state: str = "unknown"
    order: int = -1  # the last that was carried out, or could not be
    rung: str = ""
    seconds: float = 0.0
    bytes: int = 0
    trouble: str = ""
    saves_itself: bool = False
    obstacle: str = ""
    reports: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_suspended(self) -> bool:
        return self.state == "suspended"


def _answer(row: Mapping[str, Any]) -> Answer:
    return Answer(
        str(row.get("state") or "unknown"),
        int(row.get("order", -1)),
        str(row.get("rung") or ""),
        float(row.get("seconds") or 0.0),
        int(row.get("bytes") or 0),
        " ".join(str(row.get("trouble") or "").split())[:300],
        bool(row.get("savesItself")),
        " ".join(str(row.get("obstacle") or "").split())[:300],
        row.get("reports") or {},
    )


def _outbid(orders: Mapping[str, PodOrder], forged: Sequence[Mapping[str, Any]]) -> None:
    """An agent may have carried out what somebody else wrote: ours must be newer."""
    for row in forged:
        own = orders.get(str(row.get("uid")))
        if own is not None and row.get("want") != own.want:
            own.order = max(own.order, int(row.get("order") or 0)) + 1


class _NodeObject:
    """Of one node: the orders as they are to be, and the last status."""

    def __init__(self) -> None:
        self.orders: dict[str, PodOrder] = {}
        self.is_there = False
        self.is_written = True  # is the spec as the orders are?
        self.is_busy = False
        self.generation = 0  # of the spec that we have written; 0: none yet
        self.heard_at = -1.0
        self.heartbeat = ""
        self.available_bytes = 0
        self.uuids: tuple[str, ...] = ()


class Channel:
    """From any thread. `told` is called with the uid of a pod about which there is something new;
    `node_of` says where that pod was bound to, "" if it is none of ours."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        workers: Executor,
        told: Callable[[str], None],
        node_of: Callable[[str], str],
    ) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self._workers: Final = workers
        self._told: Final = told
        self._node_of: Final = node_of
        self._lock: Final = threading.RLock()
        self._nodes: dict[str, _NodeObject] = {}
        self._answers: dict[str, Answer] = {}  # by uid of the pod
        self._at: dict[str, str] = {}  # pods that have orders: on which node

    # ------------------------------------------------------------------------------------ reading

    def has_agent(self, node: str) -> bool:
        with self._lock:
            known = self._nodes.get(node)
            return known is not None and 0 <= monotonic() - known.heard_at < _SILENT_S

    def uuids(self, node: str) -> tuple[str, ...]:
        with self._lock:
            known = self._nodes.get(node)
            return known.uuids if known is not None else ()

    def answer(self, uid: str) -> Answer:
        with self._lock:
            return self._answers.get(uid, Answer())

    def room_bytes(self, node: str) -> int:
        """What its agent says is left in main memory."""
        with self._lock:
            known = self._nodes.get(node)
            return known.available_bytes if known is not None else 0

    def order_of(self, uid: str) -> PodOrder | None:
        with self._lock:
            node = self._at.get(uid)
            return None if node is None else self._nodes[node].orders.get(uid)

    # ------------------------------------------------------------------------------------ writing

    def open(self, node: str) -> None:
        """The object of the node is there from now on, for its agent to answer in."""
        with self._lock:
            if self._node(node).is_there:
                return
            self._nodes[node].is_there = True
        self._write_soon(node)

    def put(self, node: str, order: PodOrder) -> None:
        """This is wanted of the pod from now on."""
        with self._lock:
            self._node(node).orders[order.uid] = order
            self._at[order.uid] = node
        self._write_soon(node)

    def want(self, uid: str, want: str, room_bytes: int = 0) -> int:
        """The number of the order; -1: the pod is not known here."""
        with self._lock:
            order = self.order_of(uid)
            if order is None:
                return -1
            order.want, order.room_bytes = want, room_bytes
            order.order = max(order.order, self.answer(uid).order) + 1
            number, node = order.order, self._at[uid]
        self._write_soon(node)
        return number

    def took(self, uid: str, upto: int) -> None:
        """Reports up to there are on our disk. The agent is told so with the next order, or when it
        says much that we know: each word is a write for the API server, and one for each report
        doubles its work."""
        with self._lock:
            order = self.order_of(uid)
            if order is None:
                return
            order.reports_upto = upto
            if upto - order.told_upto < _KNOWN_BYTES:
                return
            node = self._at[uid]
        self._write_soon(node)

    def drop(self, uid: str) -> None:
        with self._lock:
            node = self._at.pop(uid, None)
            self._answers.pop(uid, None)
            if node is None:
                return
            self._nodes[node].orders.pop(uid, None)
        self._write_soon(node)

    def _node(self, name: str) -> _NodeObject:
        return self._nodes.setdefault(name, _NodeObject())

    def _write_soon(self, name: str) -> None:
        """One writer a node at a time; what changes meanwhile goes with the next."""
        with self._lock:
            node = self._node(name)
            node.is_written = False
            if node.is_busy:
                return
            node.is_busy = True
        self._workers.submit(self._write, name)

    def _write(self, name: str) -> None:
        while True:
            with self._lock:
                node = self._node(name)
                if node.is_written:
                    node.is_busy = False
                    return
                node.is_written = True
                rows = [order.row() for order in node.orders.values()]
                for order in node.orders.values():
                    order.told_upto = order.reports_upto
            try:
                generation = self._send(name, rows)
                with self._lock:
                    node.generation = generation
            except (ApiError, Unreachable) as error:
                log.warning("the agent of %s cannot be told what is wanted: %s", name, error)
                with self._lock:
                    node.is_written = node.is_busy = False
                return  # `write_again` does, soon
            except Exception:
                with self._lock:
                    node.is_written = node.is_busy = False
                raise

    def _send(self, name: str, rows: Sequence[Json]) -> int:
        path = self._settings.channel_path
        spec = {"spec": {"pods": list(rows)}}
        try:
            made = self._api.patch(f"{path}/{name}", spec)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            kind = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "DovetailNode"}
            made = self._api.create(path, {**kind, "metadata": {"name": name}, **spec})
        return int(made["metadata"].get("generation") or 0)

    def write_again(self) -> None:
        """What could not be sent before. Now and then."""
        with self._lock:
            late = [
                name for name, own in self._nodes.items() if not (own.is_written or own.is_busy)
            ]
        for name in late:
            self._write_soon(name)

    # --------------------------------------------------------------------------------- the watch

    def listed(self, objects: Sequence[Json], as_of: float) -> None:
        for thing in objects:
            self.changed(thing, is_gone=False)

    def changed(self, thing: Json, is_gone: bool) -> None:
        name, status = thing["metadata"]["name"], thing.get("status") or {}
        with self._lock:
            node = self._node(name)
            is_edited = 0 < node.generation < int(thing["metadata"].get("generation") or 0)
            if is_edited and not (is_gone or node.is_busy):
                log.warning(
                    "the orders for %s were edited by somebody: they are written again", name
                )
                _outbid(node.orders, (thing.get("spec") or {}).get("pods") or ())
                self._write_soon(name)
            heartbeat = str((status.get("agent") or {}).get("heartbeat") or "")
            node.is_there = not is_gone
            if is_gone:
                node.heard_at, node.generation = -1.0, 0
                return
            if heartbeat and heartbeat != node.heartbeat:
                node.heartbeat, node.heard_at = heartbeat, monotonic()
            node.available_bytes = int((status.get("memory") or {}).get("availableBytes") or 0)
            node.uuids = tuple(str(gpu.get("uuid")) for gpu in status.get("gpus") or ())
            news = [row["uid"] for row in status.get("pods") or () if self._is_news(name, row)]
        for uid in news:
            self._told(uid)

    def _is_news(self, node: str, row: Mapping[str, Any]) -> bool:
        """An agent speaks of the pods of its own node only."""
        uid = row["uid"]
        if self._node_of(uid) != node:
            return False
        answer = _answer(row)
        if self._answers.get(uid) == answer:
            return False
        self._answers[uid] = answer
        return True
