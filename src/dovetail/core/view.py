"""What a policy may look at, and the indexes that are kept up to date because it asked for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol, TypeAlias, cast

from dovetail.core.entries import Reported
from dovetail.core.groups import Group, Kind, new_kind
from dovetail.core.model import JobId, Limit, Seconds
from dovetail.core.room import Room
from dovetail.core.shape import Home, Shape
from dovetail.core.track import FINISHED, Phase, Track

WAITS: Final = 1
RUNS: Final = 2
ENDS: Final = 4
SETTLES: Final = 8
RECALLS: Final = 16
PARKS: Final = 32
REPORTS: Final = 64
CLOSES: Final = 128
DUE: Final = 256  # the end of a job that had a deadline or was moved, of no other


# What tells two shapes apart: see `Shape`.
ShapeKey: TypeAlias = tuple[
    int, int, tuple[str, ...], float, float, float, str, tuple[tuple[str, int], ...], bool, int, int,
    bool, Home,
]  # fmt: skip


# Tells whoever wants to know it what happened to the job; None: nobody does.
Teller: TypeAlias = Callable[[Track], object] | None


class Index(Protocol):
    """Something derived from the journal and kept up to date, because a policy asked for it.

    `watches` says what it wants to be told of, e.g. `WAITS | ENDS`, and it has the methods for that:
    they stand below, each in a protocol of its own.
    """

    watches: int


class WaitingIndex(Index, Protocol):
    """It watches `WAITS`."""

    def waits(self, track: Track) -> None:
        """The job now waits: it was submitted, preempted, interrupted or is to be tried again."""


class RunningIndex(Index, Protocol):
    """It watches `RUNS`."""

    def runs(self, track: Track) -> None:
        """The job was given GPUs."""


class EndingIndex(Index, Protocol):
    """It watches `ENDS` or `DUE`."""

    def ends(self, track: Track) -> None:
        """The job will never run again."""


class SettlingIndex(Index, Protocol):
    """It watches `SETTLES`."""

    def settle(self) -> None:
        """Forget what a policy tried out."""


class Recalling(Index, Protocol):
    """An index that learns from the past; it watches `RECALLS`."""

    def recall(self, track: Track) -> None:
        """What the job has had before this index was made."""


class Parking(Index, Protocol):
    """An index that keeps what is not found stale by itself; it watches `PARKS`."""

    def parks(self, track: Track) -> None:
        """The job neither runs nor waits in line, and has not ended: its user has paused it."""


class Reporting(Index, Protocol):
    """An index that follows what jobs tell of themselves; it watches `REPORTS`. Nothing is decided
    for reports alone unless one of these wants it."""

    def reports(self, track: Track, entry: Reported) -> bool | None:
        """The job has told how far it is. False: no decision can depend on that."""


class Closing(Index, Protocol):
    """An index that follows groups of jobs; it watches `CLOSES`."""

    def closes(self, group: Any, reason: str) -> None:
        """The group is over: its track, as its kind keeps it."""


class IndexSpec(Protocol):
    """Says which index is wanted. Kept by the policy as a field, so it is always the same object."""

    def build(self, view: View) -> Index: ...


class View:
    """What a policy may look at. `past` says how many jobs that ended are remembered as a whole."""

    __slots__ = (  # as those of `Room`
        *("_dependants", "_index_by_spec", "_on_close", "_on_due", "_on_end", "_on_park"),
        *(
            "_on_report",
            "_on_run",
            "_on_settle",
            "_on_wait",
            "_peak_suspended",
            "_remembers",
            "_running",
        ),
        *("_running", "_seen", "_sequence", "_shapes", "_simple_shapes", "_suspended_since"),
        *(
            "_lanes",
            "_tickets",
            "_tracks",
            "_unfinished",
            "capacity",
            "complete",
            "limits",
            "notes",
            "now",
            "past",
            "policy",
            "room",
        ),
        *("_kinds", "groups", "suspended_count", "unheeded", "unplaceable", "waiting_count"),
        *("_tell_end", "_tell_run", "_tell_wait"),
    )

    def __init__(self, past: int = 0) -> None:
        self.now: Seconds = 0.0
        self.room: Final = Room()
        self._tracks: dict[JobId, Track] = {}
        self._running: dict[JobId, Track] = {}
        self._seen: set[JobId] = set()  # every job ever submitted
        self._unfinished: dict[JobId, Phase] = {}  # those that ended otherwise, and how
        self.past: Final[deque[Track]] = deque(maxlen=past)
        self._remembers: Final = past > 0
        self._dependants: dict[JobId, list[Track]] = {}
        self.limits: Final[dict[str, Limit]] = {}  # of users; no policy looks at them
        self.notes: Final[dict[str, Any]] = {}  # of policies, see `Note`
        self.policy = ""  # the name of the one that decides, where it may change
        self.unplaceable: dict[JobId, str] = {}  # can never start here, and why: refused at once
        self._shapes: dict[ShapeKey, tuple[Shape, str]] = {}  # and why they never fit, if so
        self._lanes = 0  # shapes numbered so far
        self.complete = False  # will no node join any more?
        self._simple_shapes: dict[int, Shape] = {}  # those that can be placed, by GPUs alone
        self._on_settle: list[SettlingIndex] = []
        self._on_wait: list[WaitingIndex] = []
        self._on_run: list[RunningIndex] = []
        self._on_end: list[EndingIndex] = []
        self._on_due: list[EndingIndex] = []
        self._on_park: list[Parking] = []
        self._on_report: list[Reporting] = []
        self._on_close: list[Closing] = []
        # What is told of every job, as one call: most runs have one index that watches it, or none.
        self._tell_wait: Teller = None
        self._tell_run: Teller = None
        self._tell_end: Teller = None
        self.unheeded = 0  # reports, of this turn, on which no decision depends
        self._kinds: Final[dict[str, Kind]] = {}
        self.groups: Final[dict[str, Group]] = {}  # the open ones, of all kinds
        self._index_by_spec: dict[int, tuple[IndexSpec, Index]] = {}
        self._sequence = 0
        self._tickets = 0
        self.waiting_count = 0
        self.suspended_count = 0
        self._suspended_since: Seconds = 0.0  # when that last changed
        self._peak_suspended = 0  # up to then
        self.capacity: Final[
            list[tuple[Seconds, int]]
        ] = []  # GPUs on nodes that are up, from then on

    @property
    def tracks(self) -> Mapping[JobId, Track]:
        """Every job that has not ended, in order of submission."""
        return self._tracks

    @property
    def running(self) -> Mapping[JobId, Track]:
        """The jobs that hold GPUs, in the order they were given them."""
        return self._running

    @property
    def last_ticket(self) -> int:
        """Of the one that began to wait last."""
        return self._tickets

    @property
    def peak_suspended(self) -> int:
        """The most jobs that were suspended at once; moments of no length do not count."""
        lasts = self.now > self._suspended_since
        return max(self._peak_suspended, self.suspended_count if lasts else 0)

    @property
    def ended(self) -> Mapping[JobId, Phase]:
        """How every job ended that did; put together when asked for, which is not at every event."""
        gone = self._seen.difference(self._tracks)
        return {job_id: self._unfinished.get(job_id, FINISHED) for job_id in gone}

    @property
    def shapes(self) -> Collection[tuple[Shape, str]]:
        return self._shapes.values()

    def index(self, spec: IndexSpec) -> Index:
        """The index for this spec: made when first asked for, kept up to date from then on."""
        found = self._index_by_spec.get(id(spec))
        if found is not None:
            return found[1]
        index = spec.build(self)
        watches = index.watches
        if watches & WAITS:
            waiting = cast(WaitingIndex, index)
            for track in self._tracks.values():
                if track.placement is None and not track.barred:
                    waiting.waits(track)
        if watches & RUNS:
            running = cast(RunningIndex, index)
            for track in self._running.values():  # in the order in which they were given GPUs
                running.runs(track)
        if watches & RECALLS:
            learning = cast(Recalling, index)
            for track in (*self.past, *self._tracks.values()):
                learning.recall(track)
        self._index_by_spec[id(spec)] = (spec, index)
        for flag, told in self._told():
            if watches & flag:
                told.append(index)
        self._join_tellers()
        return index

    def _join_tellers(self) -> None:
        """Those told of every job have changed."""
        self._tell_wait = _as_one([index.waits for index in self._on_wait])
        self._tell_run = _as_one([index.runs for index in self._on_run])
        self._tell_end = _as_one([index.ends for index in self._on_end])

    def _told(self) -> tuple[tuple[int, list[Any]], ...]:
        """By what is watched: the indexes that are told of it."""
        return (
            (WAITS, self._on_wait),
            (RUNS, self._on_run),
            (ENDS, self._on_end),
            (DUE, self._on_due),
            (SETTLES, self._on_settle),
            (PARKS, self._on_park),
            (REPORTS, self._on_report),
            (CLOSES, self._on_close),
        )

    def forget_indexes(self, but: Collection[IndexSpec] = ()) -> None:
        """Another policy decides from now on: it asks for what it needs."""
        kept = {id(spec) for spec in but}
        for key, (_, index) in list(self._index_by_spec.items()):
            if key not in kept:
                del self._index_by_spec[key]
                for _, told in self._told():
                    told[:] = [other for other in told if other is not index]
        self._join_tellers()

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of workload that there have been."""
        return self._kinds

    def kind(self, name: str) -> Kind:
        """One of them; from now on it is told of all jobs, before all indexes, which may look at what
        became of it."""
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = new_kind(name)
            for flag, told in self._told():
                if flag & (WAITS | RUNS | ENDS | PARKS | REPORTS):
                    told.insert(0, found)
            self._join_tellers()
        return found

    def settle(self) -> None:
        """Undo what policies have only tried out."""
        self.room.unsettled = False
        if self.room.drafted:
            self.room.rollback()
        for index in self._on_settle:
            index.settle()


def _as_one(tellers: list[Callable[[Track], object]]) -> Teller:
    """Tell them one after the other."""
    if len(tellers) <= 1:
        return tellers[0] if tellers else None

    def tell(track: Track) -> None:
        for teller in tellers:
            teller(track)

    return tell
