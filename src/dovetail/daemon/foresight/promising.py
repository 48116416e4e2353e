"""What would have a deadline promised: changes are tried on a copy, and the policy itself judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from time import thread_time
from typing import Final, final

from dovetail.api.forecast_row import Change
from dovetail.api.job_row import DeadlineTold
from dovetail.core import still as stills
from dovetail.core.entries import Note, Refuse, Submitted, Wake, Woke
from dovetail.core.model import Job, JobId, Seconds
from dovetail.daemon.active_policy import said
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.copy import Asked, Likeness
from dovetail.policies.precedence import DeadlineWord
from dovetail.text.times import clock_near

_MOST_SECONDS = 0.4  # of processor time
_MOST_ROUNDS = 3  # a policy may judge later only, and say when
_MOST_TIMES = 14  # that the time left is doubled
_CLOSE = 0.02  # so near to the earliest deadline that is promised
_MINUTE = 60.0


def with_what_would_do(service: Asked, told: DeadlineTold) -> DeadlineTold:
    """The same; of a deadline that is not promised also what would be, and of one that nobody has
    judged what is to be expected."""
    if told.promised:
        return told
    likeness = likenesses.take(service, JobId(told.id))
    state = likeness.state()
    tracks = {track.job.id: track for track in (*state.past, *state.tracks.values())}
    track = tracks.get(JobId(told.id))
    if track is None:
        return told
    trial = PromiseTrial(likeness, track.job, service.clock.epoch)
    return trial.completed(told)


@final
class PromiseTrial:
    """Submits the job anew to copies in which it is not, with something changed about it."""

    def __init__(self, likeness: Likeness, job: Job, epoch: float) -> None:
        state = likeness.state()
        others = [track for track in state.tracks.values() if track.job.id != job.id]
        past = [track for track in state.past if track.job.id != job.id]
        still = replace(stills.take(state, likeness.now, others), past=tuple(past))
        self._likeness: Final = replace(likeness, still=still)
        self._job: Final = job
        self._epoch: Final = epoch
        self._until: Final = thread_time() + _MOST_SECONDS

    def completed(self, told: DeadlineTold) -> DeadlineTold:
        if told.promised is None:
            word = self.word(self._job)
            if word is None or word.promised is None:
                return told
            told = replace(told, foreseen=word.promised, why=word.why)
        return told if told.foreseen else replace(told, would_do=list(self.found()))

    def found(self) -> Iterator[Change]:
        yield from self._later()
        yield from self._wider()

    def is_promised(self, job: Job) -> bool:
        word = self.word(job)
        return word is not None and bool(word.promised)

    def word(self, job: Job) -> DeadlineWord | None:
        """What the policy would say to its deadline, if it were submitted now."""
        state = self._likeness.state()
        state.record(Submitted(state.now, job))
        if job.id in state.unplaceable:
            return None
        policy = self._likeness.policy_on(state)
        for _ in range(_MOST_ROUNDS):
            actions = list(policy.decide(state))
            for action in actions:
                if isinstance(action, Note):
                    state.record(action)
                elif isinstance(action, Refuse) and action.job_id == job.id:
                    return DeadlineWord(False, why=action.reason)
            word: DeadlineWord | None = said(policy, "deadline_word", state, state.tracks[job.id])
            wakes = [action.at for action in actions if isinstance(action, Wake)]
            if word is None or word.promised is not None or not wakes:
                return word
            state.record(Woke(max(min(wakes), state.now)))
        return None

    def _later(self) -> Iterator[Change]:
        """The earliest deadline that is promised, in whole minutes and nearly."""
        now, due = self._likeness.now, self._job.deadline
        assert due is not None
        short = max(due - now, _MINUTE / 2)
        enough = next((n for n in self._doubled(short) if self._is_kept(n)), None)
        if enough is None:
            return
        short = max(enough / 2, short)
        while enough - short > max(_CLOSE * enough, _MINUTE) and thread_time() < self._until:
            middle = (short + enough) / 2
            short, enough = (short, middle) if self._is_kept(middle) else (middle, enough)
        at = self._minute(enough) + self._epoch
        yield Change(f"a deadline of {clock_near(at, now + self._epoch)}", "deadline", at)

    def _doubled(self, short: Seconds) -> Iterator[Seconds]:
        for times in range(1, _MOST_TIMES + 1):
            if thread_time() > self._until:
                return
            yield short * 2**times

    def _is_kept(self, after_s: Seconds) -> bool:
        return self.is_promised(replace(self._job, deadline=self._minute(after_s)))

    def _minute(self, after_s: Seconds) -> Seconds:
        """The next whole minute of the clock, as the journal counts."""
        at = self._likeness.now + after_s + self._epoch
        return ceil(at / _MINUTE) * _MINUTE - self._epoch

    def _wider(self) -> Iterator[Change]:
        """Of an elastic job: the least `max` that would do."""
        job, most = self._job, self._job.most_gpus
        there = sum(node.gpus for node in self._likeness.still.cluster.nodes)
        while job.elastic and most < there and thread_time() < self._until:
            most = min(2 * most, there)
            if self.is_promised(replace(job, max_gpus=most)):
                value = {"min": job.min_gpus, "max": most}
                yield Change(f"elastic up to {most} GPUs", "elastic", value)
                return
