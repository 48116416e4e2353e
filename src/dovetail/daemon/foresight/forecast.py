"""When jobs will start and end: the policy itself, run ahead of time in the simulator.

A likeness of the live state is set going with the time that each job is believed to take: once with
the middle of every belief, which gives what is expected, and then with times drawn from the beliefs,
which gives the interval. Draws are the same whenever they are made, so that answers do not flicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from threading import Lock
from time import monotonic, thread_time
from typing import Any, Final, TypeAlias, final
from weakref import WeakKeyDictionary

from dovetail.api.forecast_row import Forecast, Span
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.closed_gpus import counted_closed
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.copy import Asked, Likeness, as_measured
from dovetail.daemon.foresight.forecast_record import END, START
from dovetail.daemon.foresight.lasting import lasting_jobs, taken_to_last
from dovetail.daemon.foresight.lookahead import Release, StartsAndEnds, Stay, run_ahead
from dovetail.daemon.foresight.lookahead_studies import steps_ahead
from dovetail.daemon.foresight.scenarios import Drawn, drawn, scenarios_for, spread
from dovetail.daemon.holds import ARRAY_FULL
from dovetail.models.cost import Costs
from dovetail.predict.intervals import Belief, Experience
from dovetail.results.charges import Charges
from dovetail.text.counting import counted
from dovetail.tune.board import Mirror
from dovetail.workloads.study.kind import studies_of

_FRESH_S = 2.0  # a forecast serves everybody who asks within that time at most,
_TIMES_AS_LONG = 20.0  # or within so many times what it took to make
_STILL_FRESH_S = 20.0  # and within this one, if nothing has happened meanwhile
_HOUR_S = 3600.0
_FAR_BEYOND = 10.0  # horizons
_NOTHING_KNOWN = "no job like it has finished, and nobody has said"
_LASTING_COST = "replicas of services run on: their costs have no end"
_UNKNOWN_COST = "how long jobs will take is unknown"
_TRIAL_LOW, _TRIAL_HIGH = 0.7, 1.4  # how far off the steps of a study may be


Beliefs: TypeAlias = Mapping[JobId, Belief]
_NOTHING_TOLD: Beliefs = {}


@dataclass(frozen=True, slots=True)
class QueueForecast:
    """Expected starts and ends of the jobs that have not ended. Times are seconds since 1970."""

    made_at: float
    starts: Mapping[JobId, Span]  # the next start, for those that wait; the last one for the others
    ends: Mapping[JobId, Span]
    releases: Mapping[JobId, Release]  # by the job that starts
    gives_way: Mapping[JobId, tuple[float, JobId | None]]  # running ones: when, and to whom
    beliefs: Beliefs
    unknown: frozenset[JobId]  # jobs of which nothing is known
    scenarios: int
    limited: str  # what it does not take into account; "" if nothing
    spent: Mapping[str, float | int] = field(
        default_factory=dict
    )  # expected from now on, if priced
    uncosted: str = ""  # why that cannot be told
    seen: frozenset[JobId] = frozenset()  # all jobs there were
    partial: bool = False  # were some left out?
    stays: Sequence[Stay] = ()  # who is expected to have which GPUs, if all goes as in the middle

    def start(self, job_id: str) -> Span | None:
        """When it starts or goes on; None: it cannot be told."""
        return self.starts.get(JobId(job_id))

    def end(self, job_id: str) -> Span | None:
        return self.ends.get(JobId(job_id))

    def told(self, ids: Iterable[str] = ()) -> Forecast:
        """As the API tells it: of these jobs, or of all."""
        wanted = set(ids)
        return Forecast(
            made_at=self.made_at,
            limited=self.limited,
            starts=self._spans(self.starts, wanted),
            ends=self._spans(self.ends, wanted),
        )

    def _spans(self, spans: Mapping[JobId, Span], wanted: set[str]) -> dict[str, Span | None]:
        """None: it is unknown."""
        ids = dict.fromkeys([*spans, *self.beliefs, *self.unknown])
        return {job_id: spans.get(job_id) for job_id in ids if not wanted or job_id in wanted}


# --------------------------------------------------------------------------------- asked by services


@final
class _Kept:
    """The last forecast of a service; who asks while one is being made waits for it."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.made_at = -inf
        self.fresh_s = 0.0
        self.key: tuple[object, ...] = ()
        self.forecast: QueueForecast | None = None

    def serves(self, policy: str, age: Seconds, ids: Iterable[str]) -> bool:
        """Is it new enough, of that policy, and does it know of these jobs?"""
        if self.forecast is None or age >= self.fresh_s or self.key[0] != policy:
            return False
        return self.forecast.partial or self.forecast.seen.issuperset(ids)


