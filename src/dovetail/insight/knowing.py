"""A schedule by someone who knows some features of the jobs and learns the rest from the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.insight.features import Features
from dovetail.insight.learners import BOOSTED, learned, matrix, one_thread
from dovetail.insight.scene import completion_times, opened
from dovetail.insight.stretch import Stretch

if TYPE_CHECKING:
    import numpy as np

_FEWEST_TO_LEARN, _MOST_TO_LEARN = 30, 15_000
_LESSONS, _LESSONS_QUICK = 4, 2  # how often it learns anew while the jobs come


@dataclass(frozen=True)
class Knowing:
    """`names` are the columns known of each job."""

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
    """Durations as predicted from these columns, never from a job that had not ended. Without any
    column it is one figure for all, which changes only as more is learnt."""
    import numpy as np

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
    """Learn what is known when the first of the lesson's jobs comes, and predict them all."""
    import numpy as np

    features, rows = own.features, own.stretch.rows[lesson]
    now = max(float(features.submitted[rows[0]]), own.stretch.begins)
    past = np.flatnonzero(ended <= now)[-_MOST_TO_LEARN:]
    if len(past) >= _FEWEST_TO_LEARN:
        model = learned(BOOSTED, features, own.names, past, own.quick)
        guess = model.predict(matrix(features, own.names, rows))
        believed[lesson] = np.maximum(np.expm1(guess), 1.0)


def left_after(whole: np.ndarray, done_s: np.ndarray) -> np.ndarray:
    """What is believed to be left: a job that has outlived the belief lasts as long again."""
    import numpy as np

    left: np.ndarray = np.where(whole > done_s, whole - done_s, done_s)
    return left


def _typical(features: Features, ended: np.ndarray, now: float) -> float:
    """One figure for all jobs: the median of what had ended when the first of them came."""
    import numpy as np

    past = features.duration[ended <= now]
    return float(np.median(past)) if len(past) else 3600.0
