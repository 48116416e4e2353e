"""The worth of knowing a feature, in the outcome of a schedule: simulations with and without it.

Simulated is the busiest stretch of the trace, with the jobs running at its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from dovetail.core.errors import DovetailError
from dovetail.core.model import Node, Seconds, Tenant
from dovetail.insight.arms import Arm, shuffles_of, times_of
from dovetail.insight.features import HISTORY, Features, features_of
from dovetail.insight.learners import BOOSTED, MISSING, can_boost, learned, matrix, one_thread
from dovetail.insight.scene import HISTORY_MEAN, Scene, completion_times, opened
from dovetail.insight.shapley import Coalition, coalitions
from dovetail.insight.work import Crew, Map, Progress
from dovetail.insight.worth import (
    AS_IT_IS,
    FIFO,
    NOISY,
    SHUFFLED,
    SIGMAS,
    ArmKey,
    DecisionWorth,
    Measured,
)
from dovetail.models.workload import Arrival
from dovetail.policies.registry import sources, with_predictor
from dovetail.text.counting import counted

_PAST = 0.25  # share of the trace that is kept to learn from
_PLACES = 50  # starts that are tried
# Least attained service with levels that double. LAS itself decides at every quantum: too slow.
UNAWARE = "tiresias:queues=10"
_MOST_GROUPS, _MOST_GROUPS_QUICK = 7, 4
_JOB_RUNS, _JOB_RUNS_QUICK = 1_200_000, 120_000  # jobs times simulations
_DRAWS, _DRAWS_QUICK = 3, 1


@dataclass(frozen=True)
class Stretch:
    """Rows of the features. The first `carried` were submitted before it begins and start with
    their remaining work, since an empty cluster would hide that jobs wait. They do not count."""

    begins: Seconds
    rows: np.ndarray
    carried: int
    done_s: np.ndarray  # by row, work done before it begins

    def arrivals(self, trace: Sequence[Arrival]) -> list[Arrival]:
        ordered = sorted(trace, key=attrgetter("at"))
        found = [ordered[row] for row in self.rows.tolist()]
        done = self.done_s.tolist()
        for number in range(self.carried):
            own = found[number]
            left = own.work_s - done[number]
            found[number] = replace(own, at=self.begins, work_s=left, failures=())
        return found


def busiest(features: Features, jobs: int) -> Stretch:
    """So many consecutive jobs, after the part kept to learn from, with the highest demand in their
    time."""
    number = len(features.duration)
    earliest = int(number * _PAST)
    jobs = max(1, min(jobs, number - earliest))
    firsts = np.unique(np.linspace(earliest, number - jobs, _PLACES).astype(int))
    asked = np.concatenate([[0.0], np.cumsum(features.duration * features.gpus)])
    spans = features.submitted[firsts + jobs - 1] - features.submitted[firsts]
    load = (asked[firsts + jobs] - asked[firsts]) / np.maximum(spans, 1.0)
    first = int(firsts[np.argmax(load)])
    begins = float(features.submitted[first])
    carried = np.flatnonzero((features.submitted + features.duration)[:first] > begins)
    done = np.concatenate([begins - features.submitted[carried], np.zeros(jobs)])
    rows = np.concatenate([carried, np.arange(first, first + jobs)])
    return Stretch(begins, rows, len(carried), done)


def decision(
    arrivals: Sequence[Arrival],
    nodes: Sequence[Node],
    *,
    tenants: Sequence[Tenant] = (),
    features: Features | None = None,
    groups: Sequence[str] | None = None,
    policy: str = "srtf",
    unaware: str = UNAWARE,
    jobs: int | None = None,
    seed: int = 0,
    quick: bool = False,
    map: Map = map,
    progress: Progress | None = None,
) -> DecisionWorth:
    """`groups`: the groups of `features_of(arrivals)` to value, by default the first seven. The
    busiest stretch of `jobs` jobs is simulated, and the predictor learns from all jobs that ended
    before it; by default as many jobs as the time of a run allows."""
    features = features_of(arrivals) if features is None else features
    chosen, notes = _chosen(features, groups, quick)
    obstacle = _obstacle(arrivals, nodes, policy)
    if obstacle:
        return _nothing(policy, unaware, (obstacle,))
    draws = _DRAWS_QUICK if quick else _DRAWS
    every = coalitions(chosen) if can_boost() and chosen else []
    affordable = (_JOB_RUNS_QUICK if quick else _JOB_RUNS) // (len(every) + 8 * draws + 4)
    stretch = busiest(features, affordable if jobs is None else jobs)
    scene = Scene(stretch.arrivals(arrivals), tuple(nodes), tuple(tenants))
    packed = scene.packed()
    arms = _arms(scene, packed, policy, unaware, draws, seed)
    knowings = [
        Knowing(features, stretch, packed, policy, _columns(features, some), quick)
        for some in every
    ]
    crew = Crew(map, progress, len(arms) + len(every))
    if not can_boost():
        notes.append(MISSING)
    try:
        found = dict(zip(arms, crew.each(times_of, list(arms.values())), strict=True))
        known = crew.each(known_times, knowings)
    except DovetailError as error:
        return _nothing(policy, unaware, (f"what knowledge is worth: {error}", *notes))
    notes += [f"shuffling {what}: {why}" for what, why in shuffles_of(scene).items() if why]
    counted = {key: times[stretch.carried :] for key, times in found.items()}
    known = [times[stretch.carried :] for times in known]
    return Measured(policy, unaware, chosen, counted, known, seed, notes).decision()


def _nothing(policy: str, unaware: str, why: tuple[str, ...]) -> DecisionWorth:
    return DecisionWorth(policy, unaware, 0, (), (), (), (), (), None, (None, None), (), why)


def _columns(features: Features, groups: Coalition) -> tuple[str, ...]:
    before = features.upto(HISTORY)
    return tuple(n for n in before if any(n in features.groups[group] for group in groups))


def _arms(
    scene: Scene, packed: bytes, policy: str, unaware: str, draws: int, seed: int
) -> dict[ArmKey, Arm]:
    """By kind, value and draw; every draw has the same errors at every sigma."""
    arms: dict[ArmKey, Arm] = {
        (FIFO, "", 0): Arm(packed, FIFO),
        (unaware, "", 0): Arm(packed, unaware),
        (AS_IT_IS, "", 0): Arm(packed, with_predictor(policy, HISTORY_MEAN)),
    }
    for sigma in SIGMAS:
        for draw in range(draws if sigma else 1):
            arms[NOISY, sigma, draw] = Arm(packed, policy, sigma, seed=seed + draw)
    for column, obstacle in shuffles_of(scene).items():
        for draw in range(0 if obstacle else draws):
            own = with_predictor(policy, HISTORY_MEAN)
            arms[SHUFFLED, column, draw] = Arm(packed, own, shuffle=column, seed=seed + draw)
    return arms


def _obstacle(arrivals: Sequence[Arrival], nodes: Sequence[Node], policy: str) -> str:
    what = "what knowledge is worth"
    if len(arrivals) < 2:
        return f"{what}: the trace has {counted(len(arrivals), 'job')}"
    if not nodes:
        return f"{what}: the cluster has no nodes"
    if not set(sources(policy, "one")) & {"one"}:
        return f"{what}: policy {policy!r} does not ask for durations; choose srtf or qssf"
    return ""


def _chosen(
    features: Features, groups: Sequence[str] | None, quick: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The groups to value, and a line about the others."""
    there = features.known_before_start()
    asked = tuple(there if groups is None else dict.fromkeys(groups))
    notes = [
        f"the worth of {group}: {features.left_out.get(group, 'the trace has no such group')}"
        for group in asked
        if group not in there
    ]
    asked = tuple(group for group in asked if group in there)
    most = _MOST_GROUPS_QUICK if quick else _MOST_GROUPS
    notes += [f"the worth of {group}: only {most} groups at a time" for group in asked[most:]]
    return asked[:most], notes


