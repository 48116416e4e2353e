"""The queue simulated from now on: the policy itself decides, on a copy of the live state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import thread_time
from typing import Final, NamedTuple, final

from dovetail.core.entries import Action, Event, Released, Wake
from dovetail.core.loop import run
from dovetail.core.model import Job, JobId, Placement, Seconds, gpus_of
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.daemon.foresight.copy import Likeness
from dovetail.daemon.foresight.lookahead_studies import TurnsAhead
from dovetail.daemon.history.submission_records import array_of
from dovetail.daemon.holds import ARRAY_FULL
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Going
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.services_first import ServicesFirst
from dovetail.results.charges import Charges
from dovetail.tune.live import Exchanging
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.simulated import SimulatedCluster

_MOST_ROUNDS = 10_000  # of the loop; policies that let jobs take turns have many
_MOST_STAYS = 5_000  # that are told; the first ones
_MOST_SECONDS = 1.0  # of processor time, likewise


@dataclass(frozen=True, slots=True)
class Release:
    """The job that freed the GPUs: it ended or was preempted."""

    job_id: JobId
    ended: bool
    at: float


class Stay(NamedTuple):
    """Some time on some GPUs, as it is foreseen. `until` None: for longer than can be told."""

    job_id: JobId
    on: Placement
    since: Seconds
    until: Seconds | None


def _within(stay: Stay, horizon: Seconds) -> Stay:
    return stay if stay.until is None or stay.until <= horizon else stay._replace(until=None)


@final
class StartsAndEnds:
    """An index that notes when jobs start and end, and whose GPUs they get."""

    def __init__(self) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self.started: Final[dict[JobId, Seconds]] = {}  # the first time from now on
        self.ended: Final[dict[JobId, Seconds]] = {}
        self.just_ended: Final[list[JobId]] = []
        self.releases: Final[dict[JobId, Release]] = {}
        self.gives_way: Final[dict[JobId, tuple[Seconds, JobId | None]]] = {}
        self.cut_short = ""
        self.uncosted = ""
        self.failure: Exception | None = None
        self.rounds = 0
        self._now: Callable[[], Seconds] = lambda: 0.0
        self._on: Final[dict[JobId, Placement]] = {}
        self._since: Final[dict[JobId, Seconds]] = {}
        self._stays: Final[list[Stay]] = []
        self._freed: Final[dict[tuple[int, int], Release]] = {}
        self._last: Release | None = None

    def build(self, view: View) -> StartsAndEnds:
        self._now = lambda: view.now
        self._on.update({k: t.placement for k, t in view.running.items() if t.placement})
        self._since.update(dict.fromkeys(self._on, view.now))
        return self

    def runs(self, track: Track) -> None:
        job_id, placement = track.job.id, track.placement
        assert placement is not None
        if job_id not in self._on and job_id not in self.started:
            now = self._now()
            self.started[job_id] = now
            release = self._release_for(placement, now)
            if release is not None:
                self.releases[job_id] = release
                if self.gives_way.get(release.job_id) == (now, None):
                    self.gives_way[release.job_id] = (now, job_id)
        self._note_stay(job_id)  # of one that goes on elsewhere
        self._on[job_id], self._since[job_id] = placement, self._now()

    def _note_stay(self, job_id: JobId) -> None:
        before = self._on.get(job_id)
        if before is not None and len(self._stays) < _MOST_STAYS:
            self._stays.append(Stay(job_id, before, self._since[job_id], self._now()))

    def stays(self, horizon: Seconds) -> list[Stay]:
        """Who has which GPUs from now on, the ends beyond the horizon left open."""
        open_ones = [Stay(k, on, self._since[k], None) for k, on in self._on.items()]
        return [
            _within(stay, horizon) for stay in (*self._stays, *open_ones) if stay.since <= horizon
        ]

    def _release_for(self, placement: Placement, now: Seconds) -> Release | None:
        """Who made the start possible: who had these GPUs until now, else who left others just now."""
        for gpu in gpus_of(placement):
            found = self._freed.get(gpu)
            if found is not None and found.at == now:
                return found
        return self._last if self._last is not None and self._last.at == now else None

    def waits(self, track: Track) -> None:
        job_id = track.job.id
        if job_id in self._on:
            at = self._leave(job_id, ended=False)
            if job_id not in self.started:  # it has run since the beginning
                self.gives_way.setdefault(job_id, (at, None))

    def parks(self, track: Track) -> None:
        if track.job.id in self._on:
            self._leave(track.job.id, ended=False)

    def ends(self, track: Track) -> None:
        job_id = track.job.id
        self.just_ended.append(job_id)
        if track.phase is not Phase.REFUSED:
            self.ended[job_id] = self._now()
        if job_id in self._on:
            self._leave(job_id, ended=True)

    def _leave(self, job_id: JobId, ended: bool) -> Seconds:
        self._last = release = Release(job_id, ended, self._now())
        self._note_stay(job_id)
        for gpu in gpus_of(self._on.pop(job_id)):
            self._freed[gpu] = release
        return release.at

    def forget_after(self, at: Seconds) -> None:
        """Forget what followed from jobs whose end is unknown."""
        for times in (self.started, self.ended):
            for job_id in [job_id for job_id, then in times.items() if then > at]:
                del times[job_id]
        for job_id in self.releases.keys() - self.started.keys():
            del self.releases[job_id]


@final
class _Ahead:
    """The simulated world, for as long as it is worth it; in it arrays let their next member go."""

    def __init__(
        self,
        world: SimulatedCluster,
        state: State,
        watch: StartsAndEnds,
        likeness: Likeness,
        turns: TurnsAhead,
        horizon: Seconds,
    ) -> None:
        self._world: Final = world
        self._state: Final = state
        self._watch: Final = watch
        self._held_until: Final = dict(likeness.held_until)
        self._turns: Final = turns
        self._horizon: Final = horizon
        self._until: Final = thread_time() + _MOST_SECONDS
        self._late: Final[dict[str, list[JobId]]] = {}
        for track in state.tracks.values():
            if track.held == ARRAY_FULL:
                self._late.setdefault(array_of(track.job.id), []).append(track.job.id)

    def observe(self) -> Sequence[Event]:
        self._watch.rounds += 1
        if self._state.now > self._horizon:
            return ()
        if self._watch.rounds > _MOST_ROUNDS or thread_time() > self._until:
            self._watch.cut_short = "it looks only so far ahead, since there is so much to decide"
            return ()
        ended = [*self._watch.just_ended]
        self._watch.just_ended.clear()
        at_once = self._next_of_arrays(ended) + self._whose_time_has_come()
        at_once += self._turns.due(ended, self._world)
        return at_once or self._world.observe()

    def _whose_time_has_come(self) -> list[Event]:
        now = self._state.now
        due = [job_id for job_id, at in self._held_until.items() if at <= now]
        for job_id in due:
            del self._held_until[job_id]
        return [Released(now, job_id) for job_id in due]

    def _next_of_arrays(self, ended: Sequence[JobId]) -> list[Event]:
        arrays = [array_of(job_id) for job_id in ended] if self._late else []
        late = [self._late[array] for array in arrays if self._late.get(array)]
        return [Released(self._state.now, members.pop(0)) for members in late if members]

    def decide(self, view: View) -> Sequence[Action]:
        """Stands among the policies too, so as to be asked again in time."""
        times = [*self._held_until.values(), *self._turns.next_steps()]
        return [Wake(max(min(times), view.now))] if times else []

    def act(self, action: Action) -> None:
        self._world.act(action)


def run_ahead(
    likeness: Likeness,
    left_s: Mapping[JobId, Seconds],
    jobs: Mapping[JobId, Job],
    charges: Charges | None = None,
    horizon: Seconds = inf,
) -> StartsAndEnds:
    """Simulate the copy: every job has that much work left. Nothing is told beyond the horizon."""
    state = likeness.state(jobs)
    watch = StartsAndEnds()
    state.index(watch)
    if charges is not None:
        state.index(charges)
    saving = _saving(state)
    going = [
        _going(track, left_s[job_id], state.now, saving)
        for job_id, track in state.tracks.items()
        if job_id in left_s
    ]
    if not going:
        return watch
    # A job that was timed in several ways takes the time of the one that the policy chooses.
    power = likeness.power
    timed = power or any(one.job.options for one in going)
    speed = by_kind_and_placement({}, power=power) if timed else None
    world = SimulatedCluster(state.room.nodes, (), going=going, now=state.now, speed=speed)
    policy = likeness.policy_on(state)
    if studies_of(state).open:
        policy = Exchanging(policy)
    turns = TurnsAhead(state, left_s)
    ahead = _Ahead(world, state, watch, likeness, turns, horizon)
    try:
        run(ahead, [Housekeeping(), ServicesFirst(), policy, ahead], state)
    except Exception as error:
        # Somebody else's policy, or one that waits for what will not come: say as much as is known.
        watch.failure = error
        watch.cut_short = f"looking ahead has failed ({type(error).__name__}: {error})"
    watch.forget_after(horizon)
    return watch


def _saving(state: State) -> dict[Seconds, Seconds]:
    """By the time at which jobs gave way: how long the slowest of them is in the way of others."""
    found: dict[Seconds, Seconds] = {}
    for track in state.tracks.values():
        if track.phase is Phase.SUSPENDED:
            at, save_s = track.waiting_since, track.job.interruption.save_s
            found[at] = max(found.get(at, 0.0), save_s)
    return found


def _going(track: Track, left_s: Seconds, now: Seconds, saving: Mapping[Seconds, Seconds]) -> Going:
    works_from = None
    if track.phase is Phase.STARTING:
        restore_s = track.restore_s if track.first_start_at < track.started_at else 0.0
        begins = track.started_at + saving.get(track.started_at, 0.0)
        works_from = max(begins + restore_s, now)
    return Going(track.job, left_s, track.resumed, track.placement, works_from, track.speed)
