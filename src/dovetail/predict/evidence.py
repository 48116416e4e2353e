"""The belief about a job's duration, from runs of ever less similar jobs and from its user's figures.

Every identity that has a past says something. Jobs of one identity scatter about its level, and the
level of a finer identity about that of the coarser one it lies in: how much, is learned from the jobs
that ended, and until there are some it is a wide judgement. So a run of the very command says much, one
of another command of the same script little, and how little is seen in the interval (a hierarchy of
normals in the logarithm of the time, weighed by empirical Bayes).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, log1p, sqrt
from typing import Final, NamedTuple, final

from dovetail.core.model import Job
from dovetail.predict.group import Brief, LikeJobs
from dovetail.predict.identity import AMOUNT, FLAGS, NAME, NOBODY, USER

# How far apart jobs of one identity are, as standard deviations of logarithms, before any have shown
# it: judgement, which counts as much as a few jobs. From everyone's jobs to those of one command. With
# other arguments the same script may be a smoke test or a week's training.
_APART: Final = (2.6, 2.6, 2.5, 2.5, 2.5, 1.0, 0.5, 0.3)
_APART_BY_NAME: Final = (2.6, 2.6, 1.2, 0.7)  # where no command is known the name stands for it
_JUDGED = 2.0  # jobs that the judgement counts as
_PRIOR = 4.0  # and what is usual for such identities, against an identity's own scatter
_REMEMBERED = 200  # of the latest, in what is learned about a scatter
_MOST_RUNS = 12.0  # that count: what is older is forgotten
_LEAST_APART = 0.02
_LEAST_BETWEEN = 0.1  # of what they scatter themselves, by which finer levels differ
_FAR = 0.2  # of the logarithm of how many times the usual amount it is asked to do
FEWEST: Final = 3  # jobs of other names: fewer say nothing

# What users say: how far off (its median and scatter, as logarithms), before any job has shown it.
_ESTIMATE = (0.0, 0.7)
_LIMIT = (-1.0, 1.2)
_PROGRESS = 0.2  # of what is left, from a job's own reports when all is done; more before that


class Opinion(NamedTuple):
    """A normal distribution of the logarithm of a job's seconds plus one."""

    middle: float
    deviation: float
    fineness: int  # of the finest identity that it rests on; NOBODY: of none
    number: int  # of jobs of that identity
    by_word: bool  # does it rest on its user's word as well?


@final
class Scatter:
    """How far jobs are off: a running mean of squares that begins with a judgement."""

    __slots__ = ("_number", "_square")

    def __init__(self, deviation: float) -> None:
        self._square = deviation**2
        self._number = _JUDGED

    def learn(self, square: float) -> None:
        self._number = min(self._number + 1.0, _REMEMBERED)
        self._square += (square - self._square) / self._number

    @property
    def variance(self) -> float:
        return max(self._square, _LEAST_APART**2)


@final
class ScatterScales:
    """The scatters learned so far, by fineness; and those of users' own figures, by user."""

    def __init__(self) -> None:
        self._apart: Final = [Scatter(deviation) for deviation in _APART]
        self._by_name: Final = [Scatter(deviation) for deviation in _APART_BY_NAME]
        self._words: Final[dict[tuple[str, str], LikeJobs]] = {}

    def learn(self, job: Job, briefs: Sequence[Brief], logarithm: float) -> None:
        """A job has ended, of which that was known before it began. It tells how far those are off of
        which no more was known: a hundred jobs of one command say nothing about other commands."""
        for fineness, brief in _by_fineness(briefs):
            if brief.number:
                off = logarithm - _said_by(brief, job, fineness)
                few = min(brief.number, _MOST_RUNS)
                self._of(job)[fineness].learn(off * off * few / (few + 1.0))
                break
        for key, said, _ in _words(job):
            self._words.setdefault(key, LikeJobs()).adds(logarithm - said)

    def _of(self, job: Job) -> Sequence[Scatter]:
        return self._apart if job.alike and job.member is None else self._by_name

    def apart(self, job: Job, fineness: int, brief: Brief) -> float:
        """The variance of jobs of an identity: its own, as far as there are jobs to tell."""
        few = min(brief.number, _MOST_RUNS)
        usual = self._of(job)[fineness].variance
        own = max(brief.variance, _LEAST_APART**2)
        return (_PRIOR * usual + (few - 1) * own) / (_PRIOR + few - 1)

    def word(self, key: tuple[str, str], said: float, usual: tuple[float, float]) -> Normal:
        """The meaning of a user's figure, judged by how that user's figures have turned out."""
        brief = self._words.get(key, _NOBODYS).brief
        few = min(brief.number, _MOST_RUNS)
        share = few / (few + _PRIOR)
        off = usual[0] + (share * (brief.middle - usual[0]) if few else 0.0)
        variance = (1 - share) * usual[1] ** 2 + share * max(brief.variance, _LEAST_APART)
        return Normal(said + off, variance)


