"""Who has a namespace reaches nothing of Dovetail itself, nor of another; an agent takes orders from
the controller and can give none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster_accounts import as_account, editor_of, is_forbidden
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from real_cluster import CRDS, DEPLOY, SYSTEM, create, eventually

_NODES: Final = f"/apis/dovetail.dev/v1alpha1/namespaces/{SYSTEM}/dovetailnodes"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
_KIND: Final = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailNode"}
_NODE: Final = {**_KIND, "metadata": {"name": "node1"}, "spec": {"pods": []}}
_SPEC: Final[dict[str, Any]] = {"spec": {"pods": []}}
_STATUS: Final[dict[str, Any]] = {"status": {"pods": []}}

# What would be an order to an agent, or an answer to the controller, or a look at what is others'.
OUT_OF_REACH: Final[dict[str, Callable[[Api], object]]] = {
    "orders": lambda api: api.patch(f"{_NODES}/node1", _SPEC),
    "orders of a new node": lambda api: api.create(_NODES, _NODE),
    "answers": lambda api: api.patch(f"{_NODES}/node1/status", _STATUS),
    "reports of all": lambda api: api.get(_NODES),
    "the lease": lambda api: api.patch(f"{_LEASES}/dovetail", {"spec": {"holderIdentity": "me"}}),
    "a new lease": lambda api: api.create(_LEASES, {"metadata": {"name": "dovetail"}}),
    "tokens": lambda api: api.create(
        f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/dovetail-controller/token", {"spec": {}}
    ),
    "secrets of the controller": lambda api: api.get(f"/api/v1/namespaces/{SYSTEM}/secrets"),
    "the controller's pod": lambda api: api.get(f"/api/v1/namespaces/{SYSTEM}/pods"),
    "pods of others": lambda api: api.get("/api/v1/namespaces/team-b/pods"),
    "pods of all": lambda api: api.get("/api/v1/pods"),
    "logs of others": lambda api: api.get("/api/v1/namespaces/team-b/pods/x/log"),
    "a pod among others": lambda api: api.create("/api/v1/namespaces/team-b/pods", {}),
    "the end of its own pod": lambda api: api.patch(
        "/api/v1/namespaces/team-a/pods/x/status", {"status": {"phase": "Failed"}}
    ),
    "a place for its own pod": lambda api: api.create(
        "/api/v1/namespaces/team-a/pods/x/binding", {}
    ),
    "what became of its own job": lambda api: api.patch(
        "/apis/dovetail.dev/v1alpha1/namespaces/team-a/dovetailjobs/x/status", _STATUS
    ),
    "jobs of others": lambda api: api.get(
        "/apis/dovetail.dev/v1alpha1/namespaces/team-b/dovetailjobs"
    ),
    "jobs of all": lambda api: api.get("/apis/dovetail.dev/v1alpha1/dovetailjobs"),
    "a job among others": lambda api: api.create(
        "/apis/dovetail.dev/v1alpha1/namespaces/team-b/dovetailjobs", {}
    ),
    "seats of a node": lambda api: api.patch("/api/v1/nodes/node1/status", {"status": {}}),
}


@pytest.fixture(scope="module")
def admin(control_plane: Path) -> Iterator[Api]:
    api = Api(find_access(str(control_plane)))
    create(api, "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for file in CRDS.glob("*.yaml"):
        for thing in yaml.safe_load_all(file.read_text()):
            create(api, crds, thing)
    for name in ("controller-rbac.yaml", "node-agent.yaml", "user-roles.yaml"):
        for thing in yaml.safe_load_all((DEPLOY / name).read_text()):
            if thing["kind"] != "DaemonSet":
                eventually(partial(create, api, _room(thing), thing))
    eventually(partial(create, api, _NODES, _NODE))
    yield api
    api.close_all()


def _room(thing: dict[str, Any]) -> str:
    group, namespace = thing["apiVersion"], thing["metadata"].get("namespace")
    start = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    where = f"{start}/namespaces/{namespace}" if namespace else start
    return f"{where}/{thing['kind'].lower()}s"


@pytest.fixture(scope="module")
def ann(admin: Api, control_plane: Path) -> Iterator[Api]:
    editor_of(admin, control_plane, "team-b")
    found = editor_of(admin, control_plane, "team-a")
    eventually(lambda: not is_forbidden(lambda: found.get("/api/v1/namespaces/team-a/pods")))
    yield found
    found.close_all()


@pytest.fixture(scope="module")
def agent(admin: Api, control_plane: Path) -> Iterator[Api]:
    found = as_account(admin, control_plane, SYSTEM, "dovetail-node-agent")
    eventually(lambda: not is_forbidden(lambda: found.get(_NODES)))
    yield found
    found.close_all()


@pytest.mark.parametrize("what", OUT_OF_REACH)
def test_a_user_of_one_namespace_reaches(ann: Api, what: str) -> None:
    """Nothing of these."""
    assert is_forbidden(lambda: OUT_OF_REACH[what](ann))


def test_a_user_has_jobs_of_the_own_namespace(ann: Api) -> None:
    jobs = "/apis/dovetail.dev/v1alpha1/namespaces/team-a/dovetailjobs"
    eventually(lambda: not is_forbidden(lambda: ann.get(jobs)))


def test_an_agent_answers_and_gives_no_orders(agent: Api) -> None:
    agent.patch(f"{_NODES}/node1/status", _STATUS)
    agent.stream(_NODES, watch="1").close()
    for what in sorted(set(OUT_OF_REACH) - {"answers", "reports of all"}):
        assert is_forbidden(partial(OUT_OF_REACH[what], agent)), what


def test_an_answer_that_carries_an_order_leaves_the_orders_as_they_are(
    admin: Api, agent: Api
) -> None:
    rows = [{"uid": "0" * 8 + "-0000-0000-0000-" + "0" * 12, "want": "stop", "order": 9}]
    agent.patch(f"{_NODES}/node1/status", {"spec": {"pods": rows}, **_STATUS})
    assert admin.get(f"{_NODES}/node1")["spec"]["pods"] == []
