"""Services that other machines can reach: where they can reach the daemon, by the same rules."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from math import inf
from socket import gethostname
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from dovetail.core.errors import BadInput
from dovetail.daemon.settings import DaemonSettings
from dovetail.workloads.service.design import ServiceDesign
from dovetail.worlds.hosting import Endpoint

Tokens: TypeAlias = dict[str, tuple[str, float | None]]  # by id: digest, and when it is over
HeldTokens: TypeAlias = Callable[[], Tokens | None]
_ASKED_EVERY_S = 0.5


class TokenNews:
    """Which tokens hold now, for one gateway. While nobody knows, it has the last ones."""

    def __init__(self, held: HeldTokens | None) -> None:
        self._held: Final = held  # None: it asks for none
        self._told: Tokens | None = None
        self._asked_at = -inf

    def news(self) -> Tokens | None:
        if self._held is None or monotonic() - self._asked_at < _ASKED_EVERY_S:
            return None
        self._asked_at = monotonic()
        held = self._held()
        if held is None or held == self._told:
            return None
        self._told = held
        return held

    def forget(self) -> None:
        """There is another gateway, or none."""
        self._told = None


class GatewayNetwork(NamedTuple):
    """How the gateway of one service has to be open to other machines."""

    stamp: str  # what it has to have been started with; "": it is for this machine
    tls: tuple[str, str] | None
    refusal: str  # why it must not be open; "": it may
    tokens: TokenNews


_HERE = "or write listen: {port} and come by ssh"


@dataclass(frozen=True, slots=True)
class ServiceNetwork:
    """As `up` was asked. `shared`: on a box for several people."""

    listen: str | None
    cert: str | None
    key: str | None
    without_tls: bool
    shared: bool

    @classmethod
    def as_asked(cls, settings: DaemonSettings) -> ServiceNetwork:
        tls = (settings.tls_cert, settings.tls_key, settings.without_tls)
        return cls(settings.listen, *tls, settings.home.system)

    def check(self, host: str, port: int) -> None:
        """Refuses an address at which tokens or requests could be read by those who must not."""
        if is_here(host):
            return
        what, here = f"listen: {host}:{port}", _HERE.format(port=port)
        if self.listen is None:
            raise BadInput(
                f"{what} can be reached from other machines, and this daemon is not to be: start it "
                f"with dovetail up --listen HOST:PORT --tls-cert FILE --tls-key FILE, {here}"
            )
        if self.cert is not None:
            return
        if not self.without_tls:
            raise BadInput(
                f"{what}: who listens on the way would read tokens and requests: start the daemon "
                f"with --tls-cert FILE --tls-key FILE, {here}"
            )
        if self.shared:
            raise BadInput(
                f"{what}: without a certificate another user's process could take this address and be "
                f"shown tokens: start the daemon with --tls-cert FILE --tls-key FILE, {here}"
            )

    @property
    def tls(self) -> tuple[str, str] | None:
        """The files of certificate and key."""
        return None if self.cert is None else (self.cert, self.key or self.cert)

    def address(self, design: ServiceDesign) -> str:
        """Of one that other machines can reach."""
        any_host = ip_address(design.host).is_unspecified
        endpoint = Endpoint(gethostname() if any_host else design.host, design.port)
        return f"{'http' if self.tls is None else 'https'}://{endpoint}"

    def gateway(self, design: ServiceDesign, held: HeldTokens) -> GatewayNetwork:
        if is_here(design.host):
            return GatewayNetwork("", None, "", TokenNews(None))
        try:
            self.check(design.host, design.port)
        except BadInput as error:
            return GatewayNetwork("", None, str(error), TokenNews(None))
        return GatewayNetwork(self._stamp(), self.tls, "", TokenNews(held))

    def _stamp(self) -> str:
        """Another one for another certificate, also under the same name."""
        if self.tls is None:
            return "in the clear"
        told = sha256()
        for path in self.tls:
            try:
                found = os.stat(path)
            except OSError as error:
                raise BadInput(f"cannot read {path}: {error.strerror}") from None
            told.update(f"{path} {found.st_mtime_ns} {found.st_ino} {found.st_size}".encode())
        return told.hexdigest()


def is_here(host: str) -> bool:
    return ip_address(host).is_loopback
