"""Who may speak to the daemon: peers of the Unix socket by their credentials, others by a token."""

from __future__ import annotations

import os
import secrets
import socket
import stat
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dovetail.core.errors import BadInput
from dovetail.daemon.users.callers import Caller, caller_of, user_name
from dovetail.daemon.users.system_accounts import is_lent

_CREDENTIALS = struct.Struct("iII")  # process, user, group
_GROUP = struct.Struct("I")
_SO_PEERGROUPS = 59  # of Linux, since 4.13
_MOST_BYTES = 1024  # that Python lets us ask for
_SHORTEST_TOKEN = 20


@dataclass(frozen=True, slots=True)
class SocketAccess:
    """On a shared box whoever the socket's mode lets in may ask; else only its owner and root."""

    daemon_uid: int
    shared: bool = False
    token: str | None = None  # None: nobody gets in over the network
    group: int | None = None  # to which the socket is open
    admins: int | None = None  # the group whose members administer it, besides root

    def of_peer(self, peer: Peer) -> Caller | None:
        if not self.shared and peer.uid not in (0, self.daemon_uid):
            return None
        if self.shared and is_lent(peer.uid):
            return None  # limits and shares are a person's, however many numbers they have
        groups = (peer.gid, *peer.groups)
        caller = caller_of(peer.uid, self.daemon_uid, groups)
        return replace(caller, admin=caller.admin or self.admins in groups)

    def is_admin(self, uid: int) -> bool:
        return uid in (0, self.daemon_uid)


class Peer(NamedTuple):
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def peer_of(connection: socket.socket) -> Peer:
    """As the kernel noted it when the other side connected; it cannot be forged, and needs no
    directory of users that answers."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(raw)
    return Peer(uid, gid, _groups(connection, uid, gid))


def _groups(connection: socket.socket, uid: int, gid: int) -> tuple[int, ...]:
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_BYTES)
    except OSError:  # an older kernel, or in more groups than fit
        return tuple(os.getgrouplist(user_name(uid), gid))
    return tuple([own for (own,) in _GROUP.iter_unpack(raw)])


# ------------------------------------------------------------------------------------------- token


def token_in(path: Path) -> str:
    """The token that opens the daemon to the network, made on first use."""
    if not path.exists():
        _make_token(path)
    try:
        with open(path, encoding="ascii") as file:
            _check_private(path, os.fstat(file.fileno()))
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the token in {path}: {error}") from None
    if len(token) < _SHORTEST_TOKEN:
        raise BadInput(
            f"the token in {path} is too short to be safe; remove the file for a new one"
        )
    return token


def _make_token(path: Path) -> None:
    beside = path.with_suffix(".part")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    beside.replace(path)


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise BadInput(
            f"the token in {path} can be read by others; "
            "remove the file for a new one, or chmod 600 it"
        )


# ------------------------------------------------------------------------------------------ socket


def listen_on(path: Path, mode: int = 0o600, group: int | None = None) -> socket.socket:
    """A Unix socket that accepts connections. It appears under its name only when its mode is set,
    and takes the place of what a dead daemon has left behind."""
    _refuse_if_served(path)
    beside = path.with_name(f"{path.name}.new")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        beside.unlink(missing_ok=True)
        listener.bind(str(beside))
        os.chown(beside, -1, -1 if group is None else group)
        os.chmod(beside, mode)
        listener.listen()
        os.rename(beside, path)
    except OSError as error:
        listener.close()
        raise BadInput(f"cannot open the socket {path}: {error.strerror or error}") from None
    return listener


def _refuse_if_served(path: Path) -> None:
    try:
        found = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise BadInput(f"{path} is in the way: it is not a socket; move it, or use another --home")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return  # nobody listens any more
        except OSError:
            pass  # somebody does, who is busy or not ours
    raise BadInput(
        f"another daemon serves {path}; stop it first (dovetail down), or use another --home"
    )


def place_of(address: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Of `HOST:PORT`; an IPv6 host stands in brackets."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise BadInput(f"cannot listen at {address!r}; write HOST:PORT, such as 127.0.0.1:7733")
    try:
        family, _, _, _, place = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BadInput(f"cannot listen at {address!r}: {error.strerror or error}") from None
    return family, (str(place[0]), int(place[1]))


def listen_at(address: str) -> socket.socket:
    """A TCP socket for `HOST:PORT`."""
    family, place = place_of(address)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
    except OSError as error:
        listener.close()
        raise BadInput(f"cannot listen at {address!r}: {error.strerror or error}") from None
    return listener