class Normal(NamedTuple):
    middle: float
    variance: float


_NOBODYS: Final = LikeJobs()


def offset(job: Job, fineness: int) -> float:
    """Runs with another number of epochs count by the time that each epoch took."""
    return log(job.amount) if job.amount and fineness in (AMOUNT, FLAGS) else 0.0


def weighed(job: Job, briefs: Sequence[Brief], scales: ScatterScales) -> Opinion | None:
    """`briefs`: of each of its identities, the finest first. None: nothing is known of it."""
    told = [(fineness, brief) for fineness, brief in _by_fineness(briefs) if brief.number]
    words = [scales.word(*word) for word in _words(job)]
    if job.estimate is not None or job.member is not None:  # how long others are says nothing of it
        told = [one for one in told if one[0] >= NAME]
    elif told and told[0][0] <= USER and told[-1][1].number < FEWEST:  # everyone's
        told = []
    if not told and not words:
        return None
    found = [_of_runs(job, told[::-1], scales)] if told else []
    middle, variance = _together([*found, *words])
    fineness, number = (told[0][0], told[0][1].number) if told else (NOBODY, 0)
    return Opinion(middle, sqrt(variance), fineness, number, bool(words))


def by_reports(whole: Opinion | None, total: float, part: float) -> Opinion:
    """Beside that, its own reports: so long in all, if it goes on as it did for that part of it."""
    far = _PROGRESS * (1.0 - part) / sqrt(part)
    own = Normal(log1p(total), max(far, 1e-3) ** 2)
    if whole is None:
        return Opinion(own.middle, sqrt(own.variance), NOBODY, 0, False)
    middle, variance = _together([own, Normal(whole.middle, whole.deviation**2)])
    return whole._replace(middle=middle, deviation=sqrt(variance))


def _by_fineness(briefs: Sequence[Brief]) -> list[tuple[int, Brief]]:
    return [(len(briefs) - 1 - place, brief) for place, brief in enumerate(briefs)]


def _said_by(brief: Brief, job: Job, fineness: int) -> float:
    return brief.middle + offset(job, fineness)


def _of_runs(job: Job, told: Sequence[tuple[int, Brief]], scales: ScatterScales) -> Normal:
    """From the coarsest to the finest: each corrects what is believed so far. What each epoch takes is
    known from where epochs are counted, whatever others took as a whole."""
    middle, unsure, around = 0.0, inf, 0.0
    for place, (fineness, brief) in enumerate(told):
        own_unit = offset(job, fineness)
        if not own_unit and place + 1 < len(told) and told[place + 1][1].number == brief.number:
            continue  # these are the same runs
        apart = scales.apart(job, fineness, brief)
        far = own_unit - brief.amount if own_unit else 0.0
        own = apart / min(brief.number, _MOST_RUNS) + (_FAR * far) ** 2
        before = unsure + max(around - apart, _LEAST_BETWEEN * apart)
        if before == inf or (own_unit and not offset(job, told[place - 1][0])):
            middle, unsure = _said_by(brief, job, fineness), own
        else:
            middle += before / (before + own) * (_said_by(brief, job, fineness) - middle)
            unsure = before * own / (before + own)
        around = apart
    return Normal(middle, unsure + around)


def _together(normals: Sequence[Normal]) -> Normal:
    """Several figures of the same: the surer, the more they count. One that lies far from a surer one
    counts for less still: it may be about something else."""
    first, *others = sorted(normals, key=lambda one: one.variance)
    middle, variance = first
    for other in others:
        away = other.variance + (other.middle - middle) ** 2
        middle += variance / (variance + away) * (other.middle - middle)
        variance = variance * away / (variance + away)
    return Normal(middle, variance)


def _words(job: Job) -> list[tuple[tuple[str, str], float, tuple[float, float]]]:
    """What its user has said of its length. A limit beside an estimate only bounds."""
    who = job.user or job.tenant
    if job.estimate is not None:
        return [((who, "estimate"), log1p(job.estimate.seconds), _ESTIMATE)]
    if job.time_limit_s is not None:
        return [((who, "limit"), log1p(job.time_limit_s), _LIMIT)]
    return []
