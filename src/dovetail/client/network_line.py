"""To a daemon on another machine, by its address: encrypted, and with a token in every request."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final

from dovetail.client.connection import DaemonUnreachable
from dovetail.client.hosts import Host, address, token_for
from dovetail.core.errors import BadInput


class NetworkLine:
    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self.place, self.port = address(host.profile)
        self.context: Final = context_of(host)
        self.authorization: Final = f"Bearer {token_for(host)}"
        self.called: Final = host.name
        self.doctor: Final = "dovetail doctor there"

    def open(self, timeout_s: float | None) -> socket.socket:
        try:
            plain = socket.create_connection((self.place, self.port), timeout_s)
        except OSError as error:
            raise self._cannot(error.strerror or str(error)) from None
        if self.context is None:
            return plain
        try:
            return self.context.wrap_socket(plain, server_hostname=self.place)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise self._cannot(
                f"its certificate is not known here ({error.verify_message}); name the file that "
                "vouches for it as ca in its table of the configuration file"
            ) from None
        except OSError as error:
            plain.close()
            why = error.strerror or str(error)
            raise self._cannot(
                f"no encrypted connection ({why}); is it an address of up --listen?"
            ) from None

    def _cannot(self, why: str) -> DaemonUnreachable:
        return DaemonUnreachable(f"cannot reach the daemon at {self.place}:{self.port}: {why}")


def context_of(host: Host) -> ssl.SSLContext | None:
    """None: in the clear, which is allowed for this machine and where somebody said so."""
    if host.profile.url.startswith("http:"):
        return None
    ca = str(Path(host.profile.ca).expanduser()) if host.profile.ca else None
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise BadInput(f"the certificate {ca} cannot be read: {error.strerror or error}") from None
