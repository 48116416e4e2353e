"""A likeness of the live state, to be tried things on: taken in milliseconds of the loop's time.

Of a long queue only the part is taken that can matter soon, in the order of the policy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from dovetail.core import still as stills
from dovetail.core.entries import JournalEntry
from dovetail.core.loop import Policy
from dovetail.core.model import Interruption, Job, JobId, Seconds
from dovetail.core.orders import WaitingRow
from dovetail.core.state import State
from dovetail.core.still import Still
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.active_policy import Chosen, make, services_of
from dovetail.daemon.clock import Clock
from dovetail.daemon.foresight.calibration import Record
from dovetail.models.cost import Costs
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.policies.fairness import Drf, FairShare, Usage, owner
from dovetail.policies.listing import LineScheduler, ListScheduler
from dovetail.predict.intervals import Belief, Experience
from dovetail.predict.learned import Learned

MOST_WAITING = 2_000  # jobs that are taken
_OF_EACH_SHAPE = 8  # at least, if there are as many: what is small may slip past what is large

Answer = TypeVar("Answer")


class Asked(Protocol):
    """What is needed of a service."""

    @property
    def clock(self) -> Clock: ...

    @property
    def chosen(self) -> Chosen: ...

    def look(self, look: Callable[[View, Seconds], Answer]) -> Answer: ...

    def job(self, job_id: str) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Likeness:
    """A still, and how to make of it a state and the policy that decides on it."""

    still: Still
    make_policy: Callable[[State], Policy]
    policy: str
    left_out: int = 0  # waiting jobs that are not in it
    line: tuple[JobId, ...] = ()  # all that wait in the policy's order, where some were left out
    usage: Mapping[str, Usage] = field(default_factory=dict)
    told: Mapping[JobId, Belief] = field(default_factory=dict)  # by a predictor that learns
    held_until: Mapping[JobId, Seconds] = field(default_factory=dict)  # held jobs let go later
    power: PowerTable = NO_LIMITS  # how much slower jobs are under power limits
    experience: Experience | None = None  # that is kept; None: it is gained anew from the past
    record: Record | None = None  # of what was said before, and how far off it was

    @property
    def now(self) -> Seconds:
        return self.still.now

    def state(self, amended: Mapping[JobId, Job] = stills.NOTHING_AMENDED) -> State:
        return stills.revive(self.still, amended)

    def after(self, *entries: JournalEntry) -> Likeness:
        """As it would be if that happened now."""
        state = self.state()
        for entry in entries:
            state.record(entry)
        return replace(self, still=stills.take(state, self.now, state.tracks.values()))

    def policy_on(self, state: State) -> Policy:
        """A new one of the same kind; what it is to know of the past is taken over."""
        policy = self.make_policy(state)
        if isinstance(policy, FairShare) and self.usage:
            policy.begin_with(state, self.usage)
        return policy


def take(service: Asked, also: JobId | None = None) -> Likeness:
    """Of what waits the first few thousand, and this one."""
    chosen = service.chosen
    policy, text, costs = chosen.policy, chosen.text, chosen.costs

    def small(view: View, now: Seconds) -> Likeness | Sequence[WaitingRow | Track]:
        if len(view.tracks) - len(view.running) <= MOST_WAITING:
            return _likeness(view, now, policy, text, costs, view.tracks.values())
        return _as_it_lies(view, policy)

    found = service.look(small)
    experience, record = _learned_by(service)
    if isinstance(found, Likeness):
        return replace(found, experience=experience, record=record)
    line = _in_order(found, policy)
    picked = _picked(line, also)

    def large(view: View, now: Seconds) -> Likeness:
        still_there = [track for track in picked if view.tracks.get(track.job.id) is track]
        waiting = [track for track in still_there if track.placement is None]
        if also is not None and also in view.tracks and view.tracks[also] not in waiting:
            waiting.append(view.tracks[also])
        tracks = dict.fromkeys([*view.running.values(), *waiting])
        left_out = max(view.waiting_count - sum(not track.barred for track in waiting), 0)
        likeness = _likeness(view, now, policy, text, costs, tracks)
        return replace(likeness, left_out=left_out)

    ids = tuple([track.job.id for track in line])
    return replace(service.look(large), line=ids, experience=experience, record=record)


_learned: WeakKeyDictionary[Any, tuple[Experience, Record]] = WeakKeyDictionary()


def _learned_by(service: Asked) -> tuple[Experience, Record]:
    """Kept as long as the service is: to learn from thousands of jobs takes a while."""
    return _learned.setdefault(service, (Experience(), Record()))


def _likeness(
    view: View, now: Seconds, policy: Policy, text: str, costs: Costs, tracks: Iterable[Track]
) -> Likeness:
    usage = policy.usage(view) if isinstance(policy, FairShare) else {}
    tracks = list(tracks)
    learned = _learned_of(policy, view, tracks)
    seconds = {job_id: belief.seconds for job_id, (belief, _) in learned.items()}
    told = {job_id: belief for job_id, (belief, known) in learned.items() if known}
    still = stills.take(view, max(now, view.now), tracks)
    speeds = getattr(policy, "speeds", None)  # of the few that ask for them
    return Likeness(
        still,
        lambda state: make(text, services_of(state), costs, speeds, seconds),
        text,
        usage=usage,
        told=told,
        power=costs.power,
    )


def _learned_of(
    policy: Policy, view: View, tracks: Iterable[Track]
) -> dict[JobId, tuple[Belief, bool]]:
    """What a predictor that learns says, and whether it is more than a guess. Asked here, once: in a
    likeness it would have to learn everything anew."""
    predictor = getattr(policy, "predictor", None)
    if not isinstance(predictor, Learned):
        return {}
    return {
        track.job.id: (predictor.belief(track.job, view), predictor.knows(track.job, view))
        for track in tracks
    }


def scheduler_of(policy: Policy) -> ListScheduler | LineScheduler | None:
    """The list scheduler behind most policies."""
    scheduler = getattr(policy, "scheduler", None)
    return scheduler if isinstance(scheduler, ListScheduler | LineScheduler) else None


# ------------------------------------------------------------------------------------ a long queue


def _as_it_lies(view: View, policy: Policy) -> Sequence[WaitingRow | Track]:
    """Brief, since the loop waits: sorting comes later."""
    scheduler = scheduler_of(policy)
    return list(view.tracks.values()) if scheduler is None else scheduler.line(view)


def _in_order(found: Iterable[WaitingRow | Track], policy: Policy) -> list[Track]:
    """Who waits, the first first. On the caller's thread; the state may move on meanwhile."""
    rows = [row for row in found if isinstance(row, tuple) and row[3].turn == row[2]]
    line = [track for track in found if isinstance(track, Track)]
    line += [row[3] for row in sorted(rows, key=itemgetter(0, 1))]
    line = [track for track in line if track.placement is None and not track.held]
    return _by_turns(line) if isinstance(policy, FairShare | Drf) else line


def _by_turns(line: Sequence[Track]) -> list[Track]:
    """Where users take turns: the first of each, then the second of each."""
    number: dict[str, int] = {}
    rows = []
    for track in line:
        who = owner(track.job)
        number[who] = number.get(who, 0) + 1
        rows.append((number[who], track.sequence, track))
    return [row[2] for row in sorted(rows, key=itemgetter(0, 1))]


def _picked(line: Sequence[Track], also: JobId | None) -> list[Track]:
    of_shape: dict[int, int] = {}
    picked = []
    for place, track in enumerate(line):
        lane = track.shape.lane
        of_shape[lane] = of_shape.get(lane, 0) + 1
        if place < MOST_WAITING or of_shape[lane] <= _OF_EACH_SHAPE or track.job.id == also:
            picked.append(track)
    return picked


# ------------------------------------------------------------------------------- what is known of it


def as_measured(track: Track) -> Job:
    """The job with what giving way and coming back took the last time, where that is known."""
    job = track.job
    if track.saved_in_s < 0 and track.restored_in_s < 0:
        return job
    own = job.interruption
    save_s = track.saved_in_s if track.saved_in_s >= 0 else own.save_s
    return replace(job, interruption=Interruption(save_s, track.restore_s, own.lost_s))
