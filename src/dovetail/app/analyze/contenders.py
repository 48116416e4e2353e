"""Which policies are worth trying on a trace, and what they may be told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from dovetail.app.analyze.question import Question
from dovetail.app.experiment import PREDICTORS
from dovetail.policies import registry

BASELINE = "fifo"
USUAL, REFERENCE = "usual", "reference"
SLOW = ("las", "multilevel-feedback", "gittins")  # to simulate, where there are many jobs
MANY = 10_000
NEED_NOTHING = ("fifo-skip", "las", "tiresias", "multilevel-feedback", "gittins")
NEED_DURATIONS = ("easy", "sjf-skip", "qssf", "psjf", "srtf", "srsf")
WITH_ORACLE = ("qssf", "srtf")
BEST_PREDICTORS = ("mixture", "boosted", "history-mean")


@dataclass(frozen=True, slots=True)
class Entry:
    policy: str
    kind: str  # USUAL or REFERENCE
    told: str


def entries(question: Question) -> tuple[list[Entry], str]:
    """Everyone to be simulated, and the predictor that stands for what can be known."""
    predictor = usual_predictor()
    found: dict[str, Entry] = {}
    for text in _usual(question, predictor):
        found.setdefault(text, _entry(text, predictor))
    return list(found.values()), predictor


def usual_predictor() -> str:
    """The best there is that does not know the truth."""
    learns = find_spec("sklearn") is not None
    known = [name for name in BEST_PREDICTORS if name in PREDICTORS]
    return next(name for name in known if learns or name == "history-mean")


def _usual(question: Question, predictor: str) -> Iterator[str]:
    yield BASELINE
    hasty = question.quick and len(question.arrivals) > MANY
    yield from (name for name in NEED_NOTHING if not (hasty and name in SLOW))
    yield from (f"{name}:predictor={predictor}" for name in NEED_DURATIONS)
    yield from (f"{name}:predictor=oracle" for name in WITH_ORACLE)
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
    yield from (_told(text, predictor) for text in question.policies)


def _told(text: str, predictor: str) -> str:
    """A policy that needs durations and does not say from whom gets what can be known."""
    if "" in registry.sources(text, ""):
        return f"{text}:predictor={predictor}"
    return text


def _entry(text: str, predictor: str) -> Entry:
    told = ", ".join(registry.sources(text, predictor))
    return Entry(text, REFERENCE if "oracle" in told else USUAL, told)
