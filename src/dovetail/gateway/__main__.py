"""`python -m dovetail.gateway SETTINGS [READY]`: the process that answers at the address of a service.

SETTINGS is JSON (`GatewaySettings`); READY is the number of a pipe that is told the port, or why there
is none; without, it is printed. The line to the daemon is opened with the daemon's rights, so that
nobody else can; requests are read with the rights of the service's user.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys

from dovetail.gateway.clients import Clients
from dovetail.gateway.control import Control, ControlDoor, door_for
from dovetail.gateway.load import LoadMeter
from dovetail.gateway.passing import Passing
from dovetail.gateway.replicas import ReplicaPool
from dovetail.gateway.tokens import TokenGate
from dovetail.gateway.troubles import FewTroubles
from dovetail.gateway.upstream import CHUNK
from dovetail.worlds.gateway_settings import GatewaySettings, settings_in

_BACKLOG = 1024
_END_S = 10.0  # for requests that are being answered when it is told to stop


async def serve(
    settings: GatewaySettings,
    door: ControlDoor,
    listener: socket.socket,
    ready: int | None,
    tls: ssl.SSLContext | None = None,
) -> None:
    bounds = settings.bounds
    asyncio.get_running_loop().set_exception_handler(FewTroubles())
    meter = LoadMeter(settings.slo_s, asyncio.get_running_loop().time(), settings.percentile)
    pool = ReplicaPool(settings.service, bounds, meter)
    passing = Passing(settings.service, pool, meter, bounds)
    gate = TokenGate() if settings.network else None
    clients = Clients(passing, meter, bounds, settings.service, gate, tls)
    control = Control(pool, meter, gate, settings.network)
    await control.listen(door)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, control.stopped.set)
    server = await asyncio.start_server(
        clients.connected, sock=listener, limit=CHUNK, backlog=_BACKLOG
    )
    gc.freeze()  # what is there now stays
    _tell(ready, str(listener.getsockname()[1]))
    telling = asyncio.create_task(control.tell_load())
    await control.stopped.wait()
    server.close()
    pool.stop()
    telling.cancel()
    await _until_answered(meter)


async def _until_answered(meter: LoadMeter) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _END_S
    while (meter.in_flight or meter.queued) and loop.time() < deadline:
        await asyncio.sleep(0.05)


def _listener(settings: GatewaySettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    found.setblocking(False)
    return found


def _become(settings: GatewaySettings) -> None:
    """For good, and before the address is opened: a port below 1024 is not for every user."""
    if settings.account is None:
        return
    user, group, groups = settings.account
    os.setgroups(groups)
    os.setgid(group)
    os.setuid(user)


def _tls(settings: GatewaySettings) -> ssl.SSLContext | None:
    """Before the rights go: the key is the daemon's."""
    if settings.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*settings.tls)
    return context


def _tell(ready: int | None, told: str) -> None:
    if ready is None:
        print(told, flush=True)
        return
    os.write(ready, told.encode())
    os.close(ready)


def main(arguments: list[str]) -> int:
    settings = settings_in(arguments[0])
    ready = int(arguments[1]) if len(arguments) > 1 else None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    door = door_for(settings)
    try:
        tls = _tls(settings)
        _become(settings)
        listener = _listener(settings)
    except ssl.SSLError as error:
        _tell(ready, f"the certificate {settings.tls} cannot be used: {error.reason or error}")
        return 1
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        _tell(ready, f"port {settings.port} of {settings.host} cannot be used: {why}")
        return 1
    asyncio.run(serve(settings, door, listener, ready, tls))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
