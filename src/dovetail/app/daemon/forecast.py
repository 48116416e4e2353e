"""When jobs will start and end: the policy itself, run ahead of time in the simulator.

A likeness of the live state is set going with the time that each job is believed to take: once with
the middle of every belief, which gives what is expected, and then with times drawn from the beliefs,
which gives the interval. Draws are the same whenever they are made, so that answers do not flicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from statistics import NormalDist
from threading import Lock
from time import monotonic, thread_time
from typing import Any, Final, TypeAlias, final
from weakref import WeakKeyDictionary

from dovetail.app.daemon import likeness as likenesses
from dovetail.app.daemon.holds import ARRAY_FULL
from dovetail.app.daemon.likeness import Asked, Likeness, as_measured
from dovetail.app.daemon.records import array_of
from dovetail.app.daemon.spans import Span
from dovetail.backends.simulated import SimulatedCluster
from dovetail.core.entries import Action, Event, Released, Wake
from dovetail.core.errors import BadInput
from dovetail.core.loop import Backend, run
from dovetail.core.model import Job, JobId, Placement, Seconds
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.models.cost import Costs
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Going
from dovetail.policies.housekeeping import Housekeeping
from dovetail.predict.intervals import Belief, Experience
from dovetail.traces.charges import Charges
from dovetail.tune.board import Mirror

SCENARIOS = 16
_JOBS_TO_SIMULATE = 12_000  # in all scenarios together: long queues get fewer of them
_TURNS_TO_SIMULATE = 20_000
_FEWEST_SCENARIOS = 2
_LOW, _HIGH = 0.1, 0.9
_MOST_TURNS = 10_000  # of one run; policies that let jobs take turns have many
_MOST_SECONDS = 1.0  # of processor time, likewise
_FRESH_S = 2.0  # a forecast serves everybody who asks within that time
_STILL_FRESH_S = 20.0  # and within this one, if nothing has happened meanwhile
_TRIAL_LOW, _TRIAL_HIGH = 0.7, 1.4  # how far off the steps of a study may be
_NORMAL = NormalDist()


Beliefs: TypeAlias = Mapping[JobId, Belief]
_NOTHING_TOLD: Beliefs = {}


@dataclass(frozen=True, slots=True)
class Release:
    """What gave a job its GPUs: another ended or gave way."""

    job_id: JobId
    ended: bool
    at: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of the jobs that have not ended. Times are seconds since 1970."""

    made_at: float
    starts: Mapping[JobId, Span]  # the next start, for those that wait; the last one for the others
    ends: Mapping[JobId, Span]
    releases: Mapping[JobId, Release]  # by the job that starts
    gives_way: Mapping[JobId, tuple[float, JobId | None]]  # running ones: when, and to whom
    beliefs: Beliefs
    scenarios: int
    limited: str  # what it does not take into account; "" if nothing
    spent: Mapping[str, float | int] = field(
        default_factory=dict
    )  # expected from now on, if priced
    uncosted: str = ""  # why that cannot be told

    def start(self, job_id: str) -> Span | None:
        """When it starts or goes on; None: it cannot be told."""
        return self.starts.get(JobId(job_id))

    def end(self, job_id: str) -> Span | None:
        return self.ends.get(JobId(job_id))

    def rows(self, ids: Iterable[str] = ()) -> dict[str, Any]:
        """As the API tells it: of these jobs, or of all."""
        wanted = set(ids)
        return {
            "made_at": self.made_at,
            "limited": self.limited,
            "starts": {k: v.row() for k, v in self.starts.items() if not wanted or k in wanted},
            "ends": {k: v.row() for k, v in self.ends.items() if not wanted or k in wanted},
        }


# --------------------------------------------------------------------------------- asked by services