_kept: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()
_kept_lock = Lock()


def forecast(service: Asked, ids: Iterable[str] = ()) -> QueueForecast:
    """The forecast of the jobs as they are now, or were a moment ago; these ids must be among them."""
    return _keeping(service, lambda: likenesses.take(service), ids)


def forecast_with(service: Asked, likeness: Likeness, job_id: str) -> QueueForecast:
    """The same, on a copy of the state that was taken already."""
    return _keeping(service, lambda: likeness, (job_id,))


def _keeping(service: Asked, take: Callable[[], Likeness], ids: Iterable[str]) -> QueueForecast:
    with _kept_lock:
        kept = _kept.setdefault(service, _Kept())
    with kept.lock:
        age = monotonic() - kept.made_at
        if kept.serves(service.chosen.text, age, ids):
            assert kept.forecast is not None
            return kept.forecast
        likeness = take()
        key = (likeness.policy, likeness.still.as_of)
        if kept.forecast is None or key != kept.key or age > _STILL_FRESH_S:
            began = thread_time()
            kept.forecast = shown(likeness, service.clock.unix)
            kept.key, kept.made_at = key, monotonic()
            kept.fresh_s = min(_FRESH_S, _TIMES_AS_LONG * (thread_time() - began))
        return kept.forecast


def shown(likeness: Likeness, unix: Callable[[Seconds], float]) -> QueueForecast:
    """The forecast, recorded to be judged later."""
    record, state = likeness.record, likeness.state()
    if record is None:
        return made_of(likeness, unix)
    record.judge(state, likeness.policy)
    return made_of(likeness, unix, notes=True)


def made_of(
    likeness: Likeness,
    unix: Callable[[Seconds], float],
    beliefs: Beliefs | None = None,
    scenarios: int | None = None,
    costs: Costs | None = None,
    notes: bool = False,
) -> QueueForecast:
    """Simulate; the beliefs are those of experience unless others are given."""
    state = likeness.state()
    beliefs = beliefs_of(state, likeness.told, likeness.experience) if beliefs is None else beliefs
    lasting = lasting_jobs(state)
    unknown = frozenset(k for k, t in state.tracks.items() if _may_run(t)) - set(beliefs) - lasting
    looked = _Looked(likeness, state, beliefs, unknown, lasting)
    middle, charges = looked.middle(costs)
    others = [] if middle.cut_short else looked.drawn(scenarios, middle.rounds)
    soonest = looked.soonest() if unknown else middle
    started = spread(state, middle.started, [other.started for other in others], soonest.started)
    ended = spread(state, middle.ended, [other.ended for other in others], soonest.ended)
    known = _known(likeness, state)
    if notes and likeness.record is not None:
        likeness.record.note(state, started, ended, known)
    starts = _as_wide_as_needed(likeness, state, started, START, known)
    ends = _as_wide_as_needed(likeness, state, ended, END, known)
    # Each is stretched by what its own kind has needed, so that one may overtake the other.
    ends = {k: v.not_before(starts[k]) if k in starts else v for k, v in ends.items()}
    for job_id, track in state.running.items():
        starts[job_id] = Span(track.started_at, track.started_at, track.started_at)
    _mark_guesses(starts, ends, beliefs, middle)
    epoch = unix(0.0)
    return QueueForecast(
        made_at=unix(likeness.now),
        starts={job_id: span.moved(epoch) for job_id, span in starts.items()},
        ends={k: span.moved(epoch) for k, span in ends.items() if k not in unknown | lasting},
        releases={k: replace(r, at=unix(r.at)) for k, r in middle.releases.items()},
        gives_way={k: (unix(at), to) for k, (at, to) in middle.gives_way.items()},
        beliefs=beliefs,
        unknown=unknown,
        scenarios=len(others),
        limited="; ".join(_limits(likeness, state, middle, unknown, lasting)),
        spent={} if charges is None else charges.figures(),
        uncosted=_uncosted(middle, unknown, lasting),
        seen=frozenset(state.tracks),
        partial=likeness.left_out > 0,
        stays=[_told(stay, unix) for stay in middle.stays(looked.horizon)],
    )


