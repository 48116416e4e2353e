"""A daemon on a real cluster, and what its jobs need there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.kubernetes import installing as claims
from tools.kubernetes.installing import CLAIM

from agent_pods import install
from daemon_process import DaemonProcess
from dovetail.worlds.kubernetes.making import Kubernetes
from dovetail.worlds.world import MachineAsked, World
from live_box import Box, box
from real_cluster import SYSTEM, RealCluster

__all__ = ["CLAIM", "claimed", "make_claim", "pods_box", "pods_daemon"]

_claimed: list[Path] = []  # where the claim lies on this machine


@contextmanager
def pods_box(
    cluster: RealCluster, folder: Path, system: str = SYSTEM, nodes: str = "", **settings: Any
) -> Iterator[Box]:
    """A daemon in this process whose jobs are pods, on as many slots of each node as it has here.
    Agents are in the usual `system` alone; `nodes` is a label of those that it may use."""
    options = world_options(cluster) | {"system": system, "nodes": nodes}
    options |= settings.pop("options", {})

    def world(asked: MachineAsked) -> World:
        return Kubernetes(asked.home, asked.slots, **options).make()

    install(cluster)
    make_claim(cluster)
    with box(folder, world=world, **settings) as here:
        yield here


def world_options(cluster: RealCluster) -> dict[str, Any]:
    return {
        "kubeconfig": str(cluster.kubeconfig),
        "namespace": "default",
        "system": SYSTEM,
        "image": cluster.image,
        "gateway_image": cluster.image,
        "checkpoints": CLAIM,
        "lease_s": 3.0,
    }


def pods_daemon(cluster: RealCluster, folder: Path, **settings: Any) -> DaemonProcess:
    """A daemon in a process of its own, not started yet."""
    options = world_options(cluster) | settings.pop("options", {})
    install(cluster)
    make_claim(cluster)
    return DaemonProcess(folder, pods=options, **settings)


def make_claim(cluster: RealCluster, namespace: str = "default") -> None:
    """Where pods of all nodes save what they need."""
    folder = str(cluster.own.folder / CLAIM) if cluster.own is not None else ""
    _claimed[:] = [Path(folder)]
    claims.make_claim(cluster.api, folder=folder, namespace=namespace)


def claimed() -> Path:
    """On this machine; of a cluster of our own."""
    return _claimed[0]
