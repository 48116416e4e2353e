"""Policies that are a key for the list scheduler. Each is named by what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, log10
from typing import Any

from dovetail.core.entries import Action, Preempt, Promote, Start, Wake
from dovetail.core.model import Seconds
from dovetail.core.plan import Place
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.policies.keys import (
    ByDeadline,
    ByDuration,
    ByLaxity,
    ByPriority,
    ByRemaining,
    ByService,
    BySubmission,
    GittinsIndex,
    Quanta,
    Queues,
    late_demotion,
)
from dovetail.policies.listed import Listed
from dovetail.policies.listing import LineScheduler, ListScheduler
from dovetail.policies.precedence import EARLIER
from dovetail.policies.queues_in_rounds import SIXTEEN_GPU_HOURS, walk
from dovetail.policies.starving import Starving
from dovetail.predict.duration import Predictor

_MOST_QUEUES = 64
_USUAL_LIMITS = (3250.0, 7200.0)  # GPU-seconds, those of the Tiresias paper
_LONGEST_LOG10 = 300.0  # of seconds


@dataclass(frozen=True, kw_only=True)
class Fifo(Listed):
    """First come, first served; a head that does not fit blocks everyone behind it."""

    better = EARLIER
    level = EARLIER

    @cached_property
    def scheduler(self) -> LineScheduler:
        return LineScheduler(BySubmission(), self.place)


@dataclass(frozen=True, kw_only=True)
class FifoSkip(Listed):
    """First come, first served; jobs that do not fit are skipped (and may starve)."""

    better = EARLIER
    level = EARLIER

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(BySubmission(), self.place)


@dataclass(frozen=True, kw_only=True)
class _ByDuration(Listed):
    """How the three policies explain themselves that go by the whole duration."""

    better = "expected to be shorter"
    level = "as short that came earlier"
    in_seconds = True
    predictor: Predictor


@dataclass(frozen=True, kw_only=True)
class Sjf(_ByDuration):
    """Shortest job first, never preempted; a head that does not fit blocks."""

    @cached_property
    def scheduler(self) -> LineScheduler:
        return LineScheduler(ByDuration(self.predictor), self.place)


@dataclass(frozen=True, kw_only=True)
class SjfSkip(_ByDuration):
    """Shortest job first, never preempted; jobs that do not fit are skipped."""

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(ByDuration(self.predictor), self.place)


@dataclass(frozen=True, kw_only=True)
class Psjf(_ByDuration):
    """Preemptive shortest job first: by the whole duration, whatever has been done of it."""

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(ByDuration(self.predictor), self.place, preemptive=True)


@dataclass(frozen=True, kw_only=True)
class Srtf(Listed):
    """Shortest remaining time first, preemptive. `gain_s`: preempt only for at least that much."""

    better = "with less time left"
    level = "with as little time left that came earlier"
    in_seconds = True
    predictor: Predictor
    gain_s: Seconds = 0.0

    def __post_init__(self) -> None:
        _must_not_be_negative(self, "gain_s")

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(
            ByRemaining(self.predictor), self.place, preemptive=True, gain=self.gain_s
        )


@dataclass(frozen=True, kw_only=True)
class Srsf(Listed):
    """Shortest remaining service (time times GPUs) first, preemptive."""

    better = "with fewer GPU-seconds left"
    level = "with as few GPU-seconds left that came earlier"
    predictor: Predictor
    gain_gpu_s: float = 0.0

    def __post_init__(self) -> None:
        _must_not_be_negative(self, "gain_gpu_s")

    @cached_property
    def scheduler(self) -> ListScheduler:
        key = ByRemaining(self.predictor, by_gpus=True)
        return ListScheduler(key, self.place, preemptive=True, gain=self.gain_gpu_s)


@dataclass(frozen=True, kw_only=True)
class Qssf(Listed):
    """Helios' quasi-shortest-service-first: predicted GPU-time, never preempted, the head blocks."""

    better = "expected to need fewer GPU-seconds"
    level = "that need as few and came earlier"
    predictor: Predictor

    @cached_property
    def scheduler(self) -> LineScheduler:
        return LineScheduler(ByDuration(self.predictor, by_gpus=True), self.place)


@dataclass(frozen=True, kw_only=True)
class Priority(Listed):
    """The highest priority first; `preempt=false` lets running jobs finish."""

    better = "with a higher priority"
    level = "with the same priority that came earlier"
    preempt: bool = True

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(ByPriority(), self.place, preemptive=self.preempt, running_first=True)


