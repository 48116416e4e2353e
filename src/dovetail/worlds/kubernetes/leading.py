"""One controller at a time: whoever holds the lease, and knows that it still does.

Before anything is written we look at our own clock: if the lease was not renewed for most of its time,
another may hold it by now, and nothing is written until it is renewed. So two never write at once,
whatever happens to the network, as long as clocks run equally fast. A lease that nobody has taken
meanwhile is still ours, however late we are; one that another has taken is lost for good.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from dovetail.core.errors import BadInput, DovetailError
from dovetail.worlds.kubernetes.client import CONFLICT, NOT_FOUND, Api, ApiError, Unreachable
from dovetail.worlds.kubernetes.settings import Settings

_SAFE_PART: Final = 2 / 3  # of the lease: then we stop writing, before others may begin
_RENEW_PART: Final = 1 / 5

log = logging.getLogger("dovetail.kubernetes")

Json = dict[str, Any]


class NotLeader(Unreachable):
    """Another controller may be at work by now: nothing was done, and it may be tried again."""


class Leader:
    """`lost` is called once, on a thread of its own, when the lease is no longer ours."""

    def __init__(self, api: Api, settings: Settings, lost: Callable[[], None]) -> None:
        # Its own, which no fence holds back and which does not wait for long.
        self._api: Final = Api(api.access, within_s=max(settings.lease_s / 3, 1.0))
        self._lease_s: Final = settings.lease_s
        self._name: Final = settings.name
        self._folder: Final = f"/apis/coordination.k8s.io/v1/namespaces/{settings.system}/leases"
        self.identity: Final = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._lost: Final = lost
        self._renewed_at = -1.0
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._keep_on, name="lease", daemon=True)

    def fence(self) -> None:
        """Raises unless the lease is surely ours."""
        if not self.is_leading:
            raise NotLeader("another controller may hold the lease by now: nothing more is written")

    @property
    def is_leading(self) -> bool:
        return self._renewed_at >= 0 and monotonic() < self._renewed_at + self._lease_s * _SAFE_PART

    def acquire(self, patience_s: float) -> None:
        """Waits for one who does not renew it any more; raises BadInput if somebody does."""
        until = monotonic() + patience_s
        seen, since = "", monotonic()
        while True:
            lease = self._read()
            mark = str((lease or {}).get("metadata", {}).get("resourceVersion"))
            if mark != seen:
                seen, since = mark, monotonic()
            if self._is_free(lease, since) and self._take(lease):
                self._thread.start()
                return
            if monotonic() > until:
                holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
                raise BadInput(
                    f"another controller ({holder}) holds the lease {self._name!r}: stop it first, "
                    "or give this one another name with --world kubernetes:name=NAME"
                )
            self._over.wait(min(0.5, self._lease_s / 10))

    def _is_free(self, lease: Json | None, since: float) -> bool:
        """By our own clock only: nobody has renewed it for as long as it lasts."""
        spec = (lease or {}).get("spec") or {}
        lasts = float(spec.get("leaseDurationSeconds") or self._lease_s)
        return not spec.get("holderIdentity") or monotonic() > since + lasts

    def _read(self) -> Json | None:
        try:
            return self._api.get(f"{self._folder}/{self._name}")
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def _take(self, lease: Json | None) -> bool:
        began, now = monotonic(), datetime.now(UTC).isoformat(timespec="microseconds")
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(round(self._lease_s), 1),
            "renewTime": now.replace("+00:00", "Z"),
        }
        try:
            if lease is None:
                kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
                self._api.create(
                    self._folder, {**kind, "metadata": {"name": self._name}, "spec": spec}
                )
            else:
                self._api.replace(f"{self._folder}/{self._name}", {**lease, "spec": spec})
        except ApiError as error:
            if error.code == CONFLICT:
                return False
            raise
        self._renewed_at = began
        return True

    def _keep_on(self) -> None:
        is_silent = False
        while not self._over.wait(self._lease_s * _RENEW_PART):
            try:
                if not self._renew():
                    log.error("the lease %r is lost", self._name)
                    self._lost()
                    return
                if is_silent:
                    log.warning("the lease is renewed again")
                is_silent = False
            except (ApiError, Unreachable) as error:
                if not is_silent:  # said once, however long the silence is
                    log.warning("the lease cannot be renewed for now: %s", error)
                is_silent = True

    def _renew(self) -> bool:
        """Is it still ours? One that somebody has deleted and nobody has taken is."""
        lease = self._read()
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") != self.identity:
            self._renewed_at = -1.0
            return False
        self._take(lease)  # if another was faster, the next look says so
        return True

    def release(self) -> None:
        """So that the next one need not wait."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(self._lease_s)  # it may be renewing it
        if self.is_leading:
            try:
                path = f"{self._folder}/{self._name}"
                self._api.patch(path, {"spec": {"holderIdentity": ""}})
            except (DovetailError, OSError) as error:
                log.warning("the lease is not released, it runs out: %s", error)
        self._renewed_at = -1.0
        self._api.close_all()
