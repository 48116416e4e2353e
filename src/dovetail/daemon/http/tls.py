"""Traffic that leaves the machine is encrypted, unless the operator has said that it need not be."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from dataclasses import dataclass
from ipaddress import ip_address

from dovetail.core.errors import BadInput
from dovetail.daemon.http.access import listen_at


@dataclass(frozen=True, slots=True)
class Network:
    """The address for callers from other machines."""

    listener: socket.socket
    tls: ssl.SSLContext | None


def network_at(listen: str, cert: str | None, key: str | None, without: bool) -> Network:
    listener = listen_at(listen)
    try:
        return Network(listener, context_for(listener, cert, key, without))
    except BadInput:
        listener.close()
        raise


def context_for(
    listener: socket.socket, cert: str | None, key: str | None, without: bool
) -> ssl.SSLContext | None:
    """For a socket that listens."""
    return context_at(str(listener.getsockname()[0]), cert, key, without)


def context_at(
    address: str, cert: str | None, key: str | None, without: bool
) -> ssl.SSLContext | None:
    """None: in the clear, which others may read only on this machine, or because `without` says that
    it may be so."""
    if cert is not None:
        return _context(cert, key)
    if not (without or ip_address(address.partition("%")[0]).is_loopback):
        raise BadInput(
            f"who listens on the way to {address} would read the token and all that is said: give a "
            "certificate (--tls-cert FILE --tls-key FILE), or listen at 127.0.0.1 and come by ssh, "
            "or say that the network is safe (--without-tls)"
        )
    return None


def _context(cert: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _check_there(cert, "certificate")
    _check_private(key or cert)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error) or "it cannot be read"
        raise BadInput(
            f"the certificate {cert} with the key {key or cert} cannot be used: {said}"
        ) from None
    return context


def _no_password() -> str:
    """There is nobody who could type one."""
    raise ValueError("the key needs a password; give one without")


def _check_there(path: str, what: str) -> int:
    """Its mode."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        raise BadInput(f"cannot read the {what} {path}: {error.strerror}") from None


def _check_private(key: str) -> None:
    if stat.S_IMODE(_check_there(key, "key")) & 0o007:
        raise BadInput(f"the key {key} can be read by everybody; try: chmod o-rwx {key}")
