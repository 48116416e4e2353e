"""The policies that are worth trying on a trace, and the predictors they may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.analysis.question import Question
from dovetail.policies import registry
from dovetail.predict.boosting import missing
from dovetail.predict.learner import HISTORY_MEAN, MIXTURE, RECENT_MEAN

BASELINE = "fifo"
USUAL, REFERENCE = "usual", "reference"
SLOW = ("las", "multilevel-feedback", "gittins")  # to simulate, where there are many jobs
MANY = 10_000
NEED_NOTHING = ("fifo-skip", "las", "tiresias", "multilevel-feedback", "gittins")
NEED_DURATIONS = ("easy", "sjf-skip", "qssf", "psjf", "srtf", "srsf")
NEED_IN_HASTE = ("qssf", "srtf", "srsf")
ELASTIC = ("optimus", "afs", "flex")
MANY_ELASTIC = (
    5000  # jobs; with more these take hours, since they look at all running jobs each minute
)
COMPARED = "qssf"  # with every predictor, to see what better predictions are worth


@dataclass(frozen=True, slots=True)
class Contender:
    policy: str
    kind: str  # USUAL or REFERENCE
    told: str


def entries(question: Question) -> tuple[list[Contender], str]:
    """All policies to simulate, and the predictor that stands for what can be known."""
    predictor = usual_predictor(question)
    found: dict[str, Contender] = {}
    for text in _usual(question, predictor):
        found.setdefault(text, _entry(text, predictor))
    return list(found.values()), predictor


def usual_predictor(question: Question) -> str:
    """The best predictor that does not know the truth; in haste, one that learns quickly."""
    return RECENT_MEAN if _in_haste(question) or missing() else MIXTURE


def _in_haste(question: Question) -> bool:
    return question.quick and len(question.arrivals) > MANY


def _usual(question: Question, predictor: str) -> Iterator[str]:
    yield BASELINE
    hasty = _in_haste(question)
    yield from (name for name in NEED_NOTHING if not (hasty and name in SLOW))
    needy = NEED_IN_HASTE if hasty else NEED_DURATIONS
    yield from (f"{name}:predictor={predictor}" for name in needy)
    told = (predictor, HISTORY_MEAN, RECENT_MEAN, "oracle")
    yield from (f"{COMPARED}:predictor={other}" for other in told)
    yield "srtf:predictor=oracle"
    yield from _for_what_there_is(question, predictor)
    yield from (_told(text, predictor) for text in question.policies)


def _for_what_there_is(question: Question, predictor: str) -> Iterator[str]:
    """Policies that make sense only if jobs have the property they order by."""
    jobs = [arrival.job for arrival in question.arrivals]
    if any(job.user or job.tenant for job in jobs):
        yield "fair-share"
    if any(job.estimate for job in jobs):
        yield "easy:predictor=user-estimate"
    if any(job.priority for job in jobs):
        yield "priority"
    if any(job.deadline is not None for job in jobs):
        yield from ("edf", f"least-laxity:predictor={predictor}")
    if any(job.cpus for job in jobs):
        yield "drf"
    if any(job.elastic for job in jobs) and len(jobs) <= MANY_ELASTIC:
        yield "afs:lengths=false"
        yield from (registry.with_predictor(name, predictor) for name in ELASTIC)


def not_tried(question: Question) -> list[str]:
    """Who would belong to them, and why they are not among them."""
    number = sum(arrival.job.elastic for arrival in question.arrivals)
    if not number or len(question.arrivals) <= MANY_ELASTIC:
        return []
    names = ", ".join(ELASTIC)
    return [
        f"Elastic policies ({names}): {number:,} jobs are elastic, and with more than {MANY_ELASTIC:,} "
        "jobs these policies take hours; name them with --policies to wait for them."
    ]


def _told(text: str, predictor: str) -> str:
    """A policy that needs durations and names no predictor gets the usual one."""
    return registry.with_predictor(text, predictor) if "" in registry.sources(text, "") else text


def _entry(text: str, predictor: str) -> Contender:
    told = ", ".join(registry.sources(text, predictor))
    return Contender(text, REFERENCE if "oracle" in told else USUAL, told)
