"""The token of the controller is in the header that carries it and nowhere else, whatever goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools.kubernetes import building
from tools.kubernetes.cluster import Cluster, claim, take_down

from dovetail.client.connection import Client
from dovetail.core.errors import DovetailError
from dovetail.daemon.http import app
from dovetail.home import home_in
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from real_cluster import CRDS, DEPLOY, SYSTEM, create, eventually

_BINDING: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/dovetail-controller"
_PAGES: Final = ("{job_id}", "{study_id}", "{name}")


@dataclass(frozen=True)
class Controller:
    """A daemon that shows its token to a real API server."""

    own: Cluster
    api: Api  # the administrator's
    home: Path
    token: str
    client: Client

    @property
    def log(self) -> str:
        return (self.home / "daemon.log").read_text(errors="replace")

    def submit(self, **fields: Any) -> str:
        spec = {"command": ["train"], "image": "train:1", "workdir": "/", **fields}
        job = {"spec": spec, "environment": {}, "workdir": "/", "umask": 18}
        return str(self.client.post("/v1/jobs", {"jobs": [job]})["ids"][0])


def _node(name: str) -> dict[str, Any]:
    has = {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name},
        "status": {"capacity": has, "allocatable": has, "conditions": ready},
    }


def _install(api: Api) -> str:
    """As `deploy/` does; the token of the controller."""
    create(api, "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for file in CRDS.glob("*.yaml"):
        for thing in yaml.safe_load_all(file.read_text()):
            create(api, crds, thing)
    for thing in yaml.safe_load_all((DEPLOY / "controller-rbac.yaml").read_text()):
        eventually(partial(create, api, _room(thing), thing))
    for name in ("one", "two"):
        create(api, "/api/v1/nodes", _node(name))
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/dovetail-controller/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(api.create(path, asked)["status"]["token"])


def _room(thing: dict[str, Any]) -> str:
    namespace = thing["metadata"].get("namespace")
    group = thing["apiVersion"]
    start = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    where = f"{start}/namespaces/{namespace}" if namespace else start
    return f"{where}/{thing['kind'].lower()}s"


def _kubeconfig(own: Cluster, token: str, folder: Path) -> Path:
    known = yaml.safe_load(own.kubeconfig.read_text())
    (folder / "token").write_text(token)
    known["users"] = [
        {"name": user["name"], "user": {"tokenFile": "token"}} for user in known["users"]
    ]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(known))
    return path


def _dovetail(home: Path, *words: str) -> None:
    program = Path(sys.executable).parent / "dovetail"
    subprocess.run([program, "--home", home, *words], check=True, capture_output=True, cwd=home)


@pytest.fixture
def controller(real_machine: None, tmp_path: Path) -> Iterator[Controller]:
    folder, home = claim(), tmp_path / "home"
    home.mkdir()
    try:
        own = Cluster(folder, building.build(), 0, ("*", "-nodelifecycle"))
        own.start()
        api = Api(find_access(str(own.kubeconfig)))
        token = _install(api)
        accounts = partial(api.get, "/api/v1/namespaces/default/serviceaccounts")
        eventually(lambda: accounts()["items"])  # pods of a younger namespace are refused
        config = _kubeconfig(own, token, tmp_path)
        world = f"kubernetes:system={SYSTEM}:namespace=default:lease_s=60"
        _dovetail(home, "up", "--world", world, "--kubeconfig", str(config))
        client = Client(home_in(home))
        yield Controller(own, api, home, token, client)
        client.close()
        _dovetail(home, "down")
        api.close_all()
    finally:
        take_down(folder)


def _provoke(controller: Controller) -> list[str]:
    """All kinds of errors; the jobs that met them."""
    jobs = [
        controller.submit(),
        controller.submit(tenant="nowhere"),
        controller.submit(service_account="absent"),
        controller.submit(volumes={"/data": "absent"}, envs={"A": "b"}),
        controller.submit(resources={"gpus": 8}, nodes=2),
    ]
    pods = partial(controller.api.get, "/api/v1/namespaces/default/pods")
    eventually(lambda: len(pods()["items"]) >= 2)
    binding = controller.api.get(_BINDING)
    controller.api.delete(_BINDING)
    jobs.append(controller.submit())
    eventually(lambda: "forbidden" in controller.log)
    made = {name: binding[name] for name in ("apiVersion", "kind", "roleRef", "subjects")}
    create(
        controller.api,
        _BINDING.rpartition("/")[0],
        {**made, "metadata": {"name": "dovetail-controller"}},
    )
    controller.own.plane.api.kill()
    eventually(lambda: "cannot be reached" in controller.log)
    return jobs


def _answers(controller: Controller, job_id: str) -> Iterator[str]:
    """Of every page that can be read."""
    for page, methods in app.bare_app().openapi()["paths"].items():
        if "get" not in methods or "stream" in page or page.endswith("events"):
            continue
        for mark in _PAGES:
            page = page.replace(mark, job_id)
        try:
            yield controller.client.text(page)
        except DovetailError as error:
            yield str(error)


def test_whatever_goes_wrong_the_token_is_nowhere_to_be_read(controller: Controller) -> None:
    jobs = _provoke(controller)
    token = controller.token
    for job_id in jobs:
        for answer in _answers(controller, job_id):
            assert token not in answer
    pid = json.loads((controller.home / "daemon.json").read_text())["pid"]
    for name in ("cmdline", "environ"):
        assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    controller.own.plane.api.start()
    controller.own.plane.wait_until_ready()
    for kind in ("pods", "configmaps", "events"):
        assert token not in json.dumps(controller.api.get(f"/api/v1/{kind}"))
    files = [path for path in controller.home.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    for path in files:
        assert token.encode() not in path.read_bytes(), path
