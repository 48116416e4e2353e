"""The nodes of a cluster as the core knows nodes, and what others have taken of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from dovetail.core.model import Node
from dovetail.worlds.kubernetes.amounts import amount
from dovetail.worlds.kubernetes.settings import BERTHS, Settings
from dovetail.worlds.kubernetes.silent_nodes import is_ready

_GB: Final = 1e9
_OVER: Final = ("Succeeded", "Failed")
# Taints that say nothing about a job that tolerates them: pods on GPUs do.
_TOLERATED: Final = ("nvidia.com/gpu", "dovetail.dev/gpu")

Object = Mapping[str, Any]
_Asked: TypeAlias = tuple[float, float, float]  # GPUs, CPUs, GB of memory
_NOTHING: Final[_Asked] = (0.0, 0.0, 0.0)


class Taken(NamedTuple):
    """What pods of others ask for on a node."""

    gpus: int = 0
    cpus: float = 0.0
    memory_gb: float = 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the cluster, with all that it allows."""

    node: Node
    uid: str
    is_open: bool  # may something new start there?
    why_closed: str
    address: str
    berths: int  # as it says itself


def machine_of(found: Object, settings: Settings) -> Machine | None:
    """None: it is not ours to use."""
    metadata, status = found["metadata"], found.get("status") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    if settings.nodes:
        key, _, value = settings.nodes.partition("=")
        if labels.get(key) != value:
            return None
    has = status.get("allocatable") or {}
    gpus = settings.slots or int(amount(has.get(settings.gpu_resource)))
    berths = int(amount((status.get("capacity") or {}).get(BERTHS)))
    closed = _why_closed(found)
    return Machine(
        Node(
            metadata["name"],
            gpus,
            "cpu" if settings.slots else _kind(labels.get(settings.kind_label, ""), gpus),
            amount(labels.get(settings.memory_label)) * (1 << 20) / _GB,
            amount(has["cpu"]) if "cpu" in has else inf,
            amount(has["memory"]) / _GB if "memory" in has else inf,
            labels.get(settings.rack_label, ""),
            _island(labels.get(settings.island_label, ""), gpus),
            keeps=berths > 0,
        ),
        metadata.get("uid", ""),
        not closed,
        closed,
        _address(status),
        berths,
    )


def _kind(product: str, gpus: int) -> str:
    """`NVIDIA-H100-80GB-HBM3` is an H100 to everybody; the words before and after say the rest."""
    words = [
        word for word in product.split("-") if word and word.upper() not in ("NVIDIA", "TESLA")
    ]
    return words[0] if words else "gpu" if gpus else "cpu"


def _island(label: str, gpus: int) -> int:
    size = int(amount(label))
    return size if 0 < size < gpus and gpus % size == 0 else 0


def _address(status: Object) -> str:
    found = {row.get("type"): row.get("address", "") for row in status.get("addresses") or ()}
    return found.get("InternalIP") or found.get("ExternalIP") or ""


