"""Services on a real cluster: replicas and gateways are pods; what is killed comes again."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from daemon_process import Refused
from dovetail.worlds.kubernetes.client import NOT_FOUND, ApiError
from dovetail.worlds.tls_identity import new_identity
from gateway_process import Answer
from kubernetes_daemon import make_claim, pods_daemon
from real_cluster import CRDS, RealCluster, create, eventually
from service_daemon import ServiceDaemon, error_of
from waiting import LONG_S, until

_SERVER: Final = (Path(__file__).parents[1] / "replica_server.py").read_text()
_HTTP, _CONTROL = 8080, 8081


class PodServices(ServiceDaemon):
    def __init__(self, cluster: RealCluster, folder: Path) -> None:
        super().__init__(pods_daemon(cluster, folder, slots=2))
        self.cluster = cluster

    def serve(self, name: str = "answers", **spec: Any) -> Any:
        script = _SERVER.replace('"127.0.0.1"', '"{host}"')
        asked = {"command": ["python3", "-c", script, "{port}"], **spec}
        return super().serve(name, **asked)

    def rows(self) -> list[Any]:
        found: list[Any] = self.daemon.get("/v1/services")["services"]
        return found

    def gateways(self, service_id: str, namespace: str = "default") -> list[Any]:
        return self.pods(f"dovetail.dev/service={service_id}", namespace)

    def pods(self, wanted: str, namespace: str = "default") -> list[Any]:
        """Those of that label that nobody wants gone."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        found = self.cluster.api.get(path, labelSelector=wanted)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def replica_pods(self) -> list[str]:
        found = self.cluster.api.get("/api/v1/pods", labelSelector="dovetail.dev/run")["items"]
        jobs = {own["job"] for own in self.row()["replicas"]}
        ours = [pod["metadata"] for pod in found]
        return sorted(own["uid"] for own in ours if own["labels"]["dovetail.dev/job"] in jobs)

    def object(self, name: str = "answers", namespace: str = "default") -> Any:
        return self.cluster.api.get(f"/api/v1/namespaces/{namespace}/services/{name}")

    def host(self, name: str = "answers", namespace: str = "default") -> str:
        """What its Service leads to: on this machine nobody knows the addresses of Services."""
        path = f"/api/v1/namespaces/{namespace}/endpoints/{name}"
        found = self.cluster.api.get(path)
        ready = [own["ip"] for row in found.get("subsets", ()) for own in row.get("addresses", ())]
        return ready[0] if ready else ""

    def ask(self, path: str = "/", name: str = "answers", method: str = "GET") -> Answer:
        return ask(until(partial(self.host, name)), path)

    def answers(self, name: str = "answers") -> bool:
        with suppress(OSError, http.client.HTTPException):
            return ask(self.host(name), "/").status == 200
        return False


def ask(host: str, path: str) -> Answer:
    connection = http.client.HTTPConnection(host, _HTTP, timeout=LONG_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))
    finally:
        connection.close()


@pytest.fixture(scope="module")
def made(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodServices]:
    for namespace in ("team-s", "team-q"):
        eventually(partial(create, cluster.api, "/api/v1/namespaces", named(namespace)))
        make_claim(cluster, namespace)
    for file in CRDS.glob("*.yaml"):
        cluster.apply(file)
    found = PodServices(cluster, tmp_path_factory.mktemp("services"))
    found.daemon.start()
    found.serve("nowhere", image="registry.invalid/nothing:1")  # nobody else is to wait for it
    try:
        yield found
        for row in found.daemon.get("/v1/services")["services"]:
            found.change("stop", row["id"])
        found.daemon.close()
    finally:
        found.daemon.stop()


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


@pytest.fixture(scope="module")
def service_id(made: PodServices) -> str:
    """Of a service of two replicas that answers."""
    row = made.serve(replicas=2, slo_ms=2000)
    assert row["address"] == "http://answers.default.svc"
    made.wait_for("ready", "ready")
    return str(row["id"])


