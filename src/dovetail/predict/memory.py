"""The jobs that a predictor learns from: what was known of each at its submission, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p
from operator import itemgetter
from typing import Final, NamedTuple, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.shape import Shape
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.predict.chronicle import Chronicle, KnownAtSubmission


class Lesson(NamedTuple):
    """A job that finished: the logarithm is of its seconds plus one."""

    known: KnownAtSubmission
    log_seconds: float
    submitted_at: Seconds


class Story(NamedTuple):
    """The life of a job so far."""

    job: Job
    submitted_at: Seconds
    started_at: Seconds | None
    ended_at: Seconds | None
    seconds: Seconds | None  # it worked; None: it has not finished, or ended otherwise


def past_of(stories: Sequence[Story], now: Seconds) -> View:
    """A view in which the jobs have ended so, for predictors that look at one."""
    view = View(past=len(stories))
    view.now = now
    for number, story in enumerate(stories):
        if story.ended_at is None:
            continue
        track = Track(story.job, Shape(0, story.job, ""), number, story.submitted_at, number)
        track.ended_at, track.executed_s = story.ended_at, story.seconds or 0.0
        track.phase = Phase.FINISHED if story.seconds is not None else Phase.CANCELLED
        if story.started_at is not None:
            track.first_start_at = track.started_at = story.started_at
        view.past.append(track)
    return view


@final
class JobMemory:
    """Told of jobs in order of submission and of their ends in order of time."""

    def __init__(self) -> None:
        self.chronicle: Final = Chronicle()
        self.finished = 0
        self.lessons: Final[list[Lesson]] = []  # jobs of which something was known beforehand
        self.ended: Final[list[Seconds]] = []  # when, for each lesson
        self._open: Final[dict[JobId, tuple[KnownAtSubmission, Seconds]]] = {}

    def known(self, job_id: JobId) -> KnownAtSubmission | None:
        """At its submission; None: it has ended, or never was."""
        found = self._open.get(job_id)
        return None if found is None else found[0]

    def submits(self, job: Job, at: Seconds) -> KnownAtSubmission:
        known = self.chronicle.submits(job, at)
        self._open[job.id] = known, at
        return known

    def ends(self, job: Job, at: Seconds, seconds: Seconds | None) -> None:
        """None: it did not finish, and teaches nothing. The chronicle is told apart from this.

        Neither does one that came before any like it had ended: how far off a guess was says nothing
        of answers that rest on something.
        """
        known, submitted_at = self._open.pop(job.id)
        if seconds is None:
            return
        self.finished += 1
        if known.opinion is not None:
            self.chronicle.lore.judge(known.opinion, seconds)
            self.lessons.append(Lesson(known, log1p(seconds), submitted_at))
            self.ended.append(at)

    def take_in(self, stories: Sequence[Story]) -> None:
        """In order of submission; of jobs that are known already, what has come since.

        Starts and ends come first: a submission finds those before it in time, and no others.
        """
        for story in stories:
            self._tell(story)
        for story in stories:
            if story.job.id not in self._open:
                self.submits(story.job, story.submitted_at)
        ended = [(story.ended_at, story) for story in stories if story.ended_at is not None]
        for at, story in sorted(ended, key=itemgetter(0)):
            self.ends(story.job, at, story.seconds)

    def _tell(self, story: Story) -> None:
        if story.started_at is not None:
            self.chronicle.starts(story.job, story.started_at)
        if story.ended_at is None:
            return
        if story.seconds is None:
            self.chronicle.leaves(story.job, story.ended_at)
        else:
            self.chronicle.finishes(story.job, story.ended_at, story.seconds)
