"""A console as it is shown to one person: what is printed, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.daemon.history.job_rows import phase_of
from dovetail.daemon.logs import Reading
from dovetail.worlds.consoles import ConsoleAway, Consoles, Ring
from dovetail.worlds.world import JobLog

if TYPE_CHECKING:
    from dovetail.daemon.main import Daemon

SHOWN_FOR_S = 60.0  # then whoever looks asks again, and whether they may is asked again, too
_LOOK_EVERY_S = 0.5
_NO_RING_S = 0.05  # until the processes may be there
OVER = "over"


class ShownConsole:
    def __init__(
        self, daemon: Daemon, consoles: Consoles, job_id: JobId, console: int, stream: str
    ) -> None:
        self._daemon: Final = daemon
        self._consoles: Final = consoles
        self._job_id: Final = job_id
        self._console: Final = console
        self._stream: Final = stream

    def phase(self) -> str:
        """Of the job; `over`: of that console nothing more comes."""
        track = self._daemon.state.tracks.get(self._job_id)
        if track is None and not self._daemon.world.has_processes(self._job_id):
            return OVER
        if self._console and self._has_ended():
            return OVER
        return "ending" if track is None else phase_of(track)

    def _has_ended(self) -> bool:
        """Of a command beside the job."""
        try:
            return self._consoles.end_of(self._job_id, self._console) is not None
        except DovetailError:
            return True

    async def pieces(self, log: JobLog, start: int) -> AsyncIterator[bytes]:
        with ExitStack() as held:
            if self._console == 0:
                held.enter_context(self._daemon.service.terminals.looking(self._job_id))
            async for piece in self._pieces(Reading(log, start), held):
                yield piece

    async def _pieces(self, reading: Reading, held: ExitStack) -> AsyncIterator[bytes]:
        phase, until = self.phase(), monotonic() + SHOWN_FOR_S
        ring: Ring | None = None
        while True:
            now_in = self.phase()  # asked first: what was printed before that is then read below
            while (piece := reading.next())[1]:
                if piece[0]:
                    return  # something is gone: whoever counts the bytes asks again, and is told
                yield piece[1]
                if ring is not None:
                    ring.read_to(reading.upto)
            if ring is not None:
                ring.read_to(reading.upto)  # also where nothing came: it rings no more before
            if now_in != phase or now_in == OVER or monotonic() > until:
                return
            if ring is None and (ring := self._ring(reading.upto)) is not None:
                held.callback(ring.close)
            if ring is None:
                await asyncio.sleep(_NO_RING_S if now_in != "queued" else _LOOK_EVERY_S)
            elif not await _rung(ring):
                ring = None

    def _ring(self, place: int) -> Ring | None:
        try:
            return self._consoles.ring(self._job_id, self._console, self._stream, place)
        except ConsoleAway:
            return None


async def _rung(ring: Ring) -> bool:
    """When there may be more, or for a moment. False: it rings no more."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(ring.fileno(), rung.set)
    try:
        await asyncio.wait_for(rung.wait(), _LOOK_EVERY_S)
    except TimeoutError:
        return True
    finally:
        loop.remove_reader(ring.fileno())
    return ring.heard()