def _why_closed(found: Object) -> str:
    spec = found.get("spec") or {}
    if found["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    if spec.get("unschedulable"):
        return "it is cordoned"
    if not is_ready(found):
        return "it is not ready"
    for taint in spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and taint["key"] not in _TOLERATED:
            return f"it has the taint {taint['key']}"
    return ""


class ClusterInventory:
    """Fed by the watches of nodes and pods; read by the world's own thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings: Final = settings
        self._lock: Final = threading.Lock()
        self._machines: dict[str, Machine] = {}
        self._foreign: dict[str, tuple[str, Taken]] = {}  # by uid of the pod
        self._taken: dict[str, Taken] = {}  # by node

    # ------------------------------------------------------------------------------ from watches

    def nodes_listed(self, objects: Sequence[Object]) -> bool:
        found = (machine_of(own, self._settings) for own in objects)
        machines = {own.node.id: own for own in found if own is not None}
        with self._lock:
            is_new = machines != self._machines
            self._machines = machines
        return is_new

    def node_changed(self, thing: Object, is_gone: bool) -> bool:
        """Is anything of it new? Most changes are heartbeats."""
        name = thing["metadata"]["name"]
        machine = None if is_gone else machine_of(thing, self._settings)
        with self._lock:
            before = self._machines.pop(name, None)
            if machine is not None:
                self._machines[name] = machine
        return before != machine

    def pods_listed(self, objects: Sequence[Object]) -> bool:
        """All that are not ours."""
        with self._lock:
            before = dict(self._taken)
            self._foreign.clear()
            self._taken.clear()
            for own in objects:
                self._note(own, is_gone=False)
            return before != self._taken

    def pod_changed(self, thing: Object, is_gone: bool) -> bool:
        """One that turns out to be ours is gone, as far as others' use goes."""
        with self._lock:
            return self._note(thing, is_gone)

    def _note(self, thing: Object, is_gone: bool) -> bool:
        uid = thing["metadata"].get("uid", "")
        before = self._foreign.pop(uid, None)
        now = None if is_gone else self._foreign_use(thing)
        if now is not None:
            self._foreign[uid] = now
        if before == now:
            return False
        for sign, use in ((-1, before), (1, now)):
            if use is not None:
                self._add(use[0], use[1], sign)
        return True

    def _add(self, node: str, taken: Taken, sign: int) -> None:
        was = self._taken.pop(node, Taken())
        now = Taken(
            was.gpus + sign * taken.gpus,
            was.cpus + sign * taken.cpus,
            was.memory_gb + sign * taken.memory_gb,
        )
        if now.gpus or now.cpus > 1e-9 or now.memory_gb > 1e-9:
            self._taken[node] = now

    def _foreign_use(self, pod: Object) -> tuple[str, Taken] | None:
        node = (pod.get("spec") or {}).get("nodeName")
        phase = (pod.get("status") or {}).get("phase")
        if not node or phase in _OVER:
            return None
        return node, use_of(pod["spec"], self._settings.gpu_resource)

    # ------------------------------------------------------------------------------------- reading

    def machines(self) -> dict[str, Machine]:
        with self._lock:
            return dict(self._machines)

    def machine(self, name: str) -> Machine | None:
        with self._lock:
            return self._machines.get(name)

    def taken(self) -> dict[str, Taken]:
        """By node, what others have."""
        with self._lock:
            return dict(self._taken)


def use_of(spec: Object, gpu_resource: str) -> Taken:
    """What a kubelet counts: the requests of the containers together, with the sidecars that began
    before them, or of an init container with its sidecars if that is more; what the pod asks for as a
    whole counts instead."""
    sidecars, most = _NOTHING, _NOTHING
    for own in spec.get("initContainers") or ():
        asked = _asked(own, gpu_resource)
        most = _larger(most, _sum([sidecars, asked]))
        if own.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, asked])
    asked = _sum([sidecars, *(_asked(own, gpu_resource) for own in spec.get("containers") or ())])
    gpus, cpus, memory_gb = _larger(most, asked)
    whole = _requests(spec)
    cpus = amount(whole["cpu"]) if "cpu" in whole else cpus
    memory_gb = amount(whole["memory"]) / _GB if "memory" in whole else memory_gb
    over = spec.get("overhead") or {}
    return Taken(
        int(gpus), cpus + amount(over.get("cpu")), memory_gb + amount(over.get("memory")) / _GB
    )


def _requests(own: Object) -> Mapping[str, Any]:
    """Of a container or a pod; a limit is also a request where there is none."""
    resources = own.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _asked(container: Object, gpu_resource: str) -> _Asked:
    asked = _requests(container)
    return (
        amount(asked.get(gpu_resource)),
        amount(asked.get("cpu")),
        amount(asked.get("memory")) / _GB,
    )


def _larger(one: _Asked, other: _Asked) -> _Asked:
    gpus, cpus, memory_gb = map(max, one, other)
    return gpus, cpus, memory_gb


def _sum(rows: Sequence[_Asked]) -> _Asked:
    gpus, cpus, memory = (sum(column) for column in zip(_NOTHING, *rows, strict=True))
    return gpus, cpus, memory
