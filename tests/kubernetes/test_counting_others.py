"""What pods of others have on a node is in the books of the core: GPUs, CPUs and memory."""

from __future__ import annotations

from typing import Any

from dovetail.core.entries import Event, NodeJoined, NodeLeft, Occupied
from dovetail.core.state import State
from dovetail.worlds.kubernetes.inventory import ClusterInventory, Taken, use_of
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.telling_nodes import node_events


def _node(cpus: str = "8") -> dict[str, Any]:
    has = {"cpu": cpus, "memory": "32G", "nvidia.com/gpu": "2"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": "n1"}, "status": {"allocatable": has, "conditions": ready}}


def _pod(name: str, phase: str = "Running", **asked: str) -> dict[str, Any]:
    container = {"resources": {"requests": asked}}
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": phase},
    }


class _Books:
    """The inventory, and a state that is told of it."""

    def __init__(self) -> None:
        self.inventory = ClusterInventory(Settings())
        self.state = State()
        self.inventory.nodes_listed([_node()])

    def told(self) -> list[Event]:
        machines, taken = self.inventory.machines(), self.inventory.taken()
        events = node_events(self.state, machines, taken, 1.0)
        for event in events:
            self.state.record(event)
        return events


def test_cpus_and_memory_of_foreign_pods_are_told_and_told_again_when_they_end() -> None:
    books = _Books()
    books.inventory.pod_changed(_pod("proxy", cpu="100m", memory="500M"), False)
    books.inventory.pod_changed(_pod("web", cpu="2", memory="4G"), False)
    assert books.told()[1:] == [Occupied(1.0, "n1", 0, 2.1, 4.5)]
    assert books.state.room.cpus[0] == 8 - 2.1
    assert books.told() == []
    books.inventory.pod_changed(_pod("web", "Succeeded", cpu="2", memory="4G"), False)
    assert books.told() == [Occupied(1.0, "n1", 0, 0.1, 0.5)]
    books.inventory.pod_changed(_pod("proxy"), True)
    assert books.told() == [Occupied(1.0, "n1", 0)]
    assert (books.state.room.cpus[0], books.state.room.memory_gb[0]) == (8.0, 32.0)


def test_gpus_of_foreign_pods_are_told_with_their_cpus() -> None:
    books = _Books()
    books.inventory.pod_changed(_pod("train", cpu="1", **{"nvidia.com/gpu": "1"}), False)
    assert books.told()[1:] == [Occupied(1.0, "n1", 0b10, 1.0)]


def test_sidecars_are_counted_beside_the_containers_that_they_serve() -> None:
    """Those of today's clusters: init containers that go on. A later init container runs beside them."""
    begin = [
        _asking("1", "1G"),
        {**_asking("2", "1G"), "restartPolicy": "Always"},
        _asking("4", "1G"),
    ]
    spec = {"containers": [_asking("3", "2G")], "initContainers": begin}
    assert use_of(spec, "nvidia.com/gpu") == Taken(0, 6.0, 3.0)


def test_what_a_pod_asks_for_as_a_whole_counts_instead_of_its_containers() -> None:
    whole = {"requests": {"cpu": "5"}, "limits": {"cpu": "8", "memory": "9G"}}
    spec = {"containers": [_asking("3", "2G")], "resources": whole, "overhead": {"cpu": "250m"}}
    assert use_of(spec, "nvidia.com/gpu") == Taken(0, 5.25, 9.0)


def _asking(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}}


def test_a_node_that_has_become_another_is_told_with_what_others_have_there() -> None:
    books = _Books()
    books.inventory.pod_changed(_pod("web", cpu="2"), False)
    books.told()
    books.inventory.node_changed(_node(cpus="16"), False)
    left, joined, taken = books.told()
    assert isinstance(left, NodeLeft)
    assert isinstance(joined, NodeJoined)
    assert taken == Occupied(1.0, "n1", 0, 2.0)
    assert books.state.room.cpus[1] == 14.0
