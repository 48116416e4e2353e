"""A copy of the live state on which changes can be tried, taken in milliseconds of the loop's time.

Of a long queue only the part is taken that can matter soon, in the order of the policy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from dovetail.api.job_row import JobDetails
from dovetail.core import still as stills
from dovetail.core.entries import JournalEntry
from dovetail.core.loop import Policy
from dovetail.core.model import Interruption, Job, JobId, Seconds
from dovetail.core.state import State
from dovetail.core.still import Still
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.active_policy import Chosen, make, said, services_of
from dovetail.daemon.clock import Clock
from dovetail.daemon.foresight.forecast_record import Record
from dovetail.models.cost import Costs
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.policies.precedence import Lineup
from dovetail.predict.intervals import Belief, Experience
from dovetail.predict.learned import learns
from dovetail.predict.measured import AsReported
from dovetail.predict.speed import SpeedPredictor

MOST_WAITING = 2_000  # jobs that are taken
_OF_EACH_SHAPE = 8  # at least, if there are as many: what is small may slip past what is large

Answer = TypeVar("Answer")


class Asked(Protocol):
    """The part of a service that is used here."""

    @property
    def clock(self) -> Clock: ...

    @property
    def chosen(self) -> Chosen: ...

    def look(self, look: Callable[[View, Seconds], Answer]) -> Answer: ...

    def job(self, job_id: str) -> JobDetails: ...


@dataclass(frozen=True)
class Likeness:
    """A still, and how to make of it a state and the policy that decides on it."""

    still: Still
    make_policy: Callable[[State], Policy]
    policy: str
    left_out: int = 0  # waiting jobs that are not in it
    line: tuple[JobId, ...] = ()  # all that wait in the policy's order, where some were left out
    is_exact: bool = True  # is that their real order?
    remembered: object = None  # by the policy, beyond what the state tells
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
        """A new policy of the same kind, with the memory of the live one."""
        policy = self.make_policy(state)
        if self.remembered is not None:
            said(policy, "begin_with", state, self.remembered)
        return policy


def take(service: Asked, also: JobId | None = None) -> Likeness:
    """With the first few thousand waiting jobs, and this one."""
    chosen = service.chosen
    policy, text, costs = chosen.policy, chosen.text, chosen.costs

    def small(view: View, now: Seconds) -> Likeness | Lineup:
        if len(view.tracks) - len(view.running) <= MOST_WAITING:
            return _likeness(view, now, policy, text, costs, view.tracks.values())
        return _lineup(view, policy)

    found = service.look(small)
    experience, record = _learned_by(service)
    if isinstance(found, Likeness):
        return replace(found, experience=experience, record=record)
    line = [t for t in found.order() if t.placement is None and not t.held]
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
    likeness = replace(service.look(large), line=ids, is_exact=found.exact)
    return replace(likeness, experience=experience, record=record)


_learned: WeakKeyDictionary[Any, tuple[Experience, Record]] = WeakKeyDictionary()


def remember(service: Asked, record: Record) -> None:
    """The forecasts that an earlier daemon told."""
    _learned[service] = (Experience(), record)


def _learned_by(service: Asked) -> tuple[Experience, Record]:
    """Kept as long as the service is: to learn from thousands of jobs takes a while."""
    return _learned.setdefault(service, (Experience(), Record()))


def _likeness(
    view: View, now: Seconds, policy: Policy, text: str, costs: Costs, tracks: Iterable[Track]
) -> Likeness:
    tracks = list(tracks)
    learned = _learned_of(policy, view, tracks)
    seconds = {job_id: belief.seconds for job_id, (belief, _) in learned.items()}
    told = {job_id: belief for job_id, (belief, known) in learned.items() if known}
    still = stills.take(view, max(now, view.now), tracks)
    speeds = believed_otherwise(getattr(policy, "speeds", None))  # of the few that ask for them
    return Likeness(
        still,
        lambda state: make(text, services_of(state), costs, speeds, seconds, state),
        text,
        remembered=said(policy, "remembered", view),
        told=told,
        power=costs.power,
    )


def under(likeness: Likeness, text: str, chosen: Chosen) -> Likeness:
    """The same state with another policy, which has no memory of its own yet."""
    speeds = believed_otherwise(getattr(chosen.policy, "speeds", None))
    make(text, (), chosen.costs, speeds)  # a name that there is not is told at once
    told = {job_id: belief.seconds for job_id, belief in likeness.told.items()}
    return replace(
        likeness,
        make_policy=lambda state: make(text, services_of(state), chosen.costs, speeds, told, state),
        policy=text,
        remembered=None,
        line=(),
    )


def believed_otherwise(speeds: SpeedPredictor | None) -> SpeedPredictor | None:
    """What was measured is in the likeness, too; the live state is another thread's."""
    return speeds.otherwise if isinstance(speeds, AsReported) else speeds


def _learned_of(
    policy: Policy, view: View, tracks: Iterable[Track]
) -> dict[JobId, tuple[Belief, bool]]:
    """What a predictor that learns says, and whether it is more than a guess. Asked here, once: in a
    likeness it would have to learn everything anew."""
    predictor = getattr(policy, "predictor", None)
    if not learns(predictor):
        return {}
    return {
        track.job.id: (predictor.belief(track.job, view), predictor.knows(track.job, view))
        for track in tracks
    }


# ------------------------------------------------------------------------------------ a long queue


def _lineup(view: View, policy: Policy) -> Lineup:
    """Brief, since the loop waits: sorting comes later."""
    found: Lineup | None = said(policy, "lineup", view)
    tracks = list(view.tracks.values()) if found is None else []
    return found or Lineup(lambda: tracks, exact=False)


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
    """The job with the measured times of its last preemption and restore, where known."""
    job = track.job
    if track.saved_in_s < 0 and track.restored_in_s < 0:
        return job
    lost_s = job.interruption.lost_s
    return replace(job, interruption=Interruption(track.save_s, track.restore_s, lost_s))
