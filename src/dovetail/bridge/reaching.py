"""How a bridge comes to the daemon: by its socket, as the user whose process it is."""

from __future__ import annotations

import asyncio
import os

from dovetail.bridge.forwarding import Ends, Reach
from dovetail.client.connection import DaemonUnreachable, peer_uid
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
