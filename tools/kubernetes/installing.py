"""What Dovetail needs on a cluster: an agent on each node, and a claim where jobs save themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from dovetail.worlds.kubernetes.client import CONFLICT, Api, ApiError
from tools.kubernetes.needs import Missing

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CRDS: Final = DEPLOY / "helm" / "dovetail" / "crds"
SYSTEM: Final = "dovetail-system"
CLAIM: Final = "saved"
NODES: Final = f"/apis/dovetail.dev/v1alpha1/namespaces/{SYSTEM}/dovetailnodes"
_ROOMS: Final = {  # where objects of a kind are created
    "Namespace": "/api/v1/namespaces",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
}
_NOT_YET: Final = (403, 404)

Json = dict[str, Any]


def eventually(
    happened: Callable[[], object], within_s: float = 60.0, every_s: float = 0.05
) -> Any:
    """What it says once it says something."""
    deadline = time.monotonic() + within_s
    while not (found := happened()):
        if time.monotonic() >= deadline:
            raise Missing(f"the cluster did not get ready within {within_s:g} s")
        time.sleep(every_s)
    return found


def create(api: Api, room: str, thing: Mapping[str, Any]) -> bool:
    """If it is not there. False: not yet, as its kind or its namespace is too young."""
    try:
        api.create(room, dict(thing))
    except ApiError as error:
        if error.code not in (CONFLICT, *_NOT_YET):
            raise
        return error.code == CONFLICT
    return True


def apply(api: Api, file: Path, change: Callable[[Json], None] = lambda _: None) -> None:
    for thing in yaml.safe_load_all(file.read_text()):
        change(thing)
        room = _ROOMS[thing["kind"]].format(thing["metadata"].get("namespace", ""))
        eventually(partial(create, api, room, thing))


def node_names(api: Api) -> list[str]:
    return sorted(item["metadata"]["name"] for item in api.get("/api/v1/nodes")["items"])


def ready_nodes(api: Api) -> list[str]:
    return [
        item["metadata"]["name"]
        for item in api.get("/api/v1/nodes")["items"]
        for condition in item["status"].get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]


def install_agents(api: Api, image: str) -> None:
    """From what a user would apply, with that image."""

    def ours(thing: Json) -> None:
        if thing["kind"] == "DaemonSet":
            thing["spec"]["template"]["spec"]["containers"][0]["image"] = image

    create(api, "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    apply(api, CRDS / "dovetailnodes.yaml")
    apply(api, DEPLOY / "node-agent.yaml", ours)
    names = node_names(api)
    for node in names:
        kind = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailNode"}
        thing = {**kind, "metadata": {"name": node}, "spec": {"pods": []}}
        eventually(partial(create, api, NODES, thing))
    eventually(lambda: all(node_status(api, node).get("agent") for node in names), 120.0)


def node_status(api: Api, node: str) -> Json:
    status: Json = api.get(f"{NODES}/{node}").get("status") or {}
    return status


def make_claim(
    api: Api, name: str = CLAIM, folder: str = "", size: str = "1Gi", namespace: str = "default"
) -> None:
    """Where pods of all nodes save what they need: here a folder of the one machine."""
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    volume = {
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": folder or f"/tmp/dovetail-{name}", "type": "DirectoryOrCreate"},
            "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": name},
        },
    }
    claim = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "resources": {"requests": {"storage": size}},
        },
    }
    create(api, "/api/v1/persistentvolumes", volume)
    create(api, claims, claim)
    eventually(lambda: api.get(f"{claims}/{name}")["status"].get("phase") == "Bound")