@dataclass(frozen=True, kw_only=True)
class Edf(Listed):
    """The earliest deadline first, preemptive; jobs without a deadline come last."""

    better = "with an earlier deadline"
    level = "with no earlier a deadline that came earlier"
    preempt: bool = True

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(ByDeadline(), self.place, preemptive=self.preempt, running_first=True)


@dataclass(frozen=True, kw_only=True)
class LeastLaxity(Listed):
    """The least slack before its deadline first. `quantum_s`: who preempts has that much less of it."""

    better = "with less slack before their deadline"
    level = "with as little slack"
    predictor: Predictor
    quantum_s: Seconds = 30.0

    def __post_init__(self) -> None:
        _must_be_positive(self, "quantum_s")

    @cached_property
    def scheduler(self) -> ListScheduler:
        return ListScheduler(
            ByLaxity(self.predictor),
            self.place,
            preemptive=True,
            gain=self.quantum_s,
            running_first=True,
        )


@dataclass(frozen=True, kw_only=True)
class Las(Listed):
    """Least attained service (GPU-seconds) first, exact up to `quantum`. Needs no estimates."""

    better = "that have had fewer GPU-seconds"
    level = "that have had no more and came earlier"
    quantum: float = 1800.0

    def __post_init__(self) -> None:
        _must_be_positive(self, "quantum")

    @cached_property
    def scheduler(self) -> ListScheduler:
        return _in_steps(ByService(Quanta(self.quantum)), self.place)


@dataclass(frozen=True, kw_only=True)
class Tiresias(Listed):
    """Discretised 2D-LAS: jobs sink through queues as they use up GPU-seconds.

    `queues` alone takes as many of the usual limits as it needs, and doubles the last for more.
    `promote`: back to the first queue after waiting that many times its running time (0: never).
    `late`: look for demotions when the original simulator does, which is too late.
    `round_s`: decide only so often, walking all queues anew, by one limit of 16 GPU-hours unless others
    are given (Pollux' simulator).
    """

    better = "in a higher queue"
    level = "before it in the same queue"
    queues: int = 3
    limits: tuple[float, ...] = _USUAL_LIMITS
    promote: float = 0.0
    late: bool = False
    round_s: Seconds = 0.0
    _starving: Starving = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.queues <= _MOST_QUEUES:
            raise ValueError(f"queues={self.queues}: give 1 to {_MOST_QUEUES}")
        if self.round_s > 0 and self.limits is _USUAL_LIMITS and self.queues == 3:
            object.__setattr__(self, "limits", SIXTEEN_GPU_HOURS)
            object.__setattr__(self, "queues", 2)
        if self.limits is _USUAL_LIMITS:  # not given
            object.__setattr__(self, "limits", _usual_limits(self.queues))
        _check_limits(self.queues, self.limits)
        _must_not_be_negative(self, "promote")
        _must_not_be_negative(self, "round_s")
        object.__setattr__(self, "_starving", Starving(self.promote))

    @cached_property
    def scheduler(self) -> ListScheduler:
        return _in_steps(ByService(Queues(self.limits), queued=True), self.place)

    @cached_property
    def decide(self) -> Callable[[View], Sequence[Action]]:
        if self.round_s > 0:
            return partial(walk, place=self.place, limits=self.limits, round_s=self.round_s)
        return self._decide if self.promote > 0 or self.late else self.scheduler.decide

    def _decide(self, view: View) -> Sequence[Action]:
        if self.promote > 0:
            due, wake = self._starving.due(view)
            if due:
                # The order changes by it: promote now, decide again at the same instant.
                promoted = [Promote(track.job.id) for track in due]
                return [*self.scheduler.notes(view), *promoted, Wake(view.now)]
            return [*self.scheduler.decide(view), *wake]
        actions = self.scheduler.decide(view)
        at = late_demotion(_running_after(view, actions), self.limits, view.now)
        kept = [action for action in actions if not isinstance(action, Wake)]
        return [*kept, Wake(at)] if at < inf else kept


