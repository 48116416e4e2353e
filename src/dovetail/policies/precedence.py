"""What a policy may say of itself, so that people can be told why a job waits.

Everything here is optional. A policy that says nothing is explained by what it does: it is run ahead
in a simulation, and those that it starts first are told. One that is a key for a list scheduler
(`policies.queueing.Listed`) has it all but for the words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import View

EARLIER = "submitted earlier"


@dataclass(frozen=True, slots=True)
class Ahead:
    """Jobs that go before another for the same reason, the first of them first."""

    tracks: Sequence[Track]
    why: str  # follows their number: `with less time left`
    detail: str = ""  # in brackets after that: `60 s against 1 h, by what users said`


class Lineup(NamedTuple):
    """The waiting jobs in order. `order` is called later, on another thread: what it needs of the
    view is taken before."""

    order: Callable[[], list[Track]]
    exact: bool = True  # False: those that may start soon come first, but nobody's place is told


class Explains(Protocol):
    """A policy that says who goes first and why. It may also have

    `blocks`: True if the first that does not fit keeps back all behind it;
    `why_no_more(view, track)`: of an elastic job that runs, why it has no more GPUs, after "because";
    `holds_back`: why it may leave a job waiting that has room and nobody before it.
    """

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        """The waiting jobs that go before this one."""


class Lines(Protocol):
    """A policy that knows a quick way to all that wait, in its order. Asked where thousands do."""

    def lineup(self, view: View) -> Lineup: ...


@dataclass(frozen=True, slots=True)
class DeadlineWord:
    """What a policy has said to a job's deadline. It keeps a promise, or gives none."""

    promised: bool | None  # None: it has not decided yet
    done_at: Seconds = inf  # promised: the end by its plan
    gpus: int = 0  # promised: the most that its plan gives the job
    why: str = ""  # not promised: why, and what would do


class PromisesDeadlines(Protocol):
    """A policy that promises deadlines or refuses to."""

    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        """Of a job that may have been refused. It decides nothing. None: there is no deadline."""


class Remembers(Protocol):
    """A policy that goes by more than a view tells, such as what users had in the past. When the
    future is tried out on a copy of a view, it begins there with what it knows here."""

    def remembered(self, view: View) -> object: ...

    def begin_with(self, view: View, remembered: object) -> None: ...


class InOrderOfSubmission:
    """The base of policies that serve jobs in the order of their submission."""

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        return [Ahead([t for t in waiting if t.sequence < track.sequence], EARLIER)]

    def lineup(self, view: View) -> Lineup:
        tracks = list(view.tracks.values())
        return Lineup(lambda: tracks)
