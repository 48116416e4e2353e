"""How a bridge comes to the daemon: by its socket, as the user whose process it is, or with a token."""

from __future__ import annotations

import asyncio
import os

from dovetail.bridge.forwarding import Ends, Reach
from dovetail.client.connection import DaemonUnreachable, peer_uid
from dovetail.client.hosts import Host, address
from dovetail.home import Home


def by_socket(home: Home) -> Reach:
    async def reach() -> Ends:
        reader, writer = await asyncio.open_unix_connection(str(home.socket))
        owner = peer_uid(writer.get_extra_info("socket"))
        if owner not in (0, os.getuid()):
            writer.close()
            raise DaemonUnreachable(
                f"{home.socket} is served by user {owner}, neither you nor root"
            )
        return reader, writer

    return reach


def by_network(host: Host) -> Reach:
    """The token is added to each request."""
    from dovetail.client.network_line import context_of  # with OpenSSL

    context, (place, port) = context_of(host), address(host.profile)

    async def reach() -> Ends:
        name = place if context else None
        return await asyncio.open_connection(place, port, ssl=context, server_hostname=name)

    return reach