def _told(stay: Stay, unix: Callable[[Seconds], float]) -> Stay:
    until = None if stay.until is None else unix(stay.until)
    return stay._replace(since=unix(stay.since), until=until)


def _mark_guesses(
    starts: dict[JobId, Span], ends: dict[JobId, Span], beliefs: Beliefs, middle: StartsAndEnds
) -> None:
    """A start rests on the end that it waits for, an end on its start."""
    unlike = {job_id for job_id, belief in beliefs.items() if belief.guess}
    for job_id in sorted(starts, key=lambda own: starts[own].expected):
        release = middle.releases.get(job_id)
        if release is not None:
            before = starts.get(release.job_id)
            is_unlike = release.ended and release.job_id in unlike
            starts[job_id].guess = is_unlike or (before is not None and before.guess)
    for job_id, span in ends.items():
        span.guess = job_id in unlike or (job_id in starts and starts[job_id].guess)


def _uncosted(middle: StartsAndEnds, unknown: frozenset[JobId], lasting: frozenset[JobId]) -> str:
    """Why there are no costs, if there are none."""
    endless = _UNKNOWN_COST if unknown else _LASTING_COST if lasting else ""
    return middle.uncosted or middle.cut_short or endless


def _known(likeness: Likeness, state: State) -> frozenset[JobId]:
    """Jobs that wait, and like which one has finished."""
    experience = likeness.experience or Experience()
    waiting = [track.job for track in state.tracks.values() if track.placement is None]
    return frozenset(job.id for job in waiting if experience.knows(job))


def _as_wide_as_needed(
    likeness: Likeness,
    state: State,
    drawn: Mapping[JobId, Drawn],
    which: int,
    known: frozenset[JobId],
) -> dict[JobId, Span]:
    """Of jobs that wait; how long those that run take yet is judged by what jobs took."""
    record, now = likeness.record, likeness.now
    return {
        job_id: record.stretched(own, now, which, job_id in known)
        if record is not None and state.tracks[job_id].placement is None
        else own.span
        for job_id, own in drawn.items()
    }


