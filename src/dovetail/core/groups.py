"""Groups of jobs that belong together, and kinds of workload: how a study or a service joins the state.

A kind is a folder of `dovetail.workloads` whose module `kind` has a class `Workload` (see `Kind`) and
`READERS`: how the lines of its entries are read. Nothing here, and nothing in the state, knows which
kinds there are; one that no entry and nobody has asked for is never loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from dovetail.core.model import JobId, Setting
from dovetail.core.track import Track

if TYPE_CHECKING:
    from dovetail.core.entries import GroupAction, GroupEvent, JournalEntry, Reported
    from dovetail.core.state import State

    Reader: TypeAlias = Callable[[float, Any, dict[str, Any]], JournalEntry]

_HOME: Final = "dovetail.workloads"


@final
class Group:
    """Jobs of which so many may be in line, or run, at once. The others sit on the bench. Those of some
    groups are `alike`: whoever of them is given a place, another may go there instead."""

    def __init__(
        self, id: str, kind: str, name: str, at_once: int | None = None, alike: bool = False
    ) -> None:
        self.id: Final = id
        self.kind: Final = kind
        self.name: Final = name  # as messages call it: study 'digits'
        self.at_once: Final = at_once
        self.alike: Final = alike
        self.line: Final[set[JobId]] = set()  # jobs that run, or wait in the queue
        self.bench: Final[dict[JobId, Track]] = {}  # those for which it has no place there

    def has_place(self, job_id: JobId) -> bool:
        """Take a place in the queue for the job, unless as many as may are there."""
        at_once = self.at_once
        if at_once is not None and len(self.line) >= at_once and job_id not in self.line:
            return False
        self.line.add(job_id)
        return True

    def next_on_bench(self) -> Track | None:
        if self.at_once is None or len(self.line) >= self.at_once:
            return None
        ready = [track for track in self.bench.values() if not track.held and not track.stranded]
        return min(ready, key=lambda track: (track.job.member, track.sequence), default=None)

    def take_up(self, tracks: Mapping[JobId, Track], job_id: JobId) -> None:
        """A member is there already: put it where it stands."""
        track = tracks.get(job_id)
        if track is not None and track.benched:
            self.bench[job_id] = track
        elif track is not None and (track.placement is not None or not track.barred):
            self.line.add(job_id)


class Kind(Protocol):
    """One kind of workload in one state: it folds entries of its own, and is told of what the members
    of its groups do before any index is (see `Index`, `Parking`, `Reporting`)."""

    watches: int
    pins: str  # why no policy may make its members give way; "": any may

    def record(self, state: State, entry: GroupEvent | GroupAction) -> None:
        """Fold an entry of this kind, or refuse it. Time has been advanced."""

    def joins(self, track: Track) -> None:
        """A member of one of its groups was submitted."""

    def branches(
        self, track: Track, source: JobId, settings: tuple[tuple[str, Setting], ...]
    ) -> None:
        """A new job is to take the place of this one; or refuse it."""

    def why_not_after(self, track: Track) -> str:
        """Why other members cannot go on from what this one has saved; "" if they can."""

    def waits(self, track: Track) -> None: ...

    def runs(self, track: Track) -> None: ...

    def parks(self, track: Track) -> None: ...

    def reports(self, track: Track, entry: Reported) -> bool | None: ...

    def ends(self, track: Track) -> None: ...

    def kept(self) -> Mapping[str, Any]:
        """Its part of a snapshot: values that JSON has, under names of its own."""

    def restore(self, state: State, saved: Mapping[str, Any]) -> None:
        """Take up what `kept` told; the jobs are there already."""

    def copies(self) -> tuple[Any, ...]:
        """Its part of a still: what changes is copied."""

    def take_up(self, state: State, copies: tuple[Any, ...]) -> None:
        """Go on from copies, which somebody else may go on from too."""

    def fingerprint(self) -> Mapping[str, Any]:
        """Everything it holds, as plain values."""


def new_kind(name: str) -> Kind:
    found: Kind = _module(name).Workload()
    return found


@cache
def names() -> tuple[str, ...]:
    """Of the kinds there are."""
    home = import_module(_HOME)
    return tuple(sorted([found.name for found in iter_modules(home.__path__) if found.ispkg]))


@cache
def readers() -> Mapping[str, Reader]:
    """How the entries of all kinds are read, by their tag."""
    found: dict[str, Reader] = {}
    for name in names():
        found.update(_module(name).READERS)
    return found


def _module(name: str) -> Any:
    return import_module(f"{_HOME}.{name}.kind")