_FEWEST_TO_LEARN, _MOST_TO_LEARN = 30, 15_000
_LESSONS, _LESSONS_QUICK = 4, 2  # how often it is trained again while jobs arrive


@dataclass(frozen=True)
class Knowing:
    """A run by a policy that knows only the columns `names` of each job."""

    features: Features
    stretch: Stretch
    scene: bytes
    policy: str
    names: tuple[str, ...]
    quick: bool


def known_times(own: Knowing) -> np.ndarray:
    """Completion times by job."""
    return completion_times(opened(own.scene), own.policy, beliefs(own))


def beliefs(own: Knowing) -> np.ndarray:
    """Durations predicted from these columns, never from a job that had not ended. Without any
    column it is one figure for all jobs, which changes only when the predictor is trained again."""
    features, stretch = own.features, own.stretch
    ended = features.submitted + features.duration
    believed = np.full(len(stretch.rows), _typical(features, ended, stretch.begins))
    places = np.arange(len(stretch.rows))
    with one_thread():
        for lesson in np.array_split(places, _LESSONS_QUICK if own.quick else _LESSONS):
            if len(lesson):
                _learn(own, ended, lesson, believed)
    return left_after(believed, stretch.done_s)


def _learn(own: Knowing, ended: np.ndarray, lesson: np.ndarray, believed: np.ndarray) -> None:
    """Train on all jobs that had ended when the lesson's first job came, and predict the lesson."""
    features, rows = own.features, own.stretch.rows[lesson]
    now = max(float(features.submitted[rows[0]]), own.stretch.begins)
    past = np.flatnonzero(ended <= now)[-_MOST_TO_LEARN:]
    if len(past) >= _FEWEST_TO_LEARN:
        model = learned(BOOSTED, features, own.names, past, own.quick)
        guess = model.predict(matrix(features, own.names, rows))
        # Whole seconds: the last digits of a float are no reason to put one job before another.
        believed[lesson] = np.maximum(np.round(np.expm1(guess)), 1.0)


def left_after(whole: np.ndarray, done_s: np.ndarray) -> np.ndarray:
    """The remaining duration believed: a job that has outlived its prediction lasts as long again."""
    left: np.ndarray = np.where(whole > done_s, whole - done_s, done_s)
    return left


def _typical(features: Features, ended: np.ndarray, now: float) -> float:
    """One figure for all jobs: the median of the durations that had ended when the first one came."""
    past = features.duration[ended <= now]
    return float(np.median(past)) if len(past) else 3600.0
