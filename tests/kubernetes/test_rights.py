"""The controller's role can do what it needs, and each verb of it is needed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

import pytest
import yaml

from dovetail.worlds.kubernetes.client import Api, ApiError
from dovetail.worlds.kubernetes.config import Access
from real_cluster import CRDS, DEPLOY, SYSTEM, RealCluster, create, eventually

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_PODS: Final = "/api/v1/namespaces/default/pods"
_POD: Final = f"{_PODS}/dt-rights"
_SERVICES: Final = "/api/v1/namespaces/default/services"
_NODES: Final = f"/apis/dovetail.dev/v1alpha1/namespaces/{SYSTEM}/dovetailnodes"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
_OBJECTS: Final = "/apis/dovetail.dev/v1alpha1"
_EVENTS: Final = "/api/v1/namespaces/default/events"
_EVENT: Final = {"involvedObject": {"namespace": "default"}, "reason": "Started"}
_NODE: Final = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailNode"}


def _pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "dovetail", "containers": [{"name": "job", "image": "none:1"}]}
    return {"metadata": {"name": name}, "spec": spec}


def _list(path: str, api: Api) -> object:
    return api.get(path)


def _watch(path: str, api: Api) -> None:
    api.stream(path, watch="1").close()


def _patch(path: str, api: Api) -> object:
    return api.patch(path, {"status": {}})


# What the world asks of the API server, one for each verb of the role.
NEEDS: Final[dict[tuple[str, str], Callable[[Api], object]]] = {
    ("nodes", "list"): lambda api: api.get("/api/v1/nodes"),
    ("nodes", "watch"): lambda api: api.stream("/api/v1/nodes", watch="1").close(),
    ("nodes/status", "patch"): lambda api: api.patch(
        "/api/v1/nodes/node1/status", {"status": {"capacity": {"dovetail.dev/berths": "4"}}}
    ),
    ("pods", "list"): lambda api: api.get("/api/v1/pods"),
    ("pods", "watch"): lambda api: api.stream("/api/v1/pods", watch="1").close(),
    ("pods", "get"): lambda api: api.get(_POD),
    ("pods", "create"): lambda api: api.create(_PODS, _pod("dt-made"), dryRun="All"),
    ("pods", "delete"): lambda api: api.delete(f"{_PODS}/dt-gone", 0),
    ("pods/binding", "create"): lambda api: api.bind("default", "dt-gone", "nowhere"),
    ("pods/log", "get"): lambda api: api.stream(f"{_POD}/log").close(),
    ("configmaps", "create"): lambda api: api.create(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "dt-own"}}, dryRun="All"
    ),
    ("services", "list"): lambda api: api.get("/api/v1/services"),
    ("services", "get"): lambda api: api.get(f"{_SERVICES}/none"),
    ("services", "create"): lambda api: api.create(
        _SERVICES, {"metadata": {"name": "dt-own"}, "spec": {"ports": [{"port": 80}]}}, dryRun="All"
    ),
    ("services", "delete"): lambda api: api.delete(f"{_SERVICES}/dt-gone"),
    ("resourcequotas", "list"): lambda api: api.get("/api/v1/resourcequotas"),
    ("resourcequotas", "watch"): lambda api: api.stream(
        "/api/v1/resourcequotas", watch="1"
    ).close(),
    ("events", "create"): lambda api: api.create(
        _EVENTS, {**_EVENT, "metadata": {"name": "rights"}}, dryRun="All"
    ),
    ("events", "patch"): lambda api: api.patch(f"{_EVENTS}/none", {"count": 2}),
    **{
        (plural, verb): partial(call, f"{_OBJECTS}/{plural}")
        for plural in ("dovetailjobs", "dovetailstudies", "dovetailservices")
        for verb, call in (("list", _list), ("watch", _watch))
    },
    **{
        (f"{plural}/status", "patch"): partial(
            _patch, f"{_OBJECTS}/namespaces/default/{plural}/none/status"
        )
        for plural in ("dovetailjobs", "dovetailstudies", "dovetailservices")
    },
    ("leases", "get"): lambda api: api.get(f"{_LEASES}/rights"),
    ("leases", "create"): lambda api: api.create(
        _LEASES, {"metadata": {"name": "rights-made"}}, dryRun="All"
    ),
    ("leases", "update"): lambda api: api.replace(
        f"{_LEASES}/rights", {"metadata": {"name": "rights"}, "spec": {}}
    ),
    ("leases", "patch"): lambda api: api.patch(f"{_LEASES}/rights", {"spec": {}}),
    ("dovetailnodes", "list"): lambda api: api.get(_NODES),
    ("dovetailnodes", "watch"): lambda api: api.stream(_NODES, watch="1").close(),
    ("dovetailnodes", "create"): lambda api: api.create(
        _NODES, {**_NODE, "metadata": {"name": "made"}, "spec": {"pods": []}}, dryRun="All"
    ),
    ("dovetailnodes", "patch"): lambda api: api.patch(f"{_NODES}/rights", {"spec": {"pods": []}}),
}
FORBIDDEN: Final[dict[str, Callable[[Api], object]]] = {
    "secrets": lambda api: api.get("/api/v1/secrets"),
    "another's status": lambda api: api.patch(f"{_NODES}/rights/status", {"status": {}}),
    "roles": lambda api: api.get(f"{_RBAC}/clusterroles"),
    "exec": lambda api: api.get(f"{_POD}/exec"),
    "node's labels": lambda api: api.patch("/api/v1/nodes/node1", {"metadata": {"labels": {}}}),
    "jobs themselves": lambda api: api.patch(
        f"{_OBJECTS}/namespaces/default/dovetailjobs/none", {"spec": {}}
    ),
    "others' Services": lambda api: api.patch(f"{_SERVICES}/kubernetes", {"metadata": {}}),
    "service accounts": lambda api: api.get("/api/v1/serviceaccounts"),
}


@pytest.fixture(scope="module")
def controller(cluster: RealCluster) -> Iterator[Api]:
    """As the service account of the controller."""
    create(cluster.api, "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    for kind in ("dovetailnodes", "dovetailjobs", "dovetailstudies", "dovetailservices"):
        cluster.apply(CRDS / f"{kind}.yaml")
    for thing in yaml.safe_load_all((DEPLOY / "controller-rbac.yaml").read_text()):
        create(cluster.api, _room(thing), thing)
    eventually(partial(create, cluster.api, _PODS, _pod("dt-rights")))
    create(cluster.api, _LEASES, {"metadata": {"name": "rights"}})
    own = {**_NODE, "metadata": {"name": "rights"}, "spec": {"pods": []}}
    eventually(partial(create, cluster.api, _NODES, own))
    api = Api(_as_controller(cluster))
    yield api
    api.close_all()
    cluster.api.delete(_POD, 0)
    cluster.api.delete(f"{_NODES}/rights")


def _room(thing: dict[str, Any]) -> str:
    namespace = thing["metadata"].get("namespace")
    if thing["kind"] == "ServiceAccount":
        return f"/api/v1/namespaces/{namespace}/serviceaccounts"
    where = f"{_RBAC}/namespaces/{namespace}" if namespace else _RBAC
    return f"{where}/{thing['kind'].lower()}s"


def _as_controller(cluster: RealCluster) -> Access:
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/dovetail-controller/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.api.create(path, asked)["status"]["token"]
    access = cluster.api.access
    tls = _without_certificate(cluster)
    return Access(
        *(access.host, access.port, access.prefix, tls, SYSTEM),
        lambda: {"Authorization": f"Bearer {token}"},
    )


def _without_certificate(cluster: RealCluster) -> Any:
    """The admin's certificate would be heard before any token."""
    import ssl

    config = yaml.safe_load(cluster.kubeconfig.read_text())
    own = config["clusters"][0]["cluster"]
    data = own.get("certificate-authority-data")
    if data:
        return ssl.create_default_context(cadata=base64.b64decode(data).decode())
    return ssl.create_default_context(cafile=own.get("certificate-authority"))