def test_a_service_is_pods_behind_an_object_that_everybody_sees(
    made: PodServices, service_id: str
) -> None:
    assert made.ask().status == 200
    assert [own["port"] for own in made.object()["spec"]["ports"]] == [80]
    (gateway,) = made.gateways(service_id)
    spec = gateway["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceaccount" not in json.dumps(
        [own.get("volumeMounts") for own in spec["containers"]]
    )
    assert spec["securityContext"]["runAsNonRoot"]
    assert len(made.replica_pods()) == 2


def test_nobody_but_its_controller_speaks_to_a_gateway(made: PodServices, service_id: str) -> None:
    place = (made.host(), _CONTROL)
    theirs = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(place, timeout=LONG_S))
    for context in (new_identity("somebody").client_side(theirs), nobody()):
        assert said_to_a_stop(place, context) == b""
    assert made.ask().status == 200


def said_to_a_stop(place: tuple[str, int], context: ssl.SSLContext) -> bytes:
    with (
        suppress(OSError),
        context.wrap_socket(socket.create_connection(place, LONG_S)) as line,
    ):
        line.sendall(b'{"replicas": [], "wake_s": 1, "why_none": "", "stop": true}\n')
        return line.recv(1)
    return b""


def nobody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_controller_that_is_killed_and_started_again_takes_all_of_it_up(
    made: PodServices, service_id: str
) -> None:
    pods, gateways = made.replica_pods(), uids(made.gateways(service_id))
    made.daemon.kill()
    assert made.ask().status == 200
    of_one_that_is_over = {**made.object()["metadata"]["labels"], "dovetail.dev/service": "v999"}
    left = named("left", spec={"ports": [{"port": 80}]})
    left["metadata"]["labels"] = of_one_that_is_over
    create(made.cluster.api, "/api/v1/namespaces/default/services", left)
    made.daemon.start()
    eventually(lambda: is_gone(made, "left"))
    made.wait_for("ready", "ready")
    assert (made.replica_pods(), uids(made.gateways(service_id))) == (pods, gateways)
    assert made.ask().status == 200


def uids(pods: list[Any]) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods]


def test_a_gateway_that_is_killed_is_started_again_and_so_is_one_whose_pod_is_deleted(
    made: PodServices, service_id: str, cluster: RealCluster
) -> None:
    (gateway,) = made.gateways(service_id)
    if cluster.own is not None:
        for pid in cluster.own.processes_of(gateway["metadata"]["uid"]):
            if b"dovetail.gateway" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        until(lambda: restarts(made.gateways(service_id)) == [1] and made.answers())
    path = f"/api/v1/namespaces/default/pods/{gateway['metadata']['name']}"
    cluster.api.delete(path, 0)
    until(lambda: uids(made.gateways(service_id)) not in ([], uids([gateway])) and made.answers())
    assert len(made.gateways(service_id)) == 1


def restarts(pods: list[Any]) -> list[int]:
    rows = [pod["status"].get("containerStatuses") or [{}] for pod in pods]
    return [row[0].get("restartCount", 0) for row in rows]


def test_a_replica_that_goes_answers_what_it_has(made: PodServices, service_id: str) -> None:
    host = made.host()
    with ThreadPoolExecutor(2) as side_by_side:
        asked = [side_by_side.submit(ask, host, "/slow?s=1.5") for _ in range(2)]
        until(lambda: sum(own["in_flight"] for own in made.row()["replicas"]) == 2)
        made.change("scale", least=1, most=1)
        assert [own.result().status for own in asked] == [200, 200]
    made.wait_for("ready")


def test_a_paused_service_refuses_at_once_and_goes_on_in_the_same_pod(
    made: PodServices, service_id: str
) -> None:
    pods = made.replica_pods()
    made.change("pause")
    assert made.wait_for("asleep")["state"] == "paused"
    assert "it is paused" in error_of(made.ask())
    made.change("resume")
    made.wait_for("ready")
    assert (made.ask().status, made.replica_pods()) == (200, pods)


def test_what_a_replica_prints_is_in_its_log(made: PodServices) -> None:
    made.serve("talks", command=["sh", "-c", "echo no weights here >&2; exit 3"])
    row = made.wait_for_trouble("2 in a row", "talks")
    assert "exit code 3 (no weights here)" in row["trouble"]
    made.change("stop", "talks")


def test_a_service_sleeps_as_frozen_pods_and_a_request_wakes_it(made: PodServices) -> None:
    made.change("stop")
    made.serve(replicas={"min": 0, "max": 1}, idle_s=1)
    answered, pods = made.ask(), made.replica_pods()
    made.wait_for("asleep")
    again = made.ask()
    assert (again.status, again.text) == (200, answered.text), "it is the same process"
    assert made.replica_pods() == pods
    made.change("stop")
    eventually(lambda: is_gone(made, "answers"))