@final
class _Kept:
    """The last forecast of a service; who asks while one is being made waits for it."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.made_at = -inf
        self.key: tuple[object, ...] = ()
        self.forecast: Forecast | None = None


_kept: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()
_kept_lock = Lock()


def forecast(service: Asked) -> Forecast:
    """Of the jobs as they are now, or were a moment ago."""
    return _keeping(service, lambda: likenesses.take(service))


def forecast_with(service: Asked, likeness: Likeness) -> Forecast:
    """The same, where somebody has taken a likeness already."""
    return _keeping(service, lambda: likeness)


def _keeping(service: Asked, take: Callable[[], Likeness]) -> Forecast:
    with _kept_lock:
        kept = _kept.setdefault(service, _Kept())
    with kept.lock:
        age = monotonic() - kept.made_at
        if kept.forecast is not None and age < _FRESH_S and kept.key[0] == service.chosen.text:
            return kept.forecast
        likeness = take()
        key = (likeness.policy, likeness.still.as_of)
        if kept.forecast is None or key != kept.key or age > _STILL_FRESH_S:
            kept.forecast = made_of(likeness, service.clock.unix)
            kept.key, kept.made_at = key, monotonic()
        return kept.forecast


def made_of(
    likeness: Likeness,
    unix: Callable[[Seconds], float],
    beliefs: Beliefs | None = None,
    scenarios: int | None = None,
    costs: Costs | None = None,
) -> Forecast:
    """Simulate; the beliefs are those of experience unless others are given."""
    state = likeness.state()
    if beliefs is None:
        beliefs = beliefs_of(state, likeness.told)
    jobs = {job_id: as_measured(track) for job_id, track in state.tracks.items()}
    middle, charges = _middle(likeness, beliefs, jobs, costs)
    number = _scenarios_for(len(beliefs), middle.turns) if scenarios is None else scenarios
    if all(belief.exact for belief in beliefs.values()):
        number = 0
    others = [] if middle.cut_short else [_run(likeness, d, jobs) for d in drawn(beliefs, number)]
    starts = _spans(middle.started, [other.started for other in others])
    ends = _spans(middle.ended, [other.ended for other in others])
    for job_id, track in state.running.items():
        starts[job_id] = Span(track.started_at, track.started_at, track.started_at)
    epoch = unix(0.0)
    return Forecast(
        made_at=unix(likeness.now),
        starts={job_id: span.moved(epoch) for job_id, span in starts.items()},
        ends={job_id: span.moved(epoch) for job_id, span in ends.items()},
        releases={k: replace(r, at=unix(r.at)) for k, r in middle.releases.items()},
        gives_way={k: (unix(at), to) for k, (at, to) in middle.gives_way.items()},
        beliefs=beliefs,
        scenarios=len(others),
        limited="; ".join(_limits(likeness, state, middle)),
        spent={} if charges is None else charges.figures(),
        uncosted=middle.uncosted or middle.cut_short,
    )


def _middle(
    likeness: Likeness, beliefs: Beliefs, jobs: Mapping[JobId, Job], costs: Costs | None
) -> tuple[Watch, Charges | None]:
    """If everything takes the time it is believed to; without the books if they cannot be kept."""
    times = {job_id: belief.seconds for job_id, belief in beliefs.items()}
    charges = None if costs is None else Charges(costs)
    watch = _run(likeness, times, jobs, charges)
    if charges is not None and isinstance(watch.failure, BadInput):
        uncosted, watch = str(watch.failure), _run(likeness, times, jobs)
        watch.uncosted = uncosted
    return watch, charges


def beliefs_of(state: State, told: Beliefs = _NOTHING_TOLD) -> Beliefs:
    experience = Experience(state.past, told)
    trials = beliefs_of_trials(state)
    return {
        track.job.id: trials.get(track.job.id) or experience.remaining(track, state.now)
        for track in state.tracks.values()
        if not track.held or track.held == ARRAY_FULL or track.placement is not None
    }


def beliefs_of_trials(state: State) -> dict[JobId, Belief]:
    """A study knows how many steps its trials make, and soon how long one takes."""
    found = {}
    for study in state.studies.open.values():
        mirror = Mirror(study).sync(state)
        if not any(trial.steps for trial in mirror.study.trials):
            continue
        step_s, source = mirror.step_s(state.now), f"the steps of study {study.design.name}"
        for number, track in mirror.jobs.items():
            left = (mirror.study.steps - mirror.study.trials[number].steps) * step_s
            found[track.job.id] = Belief(left, left * _TRIAL_LOW, left * _TRIAL_HIGH, source)
    return found


def _limits(likeness: Likeness, state: State, middle: Watch) -> list[str]:
    room, found = state.room, []
    if likeness.left_out:
        found.append(f"{likeness.left_out:,} waiting jobs further behind are left out")
    strangers = sum(mask.bit_count() for mask in room.occupied.values())
    if strangers:
        found.append(
            f"{strangers} GPU{'' if strangers == 1 else 's'} used by processes that are not ours "
            "are taken to stay so"
        )
    if any(not is_open and n not in room.gone for n, is_open in enumerate(room.open)):
        found.append("nodes that are closed are taken to stay so")
    if state.studies.open:
        found.append("that trials of a study take turns is not foreseen")
    if middle.cut_short:
        found.append(middle.cut_short)
    return found


# ---------------------------------------------------------------------------------------- scenarios


def _scenarios_for(jobs: int, turns: int) -> int:
    """As many as are quickly done, and the same number whenever the same is asked."""
    within = min(_JOBS_TO_SIMULATE // max(jobs, 1), _TURNS_TO_SIMULATE // max(turns, 1))
    return max(_FEWEST_SCENARIOS, min(SCENARIOS, within))


def drawn(beliefs: Beliefs, number: int) -> list[dict[JobId, Seconds]]:
    """Durations for so many scenarios.

    Each job's are spread evenly over its belief (one draw from every part of equal chance). Jobs whose
    beliefs rest on the same are wrong together, by half of the variance.
    """
    levels = [_NORMAL.inv_cdf((i + 0.5) / number) for i in range(number)]
    resting: dict[str, int] = {}
    for belief in beliefs.values():
        resting[belief.source] = resting.get(belief.source, 0) + 1
    common = {source: _shuffled(levels, source) for source in resting}
    durations: list[dict[JobId, Seconds]] = [{} for _ in range(number)]
    for job_id, belief in beliefs.items():
        deviations = _shuffled(levels, job_id)
        if resting[belief.source] > 1:
            pairs = zip(deviations, common[belief.source], strict=True)
            deviations = [(own + shared) / 2**0.5 for own, shared in pairs]
        for scenario, z in zip(durations, deviations, strict=True):
            scenario[job_id] = belief.at(z)
    return durations


def _shuffled(levels: Sequence[float], seed: str) -> list[float]:
    mixed = list(levels)
    Random(seed).shuffle(mixed)
    return mixed


def _spans(
    middle: Mapping[JobId, Seconds], others: Sequence[Mapping[JobId, Seconds]]
) -> dict[JobId, Span]:
    found = {}
    for job_id, expected in middle.items():
        times = sorted([other.get(job_id, inf) for other in others]) or [expected]
        high = max(_quantile(times, _HIGH), expected)
        low = min(_quantile(times, _LOW), expected)
        found[job_id] = Span(expected, low, high if high < inf else None)
    return found


def _quantile(times: Sequence[Seconds], part: float) -> Seconds:
    place = part * (len(times) - 1)
    below = int(place)
    above = min(below + 1, len(times) - 1)
    if times[above] == inf:
        return inf if place > below else times[below]
    return times[below] + (place - below) * (times[above] - times[below])


# ---------------------------------------------------------------------------------------- simulating


@final
class Watch:
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
        self.turns = 0
        self._now: Callable[[], Seconds] = lambda: 0.0
        self._on: Final[dict[JobId, Placement]] = {}
        self._freed: Final[dict[tuple[int, int], Release]] = {}
        self._last: Release | None = None

    def build(self, view: View) -> Watch:
        self._now = lambda: view.now
        self._on.update({k: t.placement for k, t in view.running.items() if t.placement})
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
        self._on[job_id] = placement

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
        for gpu in gpus_of(self._on.pop(job_id)):
            self._freed[gpu] = release
        return release.at

    def settle(self) -> None:
        """Nothing is ever tried out."""


def gpus_of(placement: Placement) -> list[tuple[int, int]]:
    return [
        (n, gpu)
        for n, mask in placement.slices
        for gpu in range(mask.bit_length())
        if mask >> gpu & 1
    ]


@final
class _Ahead:
    """The simulated world, for as long as it is worth it; in it arrays let their next member go."""

    def __init__(
        self, world: Backend, state: State, watch: Watch, held_until: Mapping[JobId, Seconds]
    ) -> None:
        self._world: Final = world
        self._state: Final = state
        self._watch: Final = watch
        self._held_until: Final = dict(held_until)
        self._until: Final = thread_time() + _MOST_SECONDS
        self._late: Final[dict[str, list[JobId]]] = {}
        for track in state.tracks.values():
            if track.held == ARRAY_FULL:
                self._late.setdefault(array_of(track.job.id), []).append(track.job.id)

    def observe(self) -> Sequence[Event]:
        self._watch.turns += 1
        if self._watch.turns > _MOST_TURNS or thread_time() > self._until:
            self._watch.cut_short = "it looks only so far ahead, since there is so much to decide"
            return ()
        released = self._next_of_arrays() + self._whose_time_has_come()
        return released or self._world.observe()

    def _whose_time_has_come(self) -> list[Event]:
        now = self._state.now
        due = [job_id for job_id, at in self._held_until.items() if at <= now]
        for job_id in due:
            del self._held_until[job_id]
        return [Released(now, job_id) for job_id in due]

    def _next_of_arrays(self) -> list[Event]:
        ended = self._watch.just_ended
        arrays = [array_of(job_id) for job_id in ended] if self._late else []
        ended.clear()
        late = [self._late[array] for array in arrays if self._late.get(array)]
        return [Released(self._state.now, members.pop(0)) for members in late if members]

    def decide(self, view: View) -> Sequence[Action]:
        """Stands among the policies too, so as to be asked again in time."""
        return [Wake(min(self._held_until.values()))] if self._held_until else []

    def act(self, action: Action) -> None:
        self._world.act(action)


def _run(
    likeness: Likeness,
    left_s: Mapping[JobId, Seconds],
    jobs: Mapping[JobId, Job],
    charges: Charges | None = None,
) -> Watch:
    """Set the likeness going: every job has that much work left."""
    state = likeness.state(jobs)
    watch = Watch()
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
    ahead = _Ahead(world, state, watch, likeness.held_until)
    try:
        run(ahead, [Housekeeping(), likeness.policy_on(state), ahead], state)
    except Exception as error:
        # Somebody else's policy, or one that waits for what will not come: say as much as is known.
        watch.failure = error
        watch.cut_short = f"looking ahead has failed ({type(error).__name__}: {error})"
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
