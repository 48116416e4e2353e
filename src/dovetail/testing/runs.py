"""A policy in a world, run to its end, with everything that happened kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast, final

from dovetail.core.entries import (
    Action,
    Entry,
    Event,
    JournalEntry,
    Wake,
)
from dovetail.core.journal import Journal, lines, read
from dovetail.core.loop import Backend, Policy, run
from dovetail.core.model import (
    JobId,
    Node,
    Seconds,
)
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, View
from dovetail.models.workload import Arrival
from dovetail.testing.worlds import World, policy_for

MakePolicy: TypeAlias = Callable[[], Policy]


@final
class Ends:
    """An index that keeps the tracks of jobs that have ended."""

    def __init__(self) -> None:
        self.watches = ENDS
        self.tracks: dict[JobId, Track] = {}

    def build(self, view: View) -> Ends:
        return self

    def ends(self, track: Track) -> None:
        assert track.job.id not in self.tracks, f"job {track.job.id!r} ends twice"
        self.tracks[track.job.id] = track


@dataclass(frozen=True)
class PolicyRun:
    """What a run leaves behind: the state, the journal, and the track of every job that ended."""

    state: State = field(default_factory=State)
    entries: list[tuple[Seconds, JournalEntry]] = field(default_factory=list)
    ended: dict[JobId, Track] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The journal as it would be written."""
        return lines([entry for _, entry in self.entries], [at for at, _ in self.entries])

    @property
    def ends_at(self) -> Mapping[str, Seconds]:
        return {job_id: track.ended_at for job_id, track in self.ended.items()}

    @property
    def first_starts(self) -> Mapping[str, Seconds]:
        return {job_id: track.first_start_at for job_id, track in self.ended.items()}

    def phase(self, job_id: str) -> Phase:
        return self.ended[JobId(job_id)].phase

    def of(self, kind: type[Any]) -> list[Any]:
        """The journal's entries of one kind."""
        return [entry for _, entry in self.entries if type(entry) is kind]


def run_world(world: World, policy: Policy) -> PolicyRun:
    """Run to the end of the world, keeping everything."""
    return go_on(world.cluster(), policy, PolicyRun())


def run_trace(
    policy: Policy | str,
    arrivals: Sequence[Arrival],
    cluster: Sequence[Node],
    *,
    place: str = "consolidated",
    **rest: Any,
) -> PolicyRun:
    """The same from its parts; the policy may be a text such as `las:quantum=10`."""
    world = World(arrivals, cluster, **rest)
    return run_world(world, policy_for(world, policy, place) if isinstance(policy, str) else policy)


def go_on(backend: Backend, policy: Policy, so_far: PolicyRun) -> PolicyRun:
    ends = Ends()
    ends.tracks = so_far.ended
    so_far.state.index(ends)
    run(
        backend,
        [policy],
        so_far.state,
        told_to(lambda entry, at: so_far.entries.append((at, entry))),
    )
    return so_far


def told_to(tell: Callable[[JournalEntry, Seconds], object]) -> Journal:
    """A journal that tells each entry and its time at once."""

    def hand_on(entries: Sequence[Entry], times: Sequence[Seconds]) -> None:
        for entry, at in zip(cast(Sequence[JournalEntry], entries), times, strict=True):
            tell(entry, at)

    return Journal(hand_on, at_once=1)


@final
class Paused:
    """A world that stops telling after some rounds of the loop, and can be taken up again later."""

    def __init__(self, backend: Backend, rounds: int) -> None:
        self._backend: Final = backend
        self._left = rounds

    def observe(self) -> Sequence[Event]:
        self._left -= 1
        return self._backend.observe() if self._left >= 0 else ()

    def act(self, action: Action) -> None:
        self._backend.act(action)


def run_with_restart(world: World, make_policy: MakePolicy, rounds: int) -> PolicyRun:
    """Crash after so many rounds: the state is rebuilt from the journal, the policy starts afresh, and
    the wake-up that was asked for is forgotten. Like a daemon that starts, it is asked at once."""
    backend = world.cluster()
    before = go_on(Paused(backend, rounds), make_policy(), PolicyRun())
    backend.act(Wake(before.state.now))
    after = PolicyRun(replay(before.text.splitlines()), before.entries, before.ended)
    return go_on(backend, make_policy(), after)


def replay(lines: Iterable[str]) -> State:
    """The state that a journal's text leads to."""
    state = State()
    for entry in read(lines):
        state.record(entry)
    return state