@dataclass(frozen=True, kw_only=True)
class Gittins(Listed):
    """2D-Gittins: the job most likely to finish soon for its cost, from the distribution of service.

    `horizon=0` takes the best horizon (the definition); Tiresias fixes it at 3250 GPU-seconds.
    """

    better = "more likely to finish soon"
    level = "as likely to finish soon that came earlier"
    services: tuple[float, ...]
    quantum: float = 3250.0
    horizon: float = 0.0

    def __post_init__(self) -> None:
        _must_be_positive(self, "quantum")
        _must_not_be_negative(self, "horizon")

    @cached_property
    def scheduler(self) -> ListScheduler:
        return _in_steps(
            ByService(GittinsIndex(self.services, self.quantum, self.horizon)), self.place
        )


@dataclass(frozen=True, kw_only=True)
class RoundRobin(Listed):
    """Time slices: every job runs for `quantum_s`, then the longest-waiting one has its turn."""

    better = "whose turn is before"
    level = "that have waited longer for their turn"
    quantum_s: Seconds = 600.0

    def __post_init__(self) -> None:
        _must_be_positive(self, "quantum_s")

    @cached_property
    def scheduler(self) -> ListScheduler:
        return in_turns(self.quantum_s, self.place)


@dataclass(frozen=True, kw_only=True)
class MultilevelFeedback(Listed):
    """Queues with ever longer slices: a job that uses up its slice sinks; round-robin at the bottom."""

    better = "in a higher queue"
    level = "that have waited longer for their turn"
    levels: int = 4
    quantum_s: Seconds = 600.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        _must_be_positive(self, "quantum_s")
        if not 1 <= self.levels <= _MOST_QUEUES:
            raise ValueError(f"levels={self.levels}: give 1 to {_MOST_QUEUES}")
        if not 1 <= self.factor < inf:
            raise ValueError(f"factor={self.factor:g}: give a number, 1 or more")
        if log10(self.quantum_s) + self.levels * log10(self.factor) > _LONGEST_LOG10:
            raise ValueError(
                f"levels={self.levels}:factor={self.factor:g} makes slices longer than can be "
                "counted; lower one of them"
            )

    @cached_property
    def scheduler(self) -> ListScheduler:
        slices = [self.quantum_s * self.factor**level for level in range(self.levels)]
        limits = [sum(slices[: level + 1]) for level in range(self.levels - 1)]
        key = ByService(Queues(limits), in_gpu_seconds=False, rotate_s=slices[-1], by_turn=True)
        return _in_steps(key, self.place)


def _running_after(view: View, actions: Sequence[Action]) -> list[Track]:
    running = dict(view.running)
    for action in actions:
        if isinstance(action, Preempt):
            del running[action.job_id]
        elif isinstance(action, Start):
            running[action.job_id] = view.tracks[action.job_id]
    return list(running.values())


def in_turns(quantum_s: Seconds, place: Place, *, pairs: bool = False) -> ListScheduler:
    """Time slices; `pairs`: some jobs may share GPUs that they asked for alone."""
    key = ByService(Queues(()), rotate_s=quantum_s, by_turn=True)
    return ListScheduler(key, place, preemptive=True, running_first=True, pairs=pairs)


def _in_steps(key: ByService, place: Place) -> ListScheduler:
    """Keys in steps: running jobs stay at equal rank, and we look again when a rank changes."""
    return ListScheduler(key, place, preemptive=True, running_first=True)


def _usual_limits(queues: int) -> tuple[float, ...]:
    limits = list(_USUAL_LIMITS[: queues - 1])
    while len(limits) < queues - 1:
        limits.append(2 * limits[-1])
    return tuple(limits)


def _check_limits(queues: int, limits: tuple[float, ...]) -> None:
    rising = sorted({limit for limit in limits if 0 < limit < inf}) == list(limits)
    if len(limits) == queues - 1 and rising:
        return
    need = {1: "1 queue needs no limits", 2: "2 queues need 1 positive limit"}.get(
        queues, f"{queues} queues need {queues - 1} positive, rising limits"
    )
    example = "/".join(f"{limit:g}" for limit in _usual_limits(queues))
    raise ValueError(
        f"{need}{f', such as limits={example}' if example else ''}; "
        f"got {'/'.join(f'{limit:g}' for limit in limits) or 'none'}"
    )


def _must_be_positive(policy: Any, name: str) -> None:
    value = getattr(policy, name)
    if not 0 < value < inf:
        raise ValueError(f"{name}={value:g}: give a positive number")


def _must_not_be_negative(policy: Any, name: str) -> None:
    value = getattr(policy, name)
    if not 0 <= value < inf:
        raise ValueError(f"{name}={value:g}: give 0 or a positive number")
