"""The HTTP server: uvicorn on our sockets, silent while nobody asks."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server

from dovetail.daemon.http.access import SocketAccess, listen_on, peer_of, token_in
from dovetail.daemon.http.app import make_app
from dovetail.daemon.http.connections import ConnectionLimits, Doors, refused
from dovetail.daemon.http.network_access import NetworkAccess
from dovetail.daemon.http.time_limits import Timed
from dovetail.daemon.http.tls import Network
from dovetail.daemon.users.system_accounts import group_called
from dovetail.home import system_home
from dovetail.worlds.shortage import Short, raise_limit

if TYPE_CHECKING:
    from dovetail.daemon.main import Daemon

KEEP_ALIVE_S = 60
_READ_WITHIN_S = 1.0
_NOT_YOURS = refused("403 Forbidden", "this daemon is not yours: only its user and root may ask it")


def serve(daemon: Daemon, network: Network | None, announce: Callable[[], None]) -> None:
    """Answers until the process ends. `announce` is called once anybody can connect."""
    home = daemon.home
    token = token_in(home.token) if network else None
    admins = group_called(daemon.admins, "--admins") if daemon.admins else None
    group = group_called(daemon.group, "--group") if home.system else None
    access = SocketAccess(os.geteuid(), home.system, token, group, admins)
    secure = network is not None and network.tls is not None
    doors = Doors(ConnectionLimits(raise_limit()), access.is_admin)
    sockets = [_unix_socket(daemon), *([network.listener] if network else [])]
    network_access = NetworkAccess(access, daemon.tokens, secure)
    daemon.services.ask_for_tokens(network_access.hold_for_services)
    config = Config(
        make_app(daemon, network_access, doors.limits),
        http=_guarded_by(access),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    tls = network.tls if network else None
    QuietServer(config, announce, tls).run([doors.listening(own) for own in sockets])


def _unix_socket(daemon: Daemon) -> socket.socket:
    home = daemon.home
    if not home.system:
        return listen_on(home.socket)
    _open_to_all(home.socket.parent)
    return listen_on(home.socket, 0o660, group_called(daemon.group, "--group"))


def _open_to_all(folder: Path) -> None:
    """Who may use the socket must come to it: our umask would keep them out of a new folder."""
    folder.mkdir(exist_ok=True)
    if folder == system_home().socket.parent:
        folder.chmod(0o755)


class QuietServer(Server):
    """Uvicorn looks ten times a second whether it shall stop. Ours ends with its process."""

    def __init__(
        self, config: Config, announce: Callable[[], None], tls: SSLContext | None
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """TLS is for the network alone: on the Unix socket the kernel says who is there."""
        for own in sockets or ():
            self.config.ssl = None if own.family == socket.AF_UNIX else self._tls
            await super().startup([own])

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._announce()
        await asyncio.Event().wait()


def _guarded_by(access: SocketAccess) -> type[Timed]:
    class Guarded(Timed):
        """Looks at who connects before it reads a byte. Each request carries its caller, or None
        if it came over the network and still has to show the token."""

        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            connection: Any = transport.get_extra_info("socket")
            caller = None
            refusal = b""
            if connection.family == socket.AF_UNIX:
                try:
                    caller = access.of_peer(peer_of(connection))
                    refusal = b"" if caller is not None else _NOT_YOURS
                except Short as error:
                    refusal = refused("503 Service Unavailable", str(error))
            self.app_state = {**self.app_state, "caller": caller}
            if refusal:
                self._refuse(refusal)

        def _refuse(self, refusal: bytes) -> None:
            """Nothing they send is looked at; they get a moment to read why."""
            self._refused = True
            self.transport.write(refusal)
            self.transport.write_eof()
            self.loop.call_later(_READ_WITHIN_S, self.transport.close)

        def data_received(self, data: bytes) -> None:
            if not self._refused:
                super().data_received(data)

    return Guarded
