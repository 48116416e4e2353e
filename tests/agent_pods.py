"""Pods that count, on nodes with an agent; the test is the controller."""

from __future__ import annotations

import itertools
import json
import os
import signal
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from tools.kubernetes.installing import NODES, install_agents, node_status

from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from real_cluster import SYSTEM, Json, RealCluster, create, eventually

_NUMBERS: Final = itertools.count(1)
_MUCH: Final = 1 << 33

# Counts in its reports. Asked to end it takes a moment, says so, and ends with a code of its own.
COUNTING: Final = """
import json, os, signal, sys, time
def told(**facts):
    with open("/dovetail/reports.jsonl", "a") as file:
        file.write(json.dumps(facts) + chr(10))
def end(*_):
    time.sleep(0.3)
    with open("/dev/termination-log", "w") as file:
        file.write(f"saved at {n}")
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
n = 0
told(cooperative=True)
while not os.path.exists("/dovetail/stop"):
    n += 1
    told(n=n, at=time.time())
    time.sleep(0.02)
end()
"""


def install(cluster: RealCluster) -> None:
    """The agent on every node."""
    install_agents(cluster.api, cluster.image)


def crash_agent(cluster: RealCluster, node: str) -> None:
    """Kill its process; and have another pod at once, as the kubelet would wait longer each time."""
    agent = _agent_pod(cluster, node)
    for pid in cluster.breakable().processes_of(agent["metadata"]["uid"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{agent['metadata']['name']}"
    cluster.api.delete(path, 0)


def _agent_pod(cluster: RealCluster, node: str) -> Json:
    pods = cluster.api.get(
        f"/api/v1/namespaces/{SYSTEM}/pods",
        labelSelector="app.kubernetes.io/name=dovetail-node-agent",
        fieldSelector=f"spec.nodeName={node}",
    )["items"]
    return next(pod for pod in pods if "deletionTimestamp" not in pod["metadata"])


def as_agent(cluster: RealCluster) -> Api:
    """With the token of the agents' service account."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/dovetail-node-agent/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    token = cluster.api.create(path, {**kind, "spec": {"audiences": []}})["status"]["token"]
    access = find_access(str(cluster.kubeconfig))
    tls = ssl.create_default_context(cadata=cluster.authority())
    headers = {"Authorization": f"Bearer {token}"}
    return Api(replace(access, tls=tls, headers=lambda: headers))


class CountingPod:
    """One of them on a node, with the row that orders it about."""

    def __init__(
        self,
        cluster: RealCluster,
        node: str,
        command: Sequence[str] = ("python3", "-c", COUNTING),
        volume: str = "dovetail",
        **spec: object,
    ) -> None:
        self._cluster, self._node = cluster, node
        self.name = f"counting-{next(_NUMBERS)}"
        self.lines: list[Json] = []
        self._upto = 0
        self._order = 0
        self._want = "run"
        self._room = _MUCH
        container: Json = {"name": "job", "image": cluster.image, "command": list(command)}
        container["volumeMounts"] = [{"name": volume, "mountPath": "/dovetail"}]
        thing = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name},
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "containers": [container],
                "volumes": [{"name": volume, "emptyDir": {}}],
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 10,
                "tolerations": [{"operator": "Exists"}],
                **spec,
            },
        }
        eventually(partial(create, cluster.api, "/api/v1/namespaces/default/pods", thing))
        self.uid = self.read()["metadata"]["uid"]
        self.container = eventually(self._container_id)
        self.order("run")

    def read(self) -> Json:
        return self._cluster.api.get(f"/api/v1/namespaces/default/pods/{self.name}")

    def container_status(self) -> Json:
        status: Json = (self.read()["status"].get("containerStatuses") or [{}])[0]
        return status

    def _container_id(self) -> str:
        status = self.container_status()
        return str(status.get("containerID", "")) if "running" in status.get("state", {}) else ""

    def delete(self, grace_s: int | None = None) -> None:
        path = f"/api/v1/namespaces/default/pods/{self.name}"
        self._cluster.api.delete(path, grace_s)

    # --------------------------------------------------------------------------- as a controller

    def order(self, want: str, room_bytes: int = _MUCH) -> int:
        self._order += 1
        self._want, self._room = want, room_bytes
        self._write()
        return self._order

    def _write(self) -> None:
        path = f"{NODES}/{self._node}"
        rows = self._cluster.api.get(path)["spec"]["pods"]
        row = {
            "uid": self.uid,
            "name": self.name,
            "namespace": "default",
            "job": "1",
            "container": self.container,
            "want": self._want,
            "order": self._order,
            "roomBytes": self._room,
            "reportsUpto": self._upto,
        }
        others = [known for known in rows if known["uid"] != self.uid]
        self._cluster.api.patch(path, {"spec": {"pods": [*others, row]}})

    def told(self) -> Json:
        rows = node_status(self._cluster.api, self._node).get("pods") or []
        return next((row for row in rows if row["uid"] == self.uid), {})

    def done(self, want: str, room_bytes: int = _MUCH, within_s: float = 30.0) -> Json:
        """Order it, and wait until it is answered."""
        number = self.order(want, room_bytes)
        return eventually(lambda: (row := self.told()).get("order") == number and row, within_s)  # type: ignore[no-any-return]

    def take_reports(self) -> list[int]:
        """What it has counted so far, as the agent has passed it on."""
        reports = self.told().get("reports")
        if reports is not None and reports["from"] == self._upto:
            self.lines += [json.loads(line) for line in reports["text"].splitlines()]
            self._upto = reports["to"]
            self._write()
        return [line["n"] for line in self.lines if "n" in line]

    def take_last_reports(self) -> list[int]:
        """All that it has counted; it must have stopped."""
        while True:
            known = self.take_reports()
            time.sleep(0.5)
            if self.take_reports() == known:
                return known
