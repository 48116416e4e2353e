"""Beliefs about how long a job runs in all, at speed 1 and undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, RECALLS, View
from dovetail.predict.lore import Lore


class Predictor(Protocol):
    """A frozen dataclass; its fields are its parameters. It may have a static method `source()`: on
    what it rests, in words that follow "by". One that learns at some cost has `belief` and `knows`
    besides (see `predict.learned`): it is then asked once for all that looks ahead."""

    def duration_s(self, job: Job, view: View) -> Seconds: ...


@final
@dataclass(frozen=True, eq=False)
class Oracle:
    """Knows every duration. Other simulators assume that silently; here it is a predictor with a
    name."""

    durations: Mapping[JobId, Seconds]

    @staticmethod
    def source() -> str:
        return "the truth"

    def duration_s(self, job: Job, view: View) -> Seconds:
        return self.durations[job.id]


# How far Helios' predictions were off on Philly: that part of the jobs within that factor.
_HELIOS = ((0.1, 1.0, 1.1), (0.5, 1.1, 1.5), (0.7, 1.5, 2.0), (0.9, 2.0, 10.0), (1.0, 10.0, 100.0))


@final
@dataclass(frozen=True, eq=False)
class NoisyOracle:
    """The truth times an error drawn from the distribution of Helios' artifact: a tenth of the jobs
    within 10 %, half within 50 %, 70 % within a factor of 2, 90 % within 10, the rest within 100."""

    durations: Mapping[JobId, Seconds]
    seed: int = 0

    @staticmethod
    def source() -> str:
        return "the truth with errors"

    def duration_s(self, job: Job, view: View) -> Seconds:
        # Seeded by the job, so that the error does not depend on who is asked for first.
        chance = Random(f"{self.seed}/{job.id}")
        part = chance.random()
        _, low, high = next(row for row in _HELIOS if part <= row[0])
        factor: float = low * (high / low) ** chance.random()
        duration = self.durations[job.id]
        return duration * factor if chance.random() < 0.5 else duration / factor


@final
class _History:
    """The durations of the jobs that finished."""

    def __init__(self) -> None:
        self.watches = ENDS | RECALLS
        self.lore: Final = Lore()

    def recall(self, track: Track) -> None:
        self.ends(track)

    def ends(self, track: Track) -> None:
        if track.phase is Phase.FINISHED:
            self.lore.learn(track.job, track.ended_at, track.executed_s)


@final
@dataclass(frozen=True, eq=False)
class HistoryMean:
    """The mean of what finished before: the same command, else the same with other numbers of epochs
    or other values; where no command is known the same user, name and size, else user and name; else
    the user's own estimate; else what is coarser, up to everyone's jobs, else `guess_s`. Trials go by
    their study instead of their name; other work says nothing about how long they are."""

    guess_s: Seconds = 3600.0

    @staticmethod
    def source() -> str:
        return "what similar jobs took before"

    def build(self, view: View) -> _History:
        return _History()

    def duration_s(self, job: Job, view: View) -> Seconds:
        history = view.index(self)
        assert isinstance(history, _History)
        mean = history.lore.mean(job)
        return self.guess_s if mean is None else mean


@final
@dataclass(frozen=True, eq=False)
class UserEstimate:
    """The user's own estimate, else `guess_s`."""

    guess_s: Seconds = 3600.0

    @staticmethod
    def source() -> str:
        return "what users said"

    def duration_s(self, job: Job, view: View) -> Seconds:
        return job.estimate.seconds if job.estimate is not None else self.guess_s
