"""How long a job will take, how sure that is, and because of what: to be read by people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1

from dovetail.core.model import Job, Seconds
from dovetail.predict.calibration import ENOUGH
from dovetail.predict.chronicle import MEANING, KnownAtSubmission
from dovetail.predict.intervals import Belief, at_most, rests_on
from dovetail.predict.learner import LEVEL, Fit, Learner
from dovetail.predict.memory import JobMemory, Story, past_of
from dovetail.predict.registry import PREDICTORS, source_of

_SLIGHT = 0.05  # factors nearer to one are not worth a word
_REASONS = 3  # at most
_NOTHING = "no job like it has finished yet, and nobody has said how long it takes"


@dataclass(frozen=True)
class Explained:
    """An answer, and what it rests on. None: nothing is known of such a job."""

    predictor: str
    seconds: Seconds | None
    low: Seconds | None
    high: Seconds | None
    level: float
    because: tuple[str, ...]
    stopped: bool = False  # its time limit ends it before it is done, as good as surely


def asked_of(text: str, stories: Sequence[Story], job: Job, now: Seconds) -> Explained:
    """The answer of any predictor, which tells no interval; it sees the jobs as a policy would."""
    predictor = PREDICTORS.make(text, {"seed": int})
    seconds = predictor.duration_s(job, past_of(stories, now))
    limit, because = job.time_limit_s, (source_of(PREDICTORS, text),)
    if limit is not None and seconds > limit:
        return Explained(text, limit, None, None, 0.0, because, stopped=True)
    return Explained(text, seconds, None, None, 0.0, because)


def explained(
    way: str, memory: JobMemory, job: Job, now: Seconds, span: Callable[[Seconds], str]
) -> Explained:
    """For a job that is submitted now; `span` writes durations."""
    known, fit = memory.chronicle.now_of(job, now), Learner(way, memory).afresh()
    if known.guessed:
        return Explained(way, None, None, None, LEVEL, (_NOTHING,))
    belief, because = belief_of(job, known, fit), _because(job, known, fit, span)
    limit = job.time_limit_s
    if limit is None or belief.high <= limit:
        return Explained(way, belief.seconds, belief.low, belief.high, LEVEL, tuple(because))
    if belief.low >= limit:
        needed = f"it would need about {span(belief.seconds)}"
        return Explained(way, limit, limit, limit, LEVEL, (because[0], needed), stopped=True)
    belief = at_most(belief, limit)
    because.append(f"its time limit of {span(limit)}, at which it is stopped")
    return Explained(way, belief.seconds, belief.low, belief.high, LEVEL, tuple(because))


def belief_of(job: Job, known: KnownAtSubmission, fit: Fit) -> Belief:
    """How long it takes in all if nothing stops it."""
    low, middle, high = (max(expm1(log), 0.0) for log in fit.interval(known))
    rests = _rests(job, known)
    source = f"{rests}, and trees fitted to {fit.lessons:,} jobs" if fit.lessons else rests
    return Belief(middle, low, high, source)


def _rests(job: Job, known: KnownAtSubmission) -> str:
    if known.opinion is not None:
        return rests_on(job, known.opinion)
    return "a guess: no job like it has finished yet"


def _because(
    job: Job, known: KnownAtSubmission, fit: Fit, span: Callable[[Seconds], str]
) -> list[str]:
    lines = [_rests(job, known)]
    if known.number:
        lately, mean = span(expm1(known.recent)), span(expm1(known.mean))
        lines[0] += f": lately about {lately}, {mean} on average"
    told = [(MEANING[name], exp(far)) for name, far in fit.reasons(known) if abs(far) > _SLIGHT]
    if fit.lessons:
        lines.append(f"trees fitted to {fit.lessons:,} jobs{':' if told else ' change nothing'}")
    lines += [f"  {factor:.2g} times as long for {what}" for what, factor in told[:_REASONS]]
    judged = fit.judged(known)
    if judged >= ENOUGH and not known.guessed:
        lines.append(f"the interval: as wide as {judged:,} jobs that ended lately needed")
    else:
        few = f"only {judged}" if judged and not known.guessed else "no"
        answers = "answer" if few == "no" or judged == 1 else "answers"
        lines.append(f"the interval: wide, since {few} {answers} of this kind could be checked yet")
    return lines
