"""Predictors that learn while jobs run: kept up to date by the view, the same after a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import expm1, inf
from typing import Final, Protocol, TypeGuard, final

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, RECALLS, RUNS, WAITS, View
from dovetail.predict.boosting import missing
from dovetail.predict.chronicle import KnownAtSubmission
from dovetail.predict.duration import HistoryMean
from dovetail.predict.intervals import Belief
from dovetail.predict.learner import BOOSTED, MIXTURE, RECENT_MEAN, Learner
from dovetail.predict.memory import JobMemory, Story
from dovetail.predict.reasons import belief_of

LEARNED: Final = (RECENT_MEAN, BOOSTED, MIXTURE)


class Learns(Protocol):
    """A predictor that is asked once for all that looks ahead: to learn takes a while."""

    def duration_s(self, job: Job, view: View) -> Seconds: ...

    def belief(self, job: Job, view: View) -> Belief:
        """How long it takes in all."""

    def knows(self, job: Job, view: View) -> bool:
        """Is that more than a guess?"""


def learns(predictor: object) -> TypeGuard[Learns]:
    return hasattr(predictor, "belief") and hasattr(predictor, "knows")


@dataclass(frozen=True, eq=False)
class Learned:
    """Answers in one of the ways of `Learner`. The trees of a policy's answers are fitted by the
    thread that asks; those of intervals only when somebody wants one."""

    way: str

    def build(self, view: View) -> Followed:
        return Followed(self.way)

    def duration_s(self, job: Job, view: View) -> Seconds:
        followed, known = self._asked(job, view)
        return max(expm1(followed.learner.at(view.now).middle(known)), 0.0)

    def belief(self, job: Job, view: View) -> Belief:
        """How long it takes in all."""
        followed, known = self._asked(job, view)
        return belief_of(job, known, followed.learner.at(view.now))

    def knows(self, job: Job, view: View) -> bool:
        """Is that more than a guess?"""
        return not self._asked(job, view)[1].guessed

    def _asked(self, job: Job, view: View) -> tuple[Followed, KnownAtSubmission]:
        followed = view.index(self)
        assert isinstance(followed, Followed)
        return followed, followed.known(job, view)


@final
@dataclass(frozen=True, eq=False)
class RecentMean(Learned):
    """The mean of what similar jobs took lately: what is older counts for less."""

    way: str = field(default=RECENT_MEAN, init=False)

    @staticmethod
    def source() -> str:
        return "what similar jobs took lately"


@final
@dataclass(frozen=True, eq=False)
class Boosted(Learned):
    """Trees fitted to the past, every week anew."""

    way: str = field(default=BOOSTED, init=False)

    @staticmethod
    def source() -> str:
        return "trees fitted to the past, every week anew"

    def __post_init__(self) -> None:
        _need_trees()


@final
@dataclass(frozen=True, eq=False)
class Mixture(Learned):
    """What similar jobs took lately, and trees for what that misses."""

    way: str = field(default=MIXTURE, init=False)

    @staticmethod
    def source() -> str:
        return "what similar jobs took lately, and trees for what that misses"

    def __post_init__(self) -> None:
        _need_trees()


def _need_trees() -> None:
    """Say what is missing before anything runs."""
    if missing():
        raise BadInput(missing())


@final
class LearnedAnswer:
    """Answers of a learning predictor, where it must not learn; of other jobs, what history
    says."""

    def __init__(self, seconds: Mapping[JobId, Seconds], source: Callable[[], str]) -> None:
        self._seconds: Final = seconds
        self._otherwise: Final = HistoryMean()
        self.source: Final = source  # that of the one that has said it

    def duration_s(self, job: Job, view: View) -> Seconds:
        found = self._seconds.get(job.id)
        return self._otherwise.duration_s(job, view) if found is None else found


@final
class Followed:
    """The memory of a view: an index that takes in tracks when it is asked.

    Everything is read from the tracks themselves, so that an index that is made after a restart, from
    the tracks that are remembered, comes to the same.
    """

    def __init__(self, way: str) -> None:
        self.watches = WAITS | RUNS | ENDS | RECALLS
        self._memory: Final = JobMemory()
        self.learner: Final = Learner(way, self._memory)
        self._news: Final[dict[int, Track]] = {}  # by sequence
        self._begun: Final[set[JobId]] = set()
        self._starting: Final[list[Track]] = []
        self._looked_at = -inf  # for starts

    def waits(self, track: Track) -> None:
        self._news[track.sequence] = track

    def runs(self, track: Track) -> None:
        self._news[track.sequence] = track

    def ends(self, track: Track) -> None:
        self._news[track.sequence] = track

    def recall(self, track: Track) -> None:
        self._news[track.sequence] = track

    @property
    def memory(self) -> JobMemory:
        """Up to date."""
        if self._news:
            tracks = [self._news[sequence] for sequence in sorted(self._news)]
            self._news.clear()
            self._memory.take_in([self._story(track) for track in tracks])
            self._starting.extend(filter(_is_starting, tracks))
        return self._memory

    def _look_for_starts(self, now: Seconds) -> None:
        """A view tells of a start when it is decided; when it was is known once it has happened."""
        if self._starting and now > self._looked_at:
            self._looked_at = now
            for track in self._starting:
                if self._memory.known(track.job.id) is not None:  # else its end is taken in already
                    self._news[track.sequence] = track
            self._starting.clear()

    def known(self, job: Job, view: View) -> KnownAtSubmission:
        """At its submission; of one that is not submitted, now."""
        self._look_for_starts(view.now)
        known = self.memory.known(job.id)
        if known is not None:
            return known
        track = view.tracks.get(job.id)
        if track is None:
            return self.memory.chronicle.now_of(job, view.now)
        self.waits(track)  # whoever asks was told of it before this index
        return self.known(job, view)

    def _story(self, track: Track) -> Story:
        """What is told of it; a start is told once."""
        job_id, start = track.job.id, track.first_start_at
        told = start < 0 or job_id in self._begun
        if track.ended_at >= 0:
            self._begun.discard(job_id)
        elif not told:
            self._begun.add(job_id)
        return Story(
            track.job,
            track.submitted_at,
            None if told else start,
            track.ended_at if track.ended_at >= 0 else None,
            track.executed_s if track.phase is Phase.FINISHED else None,
        )


def _is_starting(track: Track) -> bool:
    return track.placement is not None and track.first_start_at < 0 and track.ended_at < 0
