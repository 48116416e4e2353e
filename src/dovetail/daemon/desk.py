"""The daemon's side of the seam: what users ask and what the world tells, in one line.

`core.loop.run` observes and acts through it. Whatever is decided or asked for reaches the world by one
way, after the journal has it on disk; and a question that changes something is answered after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from time import sleep
from typing import Any, Final

from dovetail.core.entries import Action, Event, Wake, Woke
from dovetail.core.errors import CannotGoOn, DovetailError
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.worlds.world import Wanted, World

_RETRY_S = 1.0
_LONGEST_S = 3600.0

log = logging.getLogger("dovetail.daemon")

Request = Callable[[View, Seconds], tuple[Sequence[Event], Any]]


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    answer: Future[Any]


class _Rang:
    """The world has something to tell."""


class _Over:
    """The daemon is to stop; the jobs go on."""


class Desk:
    """`clock` tells seconds as the journal counts them, `sync` makes the journal durable."""

    def __init__(
        self, world: World, view: View, clock: Callable[[], Seconds], sync: Callable[[], None]
    ) -> None:
        self._world: Final = world
        self._view: Final = view
        self._clock: Final = clock
        self._sync: Final = sync
        self._line: Final[SimpleQueue[_Asked | _Rang | _Over]] = SimpleQueue()
        self._wanted: list[Wanted] = []
        self._answers: list[tuple[Future[Any], Any]] = []
        self._wake_at: Seconds = inf
        self._has_begun = self._is_over = False
        self._rings = False

    def ask(self, request: Request) -> Future[Any]:
        """Have the request looked at in its turn. It is answered when its events are on disk."""
        answer: Future[Any] = Future()
        self._line.put(_Asked(request, answer))
        return answer

    def ring(self) -> None:
        """For the world: there is something to observe."""
        if not self._rings:
            self._rings = True
            self._line.put(_Rang())

    def stop(self) -> None:
        """Let `observe` say that it is over. The jobs go on."""
        self._line.put(_Over())

    # ------------------------------------------------------------------------------------- the loop

    def observe(self) -> Sequence[Event]:
        if not self._has_begun:
            self._has_begun = True
            return self._world.begin() or [Woke(self._clock())]
        self._make_durable()
        self._carry_out()
        while not self._is_over:
            events = self._next()
            if events is None:
                self._is_over = True
                self._world.stop()
                break
            if events:
                return events
            self._make_durable()  # a request that changes nothing is answered, too
        return ()

    def _next(self) -> Sequence[Event] | None:
        """Of whoever is next in line. None: it is over."""
        item = self._first_in_line()
        if isinstance(item, _Over):
            return None
        if isinstance(item, _Asked):
            return self._heed(item)
        self._rings = False  # first: who rings from here on may not have been seen
        if events := self._world.observe():
            return events
        if self._wake_at > self._clock():
            return ()
        self._wake_at = inf
        return [Woke(self._clock())]

    def _first_in_line(self) -> _Asked | _Rang | _Over:
        """However many ask, a world that wants to be looked at is."""
        again = self._world.look_again_s()
        left = max(self._wake_at - self._clock(), 0.0)
        try:
            return self._line.get(timeout=min(left, again, _LONGEST_S)) if again else _Rang()
        except Empty:
            return _Rang()

    def act(self, action: Action) -> None:
        """Noted now, carried out when the journal is on disk: at the next `observe`."""
        if isinstance(action, Wake):
            self._wake_at = action.at
        elif isinstance(action, Wanted):
            self._wanted.append(action)

    def _heed(self, asked: _Asked) -> Sequence[Event]:
        try:
            events, answer = asked.request(self._view, self._clock())
        except Exception as error:
            asked.answer.set_exception(error)
            return ()
        self._wanted += [event for event in events if isinstance(event, Wanted)]
        self._answers.append((asked.answer, answer))
        return events

    def _carry_out(self) -> None:
        wanted, self._wanted = self._wanted, []
        self._world.carry_out(wanted)

    def _make_durable(self) -> None:
        while True:
            try:
                self._sync()
                break
            except CannotGoOn:
                raise
            except (DovetailError, OSError) as error:
                # Nothing is carried out before it can be written down.
                log.error("%s", error)
                sleep(_RETRY_S)
        answers, self._answers = self._answers, []
        for future, answer in answers:
            future.set_result(answer)
