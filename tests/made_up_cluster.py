"""Nodes that are only said to be there, on a real API server: their pods do what a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.kubernetes.installing import CRDS, apply

from dovetail.worlds.kubernetes.client import CONFLICT, NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.config import find_access
from dovetail.worlds.kubernetes.making import Kubernetes
from dovetail.worlds.world import MachineAsked, World
from live_box import Box, box
from real_cluster import SYSTEM, create, eventually

_POLL_S: Final = 0.1

Json = dict[str, Any]


class MadeUpCluster:
    """A thread stands for all kubelets: pods run as soon as they are bound, and go when they are
    deleted, unless their node is silent."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig: Final = kubeconfig
        self.api: Final = Api(find_access(str(kubeconfig)))
        self._silent: set[str] = set()
        self._nodes: list[str] = []
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._keep_on, daemon=True)

    def __enter__(self) -> MadeUpCluster:
        create(self.api, "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
        for file in CRDS.glob("*.yaml"):
            apply(self.api, file)
        eventually(self._has_kinds)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for pod in self.pods():
            self._remove(pod)
        for name in self._nodes:
            self.api.delete(f"/api/v1/nodes/{name}")
        self.api.close_all()

    def _has_kinds(self) -> bool:
        try:
            self.api.get(f"/apis/dovetail.dev/v1alpha1/namespaces/{SYSTEM}/dovetailnodes")
            self.api.get("/apis/dovetail.dev/v1alpha1/dovetailjobs")
            return bool(self.api.get("/api/v1/namespaces/default/serviceaccounts/default"))
        except ApiError:
            return False

    # ------------------------------------------------------------------------------------- nodes

    def add_node(self, name: str, gpus: int = 2, **has: str) -> None:
        has = {"cpu": "16", "memory": "64G", "pods": "110", "nvidia.com/gpu": str(gpus), **has}
        status = {"capacity": has, "allocatable": has, "conditions": [_ready("True")]}
        self.api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        self._nodes.append(name)

    def silence(self, name: str) -> None:
        """As the cluster tells it some time after it has heard nothing."""
        self._silent.add(name)
        self._say_of(name, "Unknown")

    def hear(self, name: str) -> None:
        self._silent.discard(name)
        self._say_of(name, "True")

    def _say_of(self, name: str, status: str) -> None:
        told = {"status": {"conditions": [_ready(status)]}}
        self.api.patch(f"/api/v1/nodes/{name}/status", told)

    # -------------------------------------------------------------------------------------- pods

    def pods(self) -> list[Json]:
        found: list[Json] = self.api.get("/api/v1/pods")["items"]
        return [pod for pod in found if pod["spec"].get("schedulerName") == "dovetail"]

    def end(self, pod: Json, code: int = 0) -> None:
        state = {"terminated": {"exitCode": code, "reason": "Completed", "finishedAt": _now()}}
        self._say(pod, "Failed" if code else "Succeeded", state)

    def _keep_on(self) -> None:
        while not self._over.wait(_POLL_S):
            for pod in self.pods():
                if pod["spec"].get("nodeName", "") not in ("", *self._silent):
                    self._look_at(pod)

    def _look_at(self, pod: Json) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            self._remove(pod)
        elif pod["status"]["phase"] == "Pending":
            self._say(pod, "Running", {"running": {"startedAt": _now()}})

    def _remove(self, pod: Json) -> None:
        try:
            self.api.delete(_path(pod), 0)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise

    def _say(self, pod: Json, phase: str, state: Json) -> None:
        row = {
            "name": "job",
            "image": "train:1",
            "imageID": "",
            "containerID": f"containerd://{pod['metadata']['uid'].replace('-', '')}",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "podIP": "10.1.1.1", "containerStatuses": [row]}
        try:
            self.api.patch(f"{_path(pod)}/status", {"status": status})
        except ApiError as error:
            if error.code not in (NOT_FOUND, CONFLICT):
                raise


def _path(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _ready(status: str) -> Json:
    return {"type": "Ready", "status": status, "reason": "SaidByATest"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@contextmanager
def made_up_box(cluster: MadeUpCluster, folder: Path, **settings: Any) -> Iterator[Box]:
    """A daemon in this process, on the GPUs of the made-up nodes."""
    options: Json = {"system": SYSTEM, "namespace": "default", "image": "train:1", "lease_s": 3.0}
    options |= {"kubeconfig": str(cluster.kubeconfig), **settings.pop("options", {})}

    def world(asked: MachineAsked) -> World:
        return Kubernetes(asked.home, None, **options).make()

    with box(folder, world=world, **{"slots": None, **settings}) as here:
        yield here