def is_gone(made: PodServices, name: str) -> bool:
    try:
        made.object(name)
    except ApiError as error:
        return error.code == NOT_FOUND
    return False


def test_the_name_of_somebodys_service_is_refused_and_that_one_stays(made: PodServices) -> None:
    path, spec = "/api/v1/namespaces/team-s/services", {"ports": [{"port": 5432}]}
    create(made.cluster.api, path, named("database", spec=spec))
    before = made.object("database", "team-s")
    told = "namespace team-s has a Service 'database' already, which is not of this service"
    with pytest.raises(Refused, match=told):
        made.serve("database", tenant="team-s")
    assert made.object("database", "team-s") == before
    with pytest.raises(Refused, match="no name that a Service takes"):
        made.serve("Data_Base")
    with pytest.raises(Refused, match="that namespace is the cluster's own"):
        made.serve("dns", tenant="kube-system")


def test_services_of_two_namespaces_have_one_name_and_nothing_else_in_common(
    made: PodServices,
) -> None:
    first, second = made.serve("twins"), made.serve("twins", tenant="team-s")
    hosts = [until(partial(made.host, "twins", own)) for own in ("default", "team-s")]
    until(lambda: [made.row(own["id"])["state"] for own in (first, second)] == ["serving"] * 2)
    answers = [ask(host, "/").text for host in hosts]
    made.change("stop", first["id"])
    eventually(lambda: is_gone(made, "twins"))
    assert ask(hosts[1], "/").text == answers[1]
    assert (
        made.object("twins", "team-s")["metadata"]["labels"]["dovetail.dev/service"] == second["id"]
    )
    made.change("stop", second["id"])


def test_a_service_that_is_an_object_has_its_address_there_and_ends_with_it(
    made: PodServices,
) -> None:
    api, objects = (
        made.cluster.api,
        "/apis/dovetail.dev/v1alpha1/namespaces/team-s/dovetailservices",
    )
    thing = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailService"}
    words = ["python3", "-m", "http.server", "{port}", "--bind", "{host}"]
    spec = {"command": words, "health": "/", "replicas": 1}
    eventually(partial(create, api, objects, {**thing, **named("hello", spec=spec)}))
    status = until(lambda: standing(api.get(f"{objects}/hello"), "Serving"))
    assert (status["address"], status["replicas"]) == ("http://hello.team-s.svc", {"Ready": 1})
    api.patch(f"{objects}/hello", {"spec": {"replicas": 2}})
    until(lambda: api.get(f"{objects}/hello")["status"]["replicas"] == {"Ready": 2})
    assert ask(until(partial(made.host, "hello", "team-s")), "/").status == 200
    api.delete(f"{objects}/hello")
    until(lambda: status["service"] not in [own["id"] for own in made.rows()])
    until(lambda: not made.gateways(status["service"], "team-s"))


def standing(thing: Any, phase: str) -> Any:
    status = thing.get("status") or {}
    return status if status.get("phase") == phase else None


def test_a_quota_that_is_used_up_is_said_and_the_service_comes_once_there_is_room(
    made: PodServices,
) -> None:
    quotas = "/api/v1/namespaces/team-q/resourcequotas"
    create(made.cluster.api, quotas, named("small", spec={"hard": {"pods": "1"}}))
    eventually(lambda: made.cluster.api.get(f"{quotas}/small").get("status", {}).get("hard"))
    row = made.serve("small", tenant="team-q")
    made.wait_for_trouble("the quota of namespace team-q is used up", row["id"])
    made.cluster.api.patch(f"{quotas}/small", {"spec": {"hard": {"pods": "2"}}})
    until(lambda: made.row(row["id"])["state"] == "serving")
    made.change("stop", row["id"])


def test_an_image_that_is_nowhere_is_said_and_holds_nothing_up(made: PodServices) -> None:
    """Its pod is from before the controller was killed."""
    row = made.wait_for_trouble("nothing:1", "nowhere")
    assert row["state"] == "troubled"
    assert "Image" in row["trouble"]
    made.change("stop", "nowhere")
    until(lambda: not made.gateways(row["id"]))
    until(
        lambda: not [job for job in row["replicas"] if made.pods(f"dovetail.dev/job={job['job']}")]
    )
