"""The knowledge at a job's submission: what similar jobs took, and what they are doing now.

A chronicle is told of submissions in their order, and of starts and ends at any time; a submission sees
those before it in time and nothing else. So it is the same whether it was kept while things happened
or is put together afterwards, from the tracks of a restarted daemon or from a recorded trace.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf, log1p, log2, nan, nextafter, sqrt
from typing import Final, NamedTuple, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.predict.evidence import Opinion
from dovetail.predict.group import past
from dovetail.predict.identity import Identity, identities
from dovetail.predict.lore import Lore

# What is compared with the level of history (a logarithm of seconds), and what is not.
LEVELS: Final = (
    "fast", "slow", "last", "named_fast", "user_fast", "user_slow", "all_fast", "oldest",
    "middle", "estimate", "limit", "latest", "latest_some", "user_latest", "user_latest_some",
)  # fmt: skip
OTHERS: Final = (
    "gpus", "spread", "since_end", "since_submission", "in_hour", "in_burst", "running",
    "open", "open_some", "user_open", "user_open_some",
)  # fmt: skip
NAMES: Final = LEVELS + OTHERS
MEANING: Final = {
    "fast": "the last few jobs like it",
    "slow": "the last hundred jobs like it",
    "last": "the last job like it that ended",
    "named_fast": "the last few of its name and user",
    "user_fast": "the last few of its user",
    "user_slow": "the last hundred of its user",
    "all_fast": "the last few jobs of everyone",
    "oldest": "how long the oldest job like it runs by now",
    "middle": "how long the jobs like it run by now",
    "estimate": "its user's estimate",
    "limit": "its time limit",
    "latest": "the last few like it to be submitted, as far as they have run",
    "latest_some": "the last twenty like it to be submitted, as far as they have run",
    "user_latest": "the last few that its user submitted, as far as they have run",
    "user_latest_some": "the last twenty that its user submitted, as far as they have run",
    "gpus": "its number of GPUs",
    "spread": "how much jobs like it differ",
    "since_end": "how long ago the last one ended",
    "since_submission": "how long ago the last one was submitted",
    "in_hour": "how many were submitted within the hour",
    "in_burst": "how many were submitted within five minutes",
    "running": "how many jobs like it run",
    "open": "how many of the last few like it still run",
    "open_some": "how many of the last twenty like it still run",
    "user_open": "how many of its user's last few still run",
    "user_open_some": "how many of its user's last twenty still run",
}


class KnownAtSubmission(NamedTuple):
    """The knowledge about a job at its submission. Logarithms are of seconds plus one."""

    levels: tuple[float, ...]  # in the order of LEVELS; not a number: unknown
    others: tuple[float, ...]  # in the order of OTHERS
    mean: float  # of the mean of those most like it, or what its user says; not a number: unknown
    opinion: Opinion | None  # from all the evidence there is

    @property
    def recent(self) -> float:
        """The duration by similar jobs, the newer counting more, and by the user's figure; or nan."""
        return nan if self.opinion is None else self.opinion.middle

    @property
    def guessed(self) -> bool:
        """Neither jobs nor its user say how long it takes."""
        return self.opinion is None

    @property
    def number(self) -> int:
        """The number of jobs that the answer rests on first of all."""
        return 0 if self.opinion is None else self.opinion.number


@final
class Chronicle:
    """The groups, as far as time has been told."""

    def __init__(self) -> None:
        self.lore: Final = Lore()
        self._due: Final[list[tuple[Seconds, int, JobId, Job, Seconds]]] = []  # not yet seen
        self._told = 0

    def starts(self, job: Job, at: Seconds) -> None:
        self._later(at, job, -inf)

    def leaves(self, job: Job, at: Seconds) -> None:
        """Without having finished: it runs no more, and teaches nothing."""
        self._later(at, job, nan)

    def finishes(self, job: Job, at: Seconds, seconds: Seconds) -> None:
        self._later(at, job, seconds)

    def _later(self, at: Seconds, job: Job, seconds: Seconds) -> None:
        self._told += 1
        heappush(self._due, (at, self._told, job.id, job, seconds))

    def submits(self, job: Job, at: Seconds) -> KnownAtSubmission:
        """The knowledge about the job from before that time; it is counted from now on."""
        known = self.of(job, at)
        command, named, users = _followed(job)
        for key in {command, named}:
            self.lore.group(key).submits(at)
        for key in {command, named, users}:
            self.lore.group(key).latest.comes(job.id)
        return known

    def now_of(self, job: Job, at: Seconds) -> KnownAtSubmission:
        """The knowledge about the job if it came right after that time; it is not counted."""
        return self.of(job, nextafter(at, inf))

    def of(self, job: Job, at: Seconds) -> KnownAtSubmission:
        while self._due and self._due[0][0] < at:
            self._see(*heappop(self._due))
        finest, *_, sized, named, users, everyone = [
            self.lore.at_hand(key) for key in (identities(job)[0], *identities(job)[-4:])
        ]
        like = finest if finest.number else sized  # a command that has not run yet goes by its name
        latest, opened = zip(*like.latest.of(at), *users.latest.of(at), strict=True)
        levels = (
            like.fast, like.slow, like.last, named.fast, users.fast, users.slow, everyone.fast,
            *like.ages(at), _estimate(job), nan if job.time_limit_s is None else log1p(job.time_limit_s),
            *latest,
        )  # fmt: skip
        others = (
            log2(max(job.gpus, 0.5)), sqrt(like.variance) if like.number > 1 else nan,
            past(at, like.ended_at), past(at, like.submitted_at), *like.lately(at),
            log1p(len(like.running)), *opened,
        )  # fmt: skip
        mean, answer = self.lore.mean(job), self.lore.of(job)
        return KnownAtSubmission(
            levels,
            others,
            nan if mean is None else log1p(mean),
            None if answer is None else answer.opinion,
        )

    def _see(self, at: Seconds, _: int, job_id: JobId, job: Job, seconds: Seconds) -> None:
        command, named, users = _followed(job)
        for key in {command, named}:
            running = self.lore.group(key).running
            if seconds == -inf:
                running.setdefault(job_id, at)
            else:
                running.pop(job_id, None)
        for key in {command, named, users}:
            self.lore.group(key).latest.sees(job_id, at, seconds)
        if seconds >= 0:
            self.lore.learn(job, at, seconds)


def _followed(job: Job) -> tuple[Identity, Identity, Identity]:
    """Whose latest submissions are watched: of its command, of its name and size, of its user."""
    keys = identities(job)
    return keys[0], keys[-4], keys[-2]


def _estimate(job: Job) -> float:
    return nan if job.estimate is None else log1p(job.estimate.seconds)
