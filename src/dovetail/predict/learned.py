"""Predictors that learn while jobs run: kept up to date by the view, the same after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1
from operator import attrgetter
from typing import Final, final

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, RECALLS, RUNS, WAITS, View
from dovetail.predict.boosting import missing
from dovetail.predict.chronicle import Known
from dovetail.predict.intervals import Belief
from dovetail.predict.learner import BOOSTED, MIXTURE, RECENT_MEAN, Learner
from dovetail.predict.memory import Memory
from dovetail.predict.reasons import source

LEARNED: Final = (RECENT_MEAN, BOOSTED, MIXTURE)


@final
class Learned:
    """Answers in one of the ways of `Learner`. The trees of a policy's answers are fitted by the
    thread that asks; those of intervals only when somebody wants one."""

    def __init__(self, way: str) -> None:
        self.way: Final = way

    def require(self) -> None:
        """Say what is missing before anything runs."""
        if self.way in (BOOSTED, MIXTURE) and missing():
            raise BadInput(missing())

    def build(self, view: View) -> Followed:
        return Followed(self.way)

    def duration_s(self, job: Job, view: View) -> Seconds:
        followed, known = self._asked(job, view)
        return max(expm1(followed.learner.at(view.now).middle(known)), 0.0)

    def belief(self, job: Job, view: View) -> Belief:
        """How long it takes in all."""
        followed, known = self._asked(job, view)
        fit = followed.learner.at(view.now)
        low, middle, high = (max(expm1(log), 0.0) for log in fit.interval(known))
        return Belief(middle, low, high, source(job, known, fit.lessons))

    def _asked(self, job: Job, view: View) -> tuple[Followed, Known]:
        followed = view.index(self)
        assert isinstance(followed, Followed)
        return followed, followed.known(job, view)


@final
class Followed:
    """The memory of a view: an index that takes in tracks when it is asked.

    Everything is read from the tracks themselves, so that an index that is made after a restart, from
    the tracks that are remembered, comes to the same.
    """

    def __init__(self, way: str) -> None:
        self.watches = WAITS | RUNS | ENDS | RECALLS
        self._memory: Final = Memory()
        self.learner: Final = Learner(way, self._memory)
        self._news: Final[dict[int, Track]] = {}  # by sequence
        self._begun: Final[set[JobId]] = set()

    def waits(self, track: Track) -> None:
        self._news[track.sequence] = track

    def runs(self, track: Track) -> None:
        self._news[track.sequence] = track

    def ends(self, track: Track) -> None:
        self._news[track.sequence] = track

    def recall(self, track: Track) -> None:
        self._news[track.sequence] = track

    def settle(self) -> None:
        """Nothing is ever tried out."""

    @property
    def memory(self) -> Memory:
        """Up to date."""
        if self._news:
            tracks = [self._news[sequence] for sequence in sorted(self._news)]
            self._news.clear()
            self._take_in(tracks)
        return self._memory

    def known(self, job: Job, view: View) -> Known:
        """At its submission; of one that is not submitted, now."""
        known = self.memory.open.get(job.id)
        if known is not None:
            return known
        track = view.tracks.get(job.id)
        if track is None:
            return self.memory.chronicle.now_of(job, view.now)
        self.waits(track)  # whoever asks was told of it before this index
        return self.memory.open[job.id]

    def _take_in(self, tracks: Sequence[Track]) -> None:
        memory, ended = self._memory, []
        for track in tracks:
            self._tell(track)
        for track in tracks:
            if track.job.id not in memory.open:
                memory.submits(track.job, track.submitted_at)
            if track.ended_at >= 0:
                ended.append(track)
        for track in sorted(ended, key=attrgetter("ended_at")):
            finished = track.phase is Phase.FINISHED
            memory.ends(track.job, track.ended_at, track.executed_s if finished else None)

    def _tell(self, track: Track) -> None:
        """Starts and ends come first: a submission finds those before it in time, and no others."""
        job, chronicle = track.job, self._memory.chronicle
        if track.first_start_at >= 0 and job.id not in self._begun:
            self._begun.add(job.id)
            chronicle.starts(job, track.first_start_at)
        if track.ended_at < 0:
            return
        self._begun.discard(job.id)
        if track.phase is Phase.FINISHED:
            chronicle.finishes(job, track.ended_at, track.executed_s)
        else:
            chronicle.leaves(job, track.ended_at)
