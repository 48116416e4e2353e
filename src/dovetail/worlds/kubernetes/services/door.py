"""The gateway of a service as a pod: its objects are made, and it is reached by TLS.

Which certificate it has made for itself stands in the first line of its log, which the API server gives
of that pod and no other. What it is told of us is ours, in its arguments: none of it is a secret.
"""

from __future__ import annotations

import re
import socket
import ssl
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.gateway_settings import CERTIFICATE
from dovetail.worlds.hosting import Endpoint, GatewayLost, GatewayOrder
from dovetail.worlds.kubernetes.client import CONFLICT, NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.services import objects
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.wire import keep_alive
from dovetail.worlds.tls_identity import TlsIdentity

_CONNECT_S: Final = 5.0
_START_S: Final = 20.0  # then somebody is told why it is not there yet
_SILENT_S: Final = 30.0  # one that runs and cannot be reached for so long is replaced
_LOOK_S: Final = 0.1
_LONGEST_HEAD: Final = 16 * 1024  # of its log
_LINE: Final = re.compile(rb"^%b ([A-Za-z0-9+/=]+)$" % CERTIFICATE.encode(), re.M)

Json = dict[str, Any]


class PodDoor:
    """`identity` is the controller's. `image_of` says of which image gateways are."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        order: GatewayOrder,
        identity: Callable[[], TlsIdentity],
        image_of: Callable[[], str],
    ) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self._order: Final = order
        self._identity: Final = identity
        self._image_of: Final = image_of
        self._namespace: Final = order.tenant or settings.namespace
        self._labels: Final = objects.labels(order.id, settings)
        self._silent: tuple[str, float] = ("", 0.0)  # which pod, and since when

    # ---------------------------------------------------------------------------------- reaching

    def connect(self) -> socket.socket | None:
        try:
            found = [pod for pod in self._pods() if _is_running(pod)]
        except DovetailError as error:
            raise GatewayLost(f"its gateway is not looked for: {error}") from None
        for pod in found:
            if (line := self._line_to(pod)) is not None:
                self._silent = ("", 0.0)
                return line
        return None

    def _pods(self) -> list[Json]:
        """Those that nobody wants gone."""
        path = objects.pods_path(self._namespace)
        items = self._api.get(path, labelSelector=objects.selector(self._labels))["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def _line_to(self, pod: Mapping[str, Any]) -> socket.socket | None:
        try:
            certificate = self._certificate(pod)
            if not certificate:
                return None
            context = self._identity().client_side(certificate)
            at = Endpoint(pod["status"]["podIP"], objects.CONTROL_PORT)
            return _handshake(at, context)
        except (OSError, ValueError, DovetailError):  # it is about to begin, or to end
            return None

    def _certificate(self, pod: Mapping[str, Any]) -> bytes:
        path = f"{objects.pods_path(self._namespace)}/{pod['metadata']['name']}/log"
        asked = {"container": objects.GATEWAY, "limitBytes": _LONGEST_HEAD}
        found = _LINE.search(b"".join(self._api.pieces(path, **asked)))
        return b64decode(found[1]) if found else b""

    # ---------------------------------------------------------------------------------- starting

    def start(self) -> None:
        try:
            self._start()
        except ApiError as error:
            raise GatewayLost(f"its gateway cannot be started: {error}") from None

    def _start(self) -> None:
        self._make_service()
        for pod in self._pods():
            if _is_over(pod) or self._is_silent(pod):
                self._delete(pod, 0)
        if not self._pods():
            image, ours = self._image_of(), self._identity().certificate
            made = objects.pod(self._order, self._namespace, image, ours, self._settings)
            self._api.create(objects.pods_path(self._namespace), made)
        until, why = monotonic() + _START_S, ""
        while monotonic() < until:
            pods = self._pods()
            if any(_is_running(pod) and self._answers(pod) for pod in pods):
                return
            why = next((told for pod in pods if (told := _waits_for(pod))), "")
            sleep(_LOOK_S)
        raise GatewayLost(f"its gateway does not run yet{why and ': '}{why}")

    def _make_service(self) -> None:
        """Somebody else's is left as it is."""
        path, order = objects.services_path(self._namespace), self._order
        try:
            self._api.create(path, objects.service(order, self._namespace, self._settings))
        except ApiError as error:
            if error.code != CONFLICT:
                raise
            known = self._api.get(f"{path}/{order.service}")
            if not objects.is_ours(known, order.id, self._settings):
                raise GatewayLost(taken(order.service, self._namespace)) from None

    def _answers(self, pod: Mapping[str, Any]) -> bool:
        line = self._line_to(pod)
        if line is not None:
            line.close()
        return line is not None

    def _is_silent(self, pod: Mapping[str, Any]) -> bool:
        """It runs, as far as is known, and was not reached the whole time that we have tried."""
        name = pod["metadata"]["name"]
        if not _is_running(pod):
            return False
        if self._silent[0] != name:
            self._silent = (name, monotonic())
        return monotonic() - self._silent[1] > _SILENT_S

    # ------------------------------------------------------------------------------------ ending

    def end(self) -> None:
        """Its kubelet tells it to end, and gives it the time to answer."""
        end_gateways(self._api, self._namespace, self._labels)

    def _delete(self, pod: Mapping[str, Any], grace_s: int | None) -> None:
        _deleted(self._api, objects.pods_path(self._namespace), pod, grace_s)


def taken(service: str, namespace: str) -> str:
    return (
        f"name: namespace {namespace} has a Service {service!r} already, which is not of this "
        "service: choose another name, or delete it"
    )


def end_gateways(api: Api, namespace: str, own: Mapping[str, str]) -> None:
    for path in (objects.services_path(namespace), objects.pods_path(namespace)):
        for thing in api.get(path, labelSelector=objects.selector(own))["items"]:
            _deleted(api, path, thing, None)


def _deleted(api: Api, path: str, thing: Mapping[str, Any], grace_s: int | None) -> None:
    """That very one."""
    metadata = thing["metadata"]
    try:
        api.delete(f"{path}/{metadata['name']}", grace_s, metadata["uid"])
    except ApiError as error:
        if error.code not in (NOT_FOUND, CONFLICT):
            raise


def _handshake(at: Endpoint, context: ssl.SSLContext) -> socket.socket:
    plain = socket.create_connection(at, _CONNECT_S)
    keep_alive(plain)  # a node that vanishes says nothing
    try:
        return context.wrap_socket(plain)
    except BaseException:
        with suppress(OSError):
            plain.close()
        raise


def _is_running(pod: Mapping[str, Any]) -> bool:
    rows = pod["status"].get("containerStatuses") or ()
    return bool(pod["status"].get("podIP")) and any("running" in row["state"] for row in rows)


def _is_over(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Failed", "Succeeded")


def _waits_for(pod: Mapping[str, Any]) -> str:
    """What its kubelet says why its container is not there, or the scheduler why it has no node."""
    status = pod["status"]
    for row in status.get("containerStatuses") or ():
        for state in (row["state"], row.get("lastState") or {}):
            told = state.get("waiting") or state.get("terminated") or {}
            if told.get("reason") not in (None, "ContainerCreating"):
                return _joined(told)
    for row in status.get("conditions") or ():
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            return _joined(row)
    return ""


def _joined(told: Mapping[str, Any]) -> str:
    words = " ".join(str(told.get("message") or "").split())[:300]
    reason = str(told.get("reason") or "")
    return f"{reason}: {words}" if reason and words else reason or words
