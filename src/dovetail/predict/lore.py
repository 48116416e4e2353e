"""The lessons of jobs that ended: the one place where a job is compared with others.

Forecasts, `dovetail predict` and the predictors of policies all ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import expm1, log1p
from typing import Final, NamedTuple, final

from dovetail.core.model import Job, Seconds
from dovetail.predict.calibration import ENOUGH, Shown
from dovetail.predict.evidence import Opinion, ScatterScales, offset, weighed
from dovetail.predict.group import NOTHING, Brief, LikeJobs
from dovetail.predict.identity import COMMAND, EVERYONE, FLAGS, NAME, Identity, identities

TAIL: Final = 0.1  # of the jobs end before the interval, and as many after it
_OWN, _VARIANT, _RELATED, _OTHERS, _WORD = range(5)


class LoreAnswer(NamedTuple):
    """Logarithms of seconds plus one."""

    low: float
    middle: float
    high: float
    opinion: Opinion


@final
class Lore:
    """By identity, what jobs took; how far answers of each sort were off.

    `looks_back`: jobs are told of when they have ended, and judged by what was known when they came;
    else whoever tells of an end tells what was said.
    """

    def __init__(self, *, looks_back: bool = False) -> None:
        self._looks_back: Final = looks_back
        self._groups: Final[dict[Identity, LikeJobs]] = {}
        self._scales: Final = ScatterScales()
        self._shown: Final = [Shown(TAIL) for _ in range(5)]

    def group(self, key: Identity) -> LikeJobs:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = LikeJobs()
        return found

    def at_hand(self, key: Identity) -> LikeJobs:
        """The same, without making one."""
        return self._groups.get(key, _NOBODY)

    # ------------------------------------------------------------------------------------ learning

    def learn(self, job: Job, at: Seconds, seconds: Seconds) -> None:
        """It has finished, and took that long. In order of time."""
        keys, logarithm = identities(job), log1p(seconds)
        self._scales.learn(job, self._briefs(job), logarithm)
        new = False  # is it the first of the identity just finer?
        for place, key in enumerate(keys):
            group, own = self.group(key), offset(job, len(keys) - 1 - place)
            group.kinds += new
            new = not group.number
            if own:
                group.ended_at = at
                group.adds(logarithm - own, own)
            else:
                group.ends(at, seconds)
            if self._looks_back:
                group.mark(at)

    def judge(self, opinion: Opinion, seconds: Seconds) -> None:
        """Judge the belief about a job at its submission, now that it has ended."""
        off = (log1p(seconds) - opinion.middle) / opinion.deviation
        self._shown[_sort_of(opinion)].judge(off)

    def waits_for(self, running: Iterable[tuple[Opinion, Seconds]]) -> None:
        """Take note of beliefs about jobs that have lasted so long and are not over."""
        bounds: list[list[float]] = [[] for _ in self._shown]
        for opinion, seconds in running:
            bounds[_sort_of(opinion)].append((log1p(seconds) - opinion.middle) / opinion.deviation)
        for shown, own in zip(self._shown, bounds, strict=True):
            shown.waits_for(own)

    # ----------------------------------------------------------------------------------- answering

    def of(self, job: Job) -> LoreAnswer | None:
        """None: nothing is known of it."""
        return self._answer(weighed(job, self._briefs(job), self._scales))

    def as_of(self, job: Job, at: Seconds) -> Opinion | None:
        """From what had ended before that."""
        briefs = [self.at_hand(key).as_of(at) for key in identities(job)]
        return weighed(job, briefs, self._scales)

    def beyond(self, job: Job, done: Seconds) -> LoreAnswer | None:
        """The belief about a job that has lasted so long, by jobs that lasted longer. None: none did."""
        keys, logarithm = identities(job), log1p(done)
        briefs = [
            self.at_hand(key).beyond(logarithm - offset(job, len(keys) - 1 - place))
            for place, key in enumerate(keys)
        ]
        return self._answer(weighed(job, briefs, self._scales))

    def judged(self, opinion: Opinion) -> int:
        """Answers of its sort that have been held against what came of them."""
        return self._shown[_sort_of(opinion)].judged

    def finest(self, job: Job) -> tuple[LikeJobs, int]:
        """The most alike that have a past; fineness as in `identity`, or below 0."""
        keys = identities(job)
        for place, key in enumerate(keys):
            if self.at_hand(key).number:
                return self._groups[key], len(keys) - 1 - place
        return _NOBODY, -1

    def is_strange(self, job: Job) -> bool:
        """Is nothing known of its user, neither runs nor a word, and little of users in general? However
        many jobs a few users have run, another may run something else altogether."""
        if job.estimate is not None or job.time_limit_s is not None:
            return False
        return self.finest(job)[1] <= EVERYONE and self.at_hand(()).kinds < ENOUGH

    def mean(self, job: Job) -> Seconds | None:
        """The plain mean of the most alike (Helios' rule), but the user's own word before jobs of other
        commands, or of other names where no command is known."""
        group, fineness = self.finest(job)
        if job.estimate is not None and fineness < (FLAGS if job.alike else NAME):
            return job.estimate.seconds
        if not group.number or (job.member is not None and fineness < NAME):
            return None
        own = offset(job, fineness)
        return expm1(group.brief.middle + own) if own else group.total / group.number

    def answer(self, opinion: Opinion) -> LoreAnswer:
        """With an interval as wide as answers of its sort have needed."""
        low, high = self._shown[_sort_of(opinion)].reach()
        middle, deviation = opinion.middle, opinion.deviation
        return LoreAnswer(
            max(middle + low * deviation, 0.0), middle, middle + high * deviation, opinion
        )

    def _answer(self, opinion: Opinion | None) -> LoreAnswer | None:
        return None if opinion is None else self.answer(opinion)

    def _briefs(self, job: Job) -> Sequence[Brief]:
        groups = [self._groups.get(key) for key in identities(job)]
        return [NOTHING if group is None else group.brief for group in groups]


_NOBODY: Final = LikeJobs()


def _sort_of(opinion: Opinion) -> int:
    """Own runs, others of the command, of the name, other jobs, a user's word alone."""
    fineness = opinion.fineness
    if fineness == COMMAND:
        return _OWN
    if fineness >= FLAGS:
        return _VARIANT
    if fineness >= NAME:
        return _RELATED
    return _OTHERS if fineness >= 0 else _WORD