@final
class _Looked:
    """The runs that a forecast is made of."""

    def __init__(
        self,
        likeness: Likeness,
        state: State,
        beliefs: Beliefs,
        unknown: frozenset[JobId],
        lasting: frozenset[JobId],
    ) -> None:
        self._likeness: Final = likeness
        self._beliefs: Final = beliefs
        self._unknown: Final = unknown
        self._lasting: Final = lasting
        self._steps: Final = steps_ahead(state)
        self.horizon: Seconds = inf  # beyond it nothing is told
        self._jobs: Final = {job_id: as_measured(track) for job_id, track in state.tracks.items()}

    def _run(
        self,
        times: Mapping[JobId, Seconds],
        charges: Charges | None = None,
        unknown_s: Seconds | None = None,
    ) -> StartsAndEnds:
        """Jobs of which nothing is known run for ever, so that who waits for them has no time; or for
        as long as is said. Replicas run for ever in any case."""
        if not self._unknown and not self._lasting:
            return run_ahead(self._likeness, times, self._jobs, charges)
        now = self._likeness.now
        horizon = now + (1 + len(self._unknown)) * (sum(times.values()) + _HOUR_S)
        self.horizon = horizon
        for_ever = _FAR_BEYOND * (horizon - now)
        if unknown_s is None:
            unknown_s = for_ever
        times = {**times, **dict.fromkeys(self._unknown, unknown_s)}
        times |= dict.fromkeys(self._lasting, for_ever)
        return run_ahead(self._likeness, times, self._jobs, charges, horizon)

    def middle(self, costs: Costs | None) -> tuple[StartsAndEnds, Charges | None]:
        """If everything takes the time it is believed to; without the books if they cannot be kept."""
        times = {job_id: belief.seconds for job_id, belief in self._beliefs.items()}
        charges = None if costs is None or self._unknown or self._lasting else Charges(costs)
        watch = self._run(times, charges)
        if charges is not None and isinstance(watch.failure, BadInput):
            uncosted, watch = str(watch.failure), self._run(times)
            watch.uncosted = uncosted
        return watch, charges

    def soonest(self) -> StartsAndEnds:
        """If those of which nothing is known end at once."""
        times = {job_id: belief.seconds for job_id, belief in self._beliefs.items()}
        return self._run(times, unknown_s=0.0)

    def drawn(self, scenarios: int | None, rounds: int) -> list[StartsAndEnds]:
        if all(belief.exact for belief in self._beliefs.values()):
            return []
        number = scenarios
        if number is None:
            number = scenarios_for(len(self._beliefs), rounds, self._steps)
        return [self._run(times) for times in drawn(self._beliefs, number)]


def _may_run(track: Track) -> bool:
    return not track.held or track.held == ARRAY_FULL or track.placement is not None


def beliefs_of(
    state: State, told: Beliefs = _NOTHING_TOLD, experience: Experience | None = None
) -> dict[JobId, Belief]:
    """The beliefs about jobs that may run and of which anything is known."""
    known = (experience or Experience()).take_in(state.past).see(state.tracks.values(), state.now)
    found: dict[JobId, Belief] = {}
    trials, lasting = beliefs_of_trials(state), lasting_jobs(state)
    for job_id, track in state.tracks.items():
        if _may_run(track) and job_id not in lasting:
            belief = trials.get(job_id) or known.remaining(track, state.now, told)
            if belief is not None:
                found[job_id] = belief
    return found


def beliefs_of_trials(state: State) -> dict[JobId, Belief]:
    """A study knows how many steps its trials make, and soon how long one takes."""
    found = {}
    for study in studies_of(state).open.values():
        mirror = Mirror(study).sync(state)
        if not any(trial.steps for trial in mirror.study.trials):
            continue
        step_s, source = mirror.step_s(state.now), f"the steps of study {study.design.name}"
        for trial in mirror.study.trials:
            left = (mirror.study.steps - trial.steps) * step_s
            for job_id in study.trials[trial.number].jobs:
                belief = Belief(left, left * _TRIAL_LOW, left * _TRIAL_HIGH, source)
                found[job_id] = belief
    return found


def _limits(
    likeness: Likeness,
    state: State,
    middle: StartsAndEnds,
    unknown: frozenset[JobId],
    lasting: frozenset[JobId],
) -> list[str]:
    room, found = state.room, []
    if likeness.left_out:
        found.append(f"{likeness.left_out:,} waiting jobs further behind are left out")
    strangers = sum(room.used_by_strangers(n).bit_count() for n in room.occupied)
    if strangers:
        found.append(
            f"{counted(strangers, 'GPU')} used by processes that are not ours are taken to stay so"
        )
    if room.strangers_host:
        found.append("CPUs and memory that others use are taken to stay so")
    if room.drained - room.gone:
        found.append("nodes that are closed are taken to stay so")
    if room.closed:
        found.append(f"{counted_closed(room)} are taken to stay so")
    if lasting:
        found.append(taken_to_last(lasting))
    if unknown:
        first = min(unknown, key=lambda job_id: state.tracks[job_id].sequence)
        which = f"job {first}" if len(unknown) == 1 else f"{len(unknown):,} jobs (job {first}, …)"
        found.append(f"how long {which} will take is unknown: {_NOTHING_KNOWN}")
    if middle.cut_short:
        found.append(middle.cut_short)
    return found
