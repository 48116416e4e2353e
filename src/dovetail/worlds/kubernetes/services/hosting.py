"""Services on a cluster: a replica has an address of its own, a gateway stands behind a Service."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Iterable
from pathlib import Path
from threading import Lock, Thread
from typing import Final, Protocol

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.worlds.hosting import Endpoint, GatewayLost, GatewayOrder
from dovetail.worlds.images import image_trouble
from dovetail.worlds.kubernetes.client import FORBIDDEN, NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.manifest import namespace_trouble
from dovetail.worlds.kubernetes.pods import Pod
from dovetail.worlds.kubernetes.services import objects
from dovetail.worlds.kubernetes.services.door import PodDoor, end_gateways, taken
from dovetail.worlds.kubernetes.settings import HOME, MANAGED_BY, Settings
from dovetail.worlds.tls_identity import TlsIdentity, kept_identity

_REPLICA_PORT: Final = 8000
_ADDRESS_PORT: Final = 80

log = logging.getLogger("dovetail.kubernetes")


class SeesPods(Protocol):
    """The cluster, as far as addresses of replicas need it."""

    def last_pod(self, job_id: str) -> Pod | None: ...


class PodHosting:
    """`cluster` is there from the moment its world has joined. `key` is the file of our key."""

    replica_host = "0.0.0.0"  # of its pod
    cluster: SeesPods | None = None

    def __init__(self, api: Api, settings: Settings, key: Path) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self._key: Final = key
        self._known: TlsIdentity | None = None
        self._lock: Final = Lock()
        self._image = settings.gateway_image

    # ----------------------------------------------------------------------------- where things are

    def why_not(
        self, name: str, tenant: str, listen: int | None, port: int | None, most: int
    ) -> str:
        namespace = tenant or self._settings.namespace
        trouble = objects.name_trouble(name) or namespace_trouble(namespace, self._settings)
        if trouble:
            return trouble
        try:
            self._gateway_image()
            self._api.get(f"{objects.services_path(namespace)}/{name}")
        except ApiError as error:
            if error.code == NOT_FOUND:
                return ""
            if error.code == FORBIDDEN:
                return f"the controller may not have Services: {error}; apply deploy/ again"
            raise
        except GatewayLost as error:
            return str(error)
        return taken(name, namespace)

    def address_port(self, listen: int | None) -> int:
        return listen or _ADDRESS_PORT

    def replica_port(self, port: int | None, taken: Collection[int]) -> int:
        """Pods share no ports: all replicas have the same."""
        return port or _REPLICA_PORT

    def address(self, service: str, tenant: str, port: int) -> str:
        host = f"{service}.{tenant or self._settings.namespace}.svc"
        return f"http://{host}" if port == _ADDRESS_PORT else f"http://{host}:{port}"

    def endpoint(self, job_id: JobId, port: int) -> Endpoint | None:
        """A pod that somebody else ends gets no more requests."""
        pod = self._pod(job_id)
        if pod is None or pod.is_over or pod.is_deleted or not pod.address:
            return None
        return Endpoint(pod.address, port)

    def _pod(self, job_id: JobId) -> Pod | None:
        return self.cluster.last_pod(job_id) if self.cluster is not None else None

    def waits_for(self, job_id: JobId) -> str:
        pod = self._pod(job_id)
        return pod.waits_for if pod is not None and (pod.is_tried_again or pod.is_hopeless) else ""

    def stranger_at(self, endpoint: Endpoint, uid: int | None) -> str:
        """The address of a pod is its own."""
        return ""

    # ------------------------------------------------------------------------------------ gateways

    def door(self, order: GatewayOrder) -> PodDoor:
        return PodDoor(self._api, self._settings, order, self._identity, self._gateway_image)

    def _identity(self) -> TlsIdentity:
        with self._lock:
            if self._known is None:
                self._known = kept_identity(self._key, "controller")
            return self._known

    def _gateway_image(self) -> str:
        """As was said, else that of the controller's own pod."""
        if not self._image:
            self._image = self._own_image()
        if trouble := image_trouble(self._image):
            raise GatewayLost(f"gateway_image={self._image!r} {trouble}")
        return self._image

    def _own_image(self) -> str:
        namespace, name = self._api.access.namespace, socket.gethostname()
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            pod = self._api.get(f"{objects.pods_path(namespace)}/{name}")
            found: str = pod["spec"]["containers"][0]["image"]
            return found
        raise GatewayLost(
            "gateways run in pods, and this controller runs in none: name an image that has Dovetail, "
            "dovetail up --world kubernetes:gateway_image=IMAGE"
        )

    def end_all_but(self, known: Collection[str]) -> None:
        """They are looked for now, before there are new ones, and ended beside the caller."""
        ours = {MANAGED_BY: self._settings.name, HOME: self._settings.home}
        wanted = f"{objects.selector(ours)},{objects.SERVICE}"
        found = set[tuple[str, str]]()
        try:
            for kind in ("services", "pods"):
                for thing in self._api.get(f"/api/v1/{kind}", labelSelector=wanted)["items"]:
                    metadata = thing["metadata"]
                    found.add((metadata["namespace"], metadata["labels"][objects.SERVICE]))
        except DovetailError as error:
            log.warning("gateways of services that are over were not looked for: %s", error)
        over = [own for own in found if own[1] not in known]
        if over:
            Thread(target=self._end, args=(over,), name="old gateways", daemon=True).start()

    def _end(self, over: Iterable[tuple[str, str]]) -> None:
        try:
            for namespace, service_id in over:
                own = objects.labels(service_id, self._settings)
                end_gateways(self._api, namespace, own)
        except DovetailError as error:
            log.warning("gateways of services that are over are left: %s", error)
        finally:
            self._api.close()
