"""Policies by name, made from text such as `tiresias:queues=3:limits=3250/7200`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dovetail.catalogue import Catalogue, settable
from dovetail.core.errors import BadInput
from dovetail.core.loop import Policy
from dovetail.core.plan import Place
from dovetail.models.cost import Costs
from dovetail.policies.placement import PLACEMENTS
from dovetail.predict.duration import Predictor
from dovetail.predict.learned import Learned
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

_QUEUEING = "dovetail.policies.queueing"
_ANDREAS = "dovetail.policies.andreas.policies"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "fifo": (_QUEUEING, "Fifo"),
    "fifo-skip": (_QUEUEING, "FifoSkip"),
    "easy": ("dovetail.policies.backfill.policies", "Easy"),
    "conservative": ("dovetail.policies.backfill.policies", "Conservative"),
    "sjf": (_QUEUEING, "Sjf"),
    "sjf-skip": (_QUEUEING, "SjfSkip"),
    "psjf": (_QUEUEING, "Psjf"),
    "srtf": (_QUEUEING, "Srtf"),
    "srsf": (_QUEUEING, "Srsf"),
    "las": (_QUEUEING, "Las"),
    "tiresias": (_QUEUEING, "Tiresias"),
    "gittins": (_QUEUEING, "Gittins"),
    "round-robin": (_QUEUEING, "RoundRobin"),
    "multilevel-feedback": (_QUEUEING, "MultilevelFeedback"),
    "priority": (_QUEUEING, "Priority"),
    "edf": (_QUEUEING, "Edf"),
    "least-laxity": (_QUEUEING, "LeastLaxity"),
    "fair-share": ("dovetail.policies.fairness", "FairShare"),
    "drf": ("dovetail.policies.fairness", "Drf"),
    "qssf": (_QUEUEING, "Qssf"),
    "gandiva": ("dovetail.policies.packing.policies", "Gandiva"),
    "andreas-fifo": ("dovetail.policies.andreas.baselines", "AndreasFifo"),
    "andreas-edf": ("dovetail.policies.andreas.baselines", "AndreasEdf"),
    "andreas-priority": ("dovetail.policies.andreas.baselines", "AndreasPriority"),
    "andreas-greedy": (_ANDREAS, "AndreasGreedy"),
    "andreas-random-greedy": (_ANDREAS, "AndreasRandomGreedy"),
    "andreas-local-search": (_ANDREAS, "AndreasLocalSearch"),
    "andreas-path-relinking": (_ANDREAS, "AndreasPathRelinking"),
    "frugal": ("dovetail.policies.frugal.policy", "Frugal"),
    "model-similarity": ("dovetail.policies.mixed.similar", "ModelSimilarity"),
}
_GIVEN = ("services", "costs")  # fields that are filled in, never written in a policy's text
_ASKED = ("predictor", "speeds")  # filled in, unless the text names another by its name
CATALOGUE = Catalogue(
    "policy", "dovetail policies", "dovetail.policies", BUILTIN, "decide", unlisted=_GIVEN
)
names = CATALOGUE.names
find = CATALOGUE.find
manual = CATALOGUE.manual


@dataclass(frozen=True)
class Knowledge:
    """What a policy may be given beyond the view, by the name of the field that asks for it."""

    predictors: Mapping[str, Predictor]
    predictor: str  # the one to use unless the policy's text names another
    services: tuple[float, ...] = ()  # the distribution of service, in GPU-seconds
    costs: Costs = Costs()  # what energy and lateness are believed to cost
    speeds: Mapping[str, SpeedPredictor] = field(default_factory=lambda: {"none": SameEverywhere()})
    speed: str = "none"  # the one of them to use unless the policy's text names another

    def predictor_named(self, name: str) -> Predictor:
        predictor: Predictor = _choose("predictor", self.predictors, name)
        if isinstance(predictor, Learned):
            predictor.require()
        return predictor


def make(text: str, place: Place, knowledge: Knowledge) -> Policy:
    """The policy that the text describes: its name, then `field=value` parts joined by colons."""
    readers: dict[str, Callable[[str], Any]] = {
        "place": partial(_choose, "placement", PLACEMENTS),
        "predictor": knowledge.predictor_named,
        "speeds": partial(_choose, "speeds", knowledge.speeds),
    }
    values = CATALOGUE.values(text, readers)
    for key in settable(find(text.partition(":")[0])):
        if key not in values:
            _provide(values, key, place, knowledge)
    policy: Policy = CATALOGUE.build(text, values)
    return policy


def sources(text: str, predictor: str) -> list[str]:
    """What a policy learns of jobs before they end: the name of its predictor, or `services`."""
    known = settable(find(text.partition(":")[0]))
    given = CATALOGUE.given(text, known)
    found = [given.get("predictor", predictor)] if "predictor" in known else []
    if "services" in known and "services" not in given:
        found.append("services")
    return found


def speeds_of(text: str, usual: str) -> str | None:
    """What the policy is told of speeds; None: it does not ask."""
    known = settable(find(text.partition(":")[0]))
    return CATALOGUE.given(text, known).get("speeds", usual) if "speeds" in known else None


def _provide(values: dict[str, Any], key: str, place: Place, knowledge: Knowledge) -> None:
    if key == "place":
        values[key] = place
    elif key == "predictor":
        values[key] = knowledge.predictor_named(knowledge.predictor)
    elif key == "services":
        values[key] = knowledge.services
    elif key == "costs":
        values[key] = knowledge.costs
    elif key == "speeds":
        values[key] = knowledge.speeds[knowledge.speed]


def _choose(what: str, choices: Mapping[str, Any], value: str) -> Any:
    if value not in choices:
        raise BadInput(f"there is no {what} {value!r}; choose from {', '.join(choices)}")
    return choices[value]


@dataclass(frozen=True)
class Description:
    name: str
    summary: str
    parameters: Mapping[str, str]
    needs: tuple[str, ...]


def describe(name: str) -> Description:
    """The name, the first sentence and the parameters with their defaults."""
    parameters = CATALOGUE.parameters(name)
    for key in ("place", *_ASKED, *_GIVEN):
        parameters.pop(key, None)
    needs = tuple(key for key in settable(find(name)) if key in (*_ASKED, "services"))
    return Description(name, CATALOGUE.summary(name), parameters, needs)