def allowed(call: Callable[[Api], object], api: Api) -> bool:
    """Whatever else may be wrong with it."""
    try:
        call(api)
    except ApiError as error:
        return error.code != 403
    return True


def test_all_that_the_world_asks_for_is_in_the_role_and_nothing_else() -> None:
    things = list(yaml.safe_load_all((DEPLOY / "controller-rbac.yaml").read_text()))
    rules = [rule for thing in things for rule in thing.get("rules", ())]
    given = [(kind, verb) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]]
    assert sorted(given) == sorted(NEEDS)


@pytest.mark.parametrize("need", NEEDS, ids="-".join)
def test_the_controller_may_do_what_it_must(controller: Api, need: tuple[str, str]) -> None:
    assert allowed(NEEDS[need], controller)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_controller_may_do_nothing_else(controller: Api, what: str) -> None:
    assert not allowed(FORBIDDEN[what], controller)


@pytest.mark.parametrize("need", NEEDS, ids="-".join)
def test_without_a_verb_what_needs_it_fails(
    cluster: RealCluster, controller: Api, need: tuple[str, str]
) -> None:
    kind = "Role" if need[0] in ("leases", "dovetailnodes") else "ClusterRole"
    where = (
        f"{_RBAC}/clusterroles" if kind == "ClusterRole" else f"{_RBAC}/namespaces/{SYSTEM}/roles"
    )
    path = f"{where}/dovetail-controller"
    rules = cluster.api.get(path)["rules"]
    cluster.api.patch(path, {"rules": _without(rules, need)})
    try:
        eventually(lambda: not allowed(NEEDS[need], controller), 5.0)
    finally:
        cluster.api.patch(path, {"rules": rules})
        eventually(lambda: allowed(NEEDS[need], controller), 5.0)


