"""A webhook of a cluster's owner that the API server really asks: it refuses pods, or changes them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from dovetail.worlds.kubernetes.client import ApiError
from real_cluster import Json, RealCluster, eventually

_ROOM: Final = "/apis/admissionregistration.k8s.io/v1"


@contextmanager
def refusing(cluster: RealCluster, why: str) -> Iterator[None]:
    """Pods of jobs are not let in."""
    no = {"allowed": False, "status": {"code": 403, "message": why}}
    with _asked(cluster, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", no):
        yield


@contextmanager
def changing(cluster: RealCluster, patch: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Pods of jobs are changed on their way in."""
    text = base64.b64encode(json.dumps(list(patch)).encode()).decode()
    yes = {"allowed": True, "patchType": "JSONPatch", "patch": text}
    kind, field = "MutatingWebhookConfiguration", str(patch[0]["path"]).rpartition("/")[2]
    with _asked(cluster, "mutatingwebhookconfigurations", kind, yes, field):
        yield


@contextmanager
def _asked(
    cluster: RealCluster, rooms: str, kind: str, answer: Json, field: str = ""
) -> Iterator[None]:
    with _server(cluster, answer) as url:
        room, name = f"{_ROOM}/{rooms}", "test-of-dovetail"
        cluster.api.create(room, _configuration(cluster, kind, name, url))
        try:
            eventually(lambda: _is_in_force(cluster, answer, field))
            yield
        finally:
            cluster.api.delete(f"{room}/{name}")
            eventually(lambda: not _is_in_force(cluster, answer, field))


def _configuration(cluster: RealCluster, kind: str, name: str, url: str) -> Json:
    bundle = base64.b64encode(_certificate(cluster)).decode()
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "objectSelector": {"matchExpressions": [{"key": "dovetail.dev/job", "operator": "Exists"}]},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    group = "admissionregistration.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}


def _is_in_force(cluster: RealCluster, answer: Json, field: str) -> bool:
    """The API server takes a moment to know of it."""
    container = {"name": "job", "image": cluster.image}
    metadata = {"name": "tried", "labels": {"dovetail.dev/job": "0"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    spec = {"containers": [container], "schedulerName": "nobody"}
    try:
        path = "/api/v1/namespaces/default/pods"
        made = cluster.api.create(path, {**pod, "spec": spec}, dryRun="All")
    except ApiError as error:
        return "denied the request" in str(error) and not answer["allowed"]
    return bool(answer["allowed"]) and field in made["spec"]["containers"][0]


def _certificate(cluster: RealCluster) -> bytes:
    return (cluster.breakable().plane.authority.folder / "webhook.crt").read_bytes()


@contextmanager
def _server(cluster: RealCluster, answer: Json) -> Iterator[str]:
    authority = cluster.breakable().plane.authority
    authority.server("webhook", ["127.0.0.1"])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = {**answer, "uid": asked["request"]["uid"]}
            kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            body = json.dumps({**kind, "response": said}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "webhook.crt", authority.folder / "webhook.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="webhook", daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
