"""Beliefs about how long a job runs in all, at speed 1 and undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, Protocol, final

from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, RECALLS, View
from dovetail.predict.identity import identities


class Predictor(Protocol):
    def duration_s(self, job: Job, view: View) -> Seconds: ...


@final
class Oracle:
    """Knows every duration. What other simulators assume silently stands here at the call site."""

    def __init__(self, durations: Mapping[JobId, Seconds]) -> None:
        self._durations: Final = durations

    def duration_s(self, job: Job, view: View) -> Seconds:
        return self._durations[job.id]


# How far Helios' predictions were off on Philly: that part of the jobs within that factor.
_HELIOS = ((0.1, 1.0, 1.1), (0.5, 1.1, 1.5), (0.7, 1.5, 2.0), (0.9, 2.0, 10.0), (1.0, 10.0, 100.0))


@final
class NoisyOracle:
    """The truth times an error drawn from the distribution of Helios' artifact: a tenth of the jobs
    within 10 %, half within 50 %, 70 % within a factor of 2, 90 % within 10, the rest within 100."""

    def __init__(self, durations: Mapping[JobId, Seconds], seed: int = 0) -> None:
        self._durations: Final = durations
        self._seed: Final = seed

    def duration_s(self, job: Job, view: View) -> Seconds:
        # Seeded by the job, so that the error does not depend on who is asked for first.
        chance = Random(f"{self._seed}/{job.id}")
        part = chance.random()
        _, low, high = next(row for row in _HELIOS if part <= row[0])
        factor: float = low * (high / low) ** chance.random()
        duration = self._durations[job.id]
        return duration * factor if chance.random() < 0.5 else duration / factor


@final
class _History:
    """Mean duration of finished jobs, by ever coarser identity."""

    def __init__(self) -> None:
        self.watches = ENDS | RECALLS
        self._sums: dict[tuple[object, ...], tuple[int, float]] = {}

    def waits(self, track: Track) -> None:
        """Nothing to learn yet."""

    def runs(self, track: Track) -> None:
        """Nothing to learn yet."""

    def settle(self) -> None:
        """Nothing is ever tried out."""

    def recall(self, track: Track) -> None:
        self.ends(track)

    def ends(self, track: Track) -> None:
        if track.phase is not Phase.FINISHED:
            return
        for key in identities(track.job):
            number, total = self._sums.get(key, (0, 0.0))
            self._sums[key] = (number + 1, total + track.executed_s)

    def mean(self, job: Job, of_its_name: bool) -> Seconds | None:
        """Of jobs of the same name, or of any by the same user or by anyone."""
        keys = identities(job)
        for key in keys[:2] if of_its_name else keys[2:]:
            number, total = self._sums.get(key, (0, 0.0))
            if number:
                return total / number
        return None


@final
class HistoryMean:
    """The mean of what finished before: same user, name and size, else same user and name; else the
    user's own estimate; else the mean of all that user's jobs, else of everyone's, else `guess_s`.
    Trials go by their study instead of their name; other work says nothing about how long they are."""

    def __init__(self, guess_s: Seconds = 3600.0) -> None:
        self._guess_s: Final = guess_s

    def build(self, view: View) -> _History:
        return _History()

    def duration_s(self, job: Job, view: View) -> Seconds:
        history = view.index(self)
        assert isinstance(history, _History)
        mean = history.mean(job, of_its_name=True)
        if mean is None and job.estimate is not None:
            return job.estimate.seconds
        if mean is None and job.trial is None:
            mean = history.mean(job, of_its_name=False)
        return self._guess_s if mean is None else mean


@final
class UserEstimate:
    """What the user said, else `guess_s`."""

    def __init__(self, guess_s: Seconds = 3600.0) -> None:
        self._guess_s: Final = guess_s

    def duration_s(self, job: Job, view: View) -> Seconds:
        return job.estimate.seconds if job.estimate is not None else self._guess_s