def _without(rules: list[dict[str, Any]], need: tuple[str, str]) -> list[dict[str, Any]]:
    kind, verb = need
    left = deepcopy(rules)
    for rule in left:
        if kind in rule["resources"]:
            rule["verbs"] = [own for own in rule["verbs"] if own != verb]
    return [rule for rule in left if rule["verbs"]]


@pytest.mark.parametrize(
    ("role", "verb", "what", "may"),
    [
        ("edit", "create", "dovetailjobs", True),
        ("edit", "delete", "dovetailstudies", True),
        ("edit", "create", "dovetailservices", True),
        ("edit", "patch", "dovetailjobs/status", False),
        ("view", "list", "dovetailjobs", True),
        ("view", "create", "dovetailjobs", False),
    ],
)
def test_who_may_edit_or_view_a_namespace_may_do_so_with_its_jobs(
    cluster: RealCluster, role: str, verb: str, what: str, may: bool
) -> None:
    cluster.apply(DEPLOY / "user-roles.yaml")
    binding = {
        "metadata": {"name": f"ann-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": f"ann-{role}"}],
    }
    create(cluster.api, f"{_RBAC}/namespaces/default/rolebindings", binding)

    def allowed_in(namespace: str) -> bool:
        kind, _, part = what.partition("/")
        wanted = {"group": "dovetail.dev", "resource": kind, "subresource": part, "verb": verb}
        spec = {
            "user": f"ann-{role}",
            "resourceAttributes": {**wanted, "namespace": namespace},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(cluster.api.create(path, {"spec": spec})["status"]["allowed"])

    if may:
        eventually(lambda: allowed_in("default"), 30.0)  # roles are put together after a while
    assert allowed_in("default") is may
    assert not allowed_in("kube-system")
