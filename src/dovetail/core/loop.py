"""The one loop that joins a world, a state and policies. The same for a simulated year and live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from dovetail.core.entries import Action, Entry, Event, Refuse, Wake
from dovetail.core.journal import Journal
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.core.view import View


class Policy(Protocol):
    """Looks at a read-only view and returns actions. No clock, no I/O, no memory of its own."""

    def decide(self, view: View) -> Iterable[Action]: ...


class Backend(Protocol):
    """A world: it tells what has happened and carries out what was decided."""

    def observe(self) -> Sequence[Event]:
        """The next events, up to an instant at which something is to be decided; none: it is over."""

    def act(self, action: Action) -> None: ...


def run(
    backend: Backend,
    policies: Sequence[Policy],
    state: State,
    journal: Journal | None = None,
) -> None:
    """Observe, record, decide, record, act; until the world has nothing more to tell."""
    if journal is None:
        journal = Journal(_forget)
    observe, act, room = backend.observe, backend.act, state.room
    entries, times, at_once = journal.entries, journal.times, journal.at_once
    decide = policies[0].decide if len(policies) == 1 else _one_after_the_other(policies, state)
    state.unheeded = 0
    while True:
        events = observe()
        if not events:
            return
        for event in events:
            state.record(event)
            entries.append(event)  # as in `Journal.note`, written out here and below
            times.append(state.now)
            if len(entries) >= at_once:
                journal.flush()
        if state.unplaceable:
            refuse_unplaceable(backend, state, journal)
        if state.unheeded and _are_all_unheeded(state, len(events)):
            continue
        wake: Wake | None = None
        for action in decide(state):
            if type(action) is Wake:
                wake = action if wake is None or action.at < wake.at else wake
                continue
            state.record(action)
            entries.append(action)
            times.append(state.now)
            if len(entries) >= at_once:
                journal.flush()
            act(action)
        if room.unsettled:
            state.settle()
        if wake is not None:
            act(wake)


def look(policies: Sequence[Policy], state: State) -> None:
    """Policies see a state that was restored before anything new is told: what they derive from it is
    what they would have derived from the journal. They would decide nothing new."""
    for _ in _one_after_the_other(policies, state)(state):
        pass
    state.settle()


def _are_all_unheeded(state: State, events: int) -> bool:
    """Were all of them reports on which no decision depends? The wake-up asked for before holds."""
    unheeded, state.unheeded = state.unheeded, 0
    return unheeded == events


def _one_after_the_other(
    policies: Sequence[Policy], state: State
) -> Callable[[View], Iterator[Action]]:
    """Each policy decides when what the one before it decided has been recorded."""

    def decide(view: View) -> Iterator[Action]:
        for policy in policies:
            yield from policy.decide(view)
            if view.room.unsettled:
                state.settle()

    return decide


def refuse_unplaceable(backend: Backend, state: State, journal: Journal) -> None:
    """A job that could not even start on the empty cluster is told so at once."""
    for job_id, reason in list(state.unplaceable.items()):
        refusal = Refuse(job_id, reason)
        state.record(refusal)
        journal.note(refusal, state.now)
        backend.act(refusal)


def _forget(entries: Sequence[Entry], times: Sequence[Seconds]) -> None:
    """Nobody wants the journal."""
