"""Policies by name, made from text such as `tiresias:queues=3:limits=3250/7200`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dovetail.catalogue import Catalogue, settable, unwrapped, within
from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Seconds
from dovetail.core.plan import Place
from dovetail.models.cost import Costs
from dovetail.models.epochs import FIXED
from dovetail.policies.catalogue import CATALOGUE
from dovetail.policies.placement import PLACEMENTS
from dovetail.predict.duration import Predictor
from dovetail.predict.learned import LearnedAnswer, learns
from dovetail.predict.left import LeftPredictor
from dovetail.predict.registry import LEFT_PREDICTORS, PREDICTORS, SPEED_PREDICTORS, source_of
from dovetail.predict.speed import SpeedPredictor

PLACES = Catalogue(
    "placement",
    "dovetail catalogue placements",
    "dovetail.placements",
    {name: ("dovetail.policies.placement", name) for name in PLACEMENTS},
    "__call__",
)
BUILTIN = CATALOGUE.builtin
names = CATALOGUE.names
find = CATALOGUE.find
manual = CATALOGUE.manual
describe = CATALOGUE.describe


def place_named(text: str) -> Place:
    place: Place = PLACES.make(text)
    return place


@dataclass(frozen=True)
class Knowledge:
    """Knowledge beyond the view for policies, by the name of the field that asks for it."""

    predictors: Mapping[str, Predictor] = field(default_factory=dict)  # beside the catalogue's
    predictor: str = "history-mean"  # the one to use unless the policy's text names another
    services: tuple[float, ...] = ()  # the distribution of service, in GPU-seconds
    costs: Costs = Costs()  # what energy and lateness are believed to cost
    speeds: Mapping[str, SpeedPredictor] = field(default_factory=dict)  # beside the catalogue's
    speed: str = "none"  # the one of them to use unless the policy's text names another
    left: str = "predicted"  # the source of beliefs about work left, likewise
    round_s: Seconds = 0.0  # of policies that decide in rounds; 0: as they say themselves
    whole_steps: bool = False  # do jobs work in leases of whole steps?
    facts: Mapping[str, Any] = field(default_factory=dict)  # that predictors may ask for, by field
    told: Mapping[JobId, Seconds] = field(default_factory=dict)  # by one that would have to learn
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def predictor_named(self, text: str) -> Predictor:
        if text in self.predictors:
            return self.predictors[text]
        predictor: Predictor = self._make(PREDICTORS, text)
        if self.told and learns(predictor):
            return LearnedAnswer(self.told, partial(source_of, PREDICTORS, text))
        return predictor

    def speeds_named(self, text: str) -> SpeedPredictor:
        if text in self.speeds:
            return self.speeds[text]
        speeds: SpeedPredictor = self._make(SPEED_PREDICTORS, text)
        return speeds

    def left_named(self, text: str) -> LeftPredictor:
        left: LeftPredictor = self._make(LEFT_PREDICTORS, text)
        return left

    def _make(self, catalogue: Catalogue, text: str) -> Any:
        """Once: policies that name the same are told by the same."""
        key = f"{catalogue.noun} {text}"
        if key not in self._made:
            facts = {name: (lambda fact=fact: fact) for name, fact in self.facts.items()}
            own = {"predictor": lambda: self.predictor_named(self.predictor)}
            named = {"predictor": lambda value: self.predictor_named(unwrapped(value))}
            self._made[key] = catalogue.make(text, {**facts, **own}, named)
        return self._made[key]


def make(text: str, place: Place, knowledge: Knowledge) -> Policy:
    """The policy that the text describes: its name, then `field=value` parts joined by colons."""
    given: dict[str, Callable[[], Any]] = {
        "place": lambda: place,
        "predictor": lambda: knowledge.predictor_named(knowledge.predictor),
        "speeds": lambda: knowledge.speeds_named(knowledge.speed),
        "services": lambda: knowledge.services,
        "costs": lambda: knowledge.costs,
        "left": lambda: knowledge.left_named(knowledge.left),
    }
    if knowledge.round_s > 0:
        given["round_s"] = lambda: knowledge.round_s
    usual = getattr(find(text.partition(":")[0]), "usual_policy", "")
    given["policy"] = lambda: make(usual, place, knowledge)
    if knowledge.whole_steps:
        given["whole_steps"] = lambda: True
    readers: dict[str, Callable[[str], Any]] = {
        "policy": lambda value: make(unwrapped(value), place, knowledge),
        "place": lambda value: place_named(unwrapped(value)),
        "predictor": lambda value: knowledge.predictor_named(unwrapped(value)),
        "speeds": lambda value: knowledge.speeds_named(unwrapped(value)),
        "left": lambda value: knowledge.left_named(unwrapped(value)),
    }
    policy: Policy = CATALOGUE.make(text, given, readers)
    return policy


def batches_under(text: str) -> str:
    """How jobs that can choose their batch do so under it, as its authors have it."""
    found = find(text.partition(":")[0])
    split = CATALOGUE.given(text, settable(found)).get("policy")
    return (
        str(getattr(found, "batches", FIXED)) if split is None else batches_under(unwrapped(split))
    )


def deals_leases(text: str) -> bool:
    """Does it, or the one that it splits, give leases of whole steps, round by round?"""
    known = settable(find(text.partition(":")[0]))
    split = CATALOGUE.given(text, known).get("policy")
    return "whole_steps" in known or (split is not None and deals_leases(unwrapped(split)))


def sources(text: str, predictor: str, left: str = "predicted") -> list[str]:
    """The source of a policy's beliefs about jobs: its predictor's name, or `services`. `left` is how
    it is told the work left where it asks for that and names no other way."""
    known = settable(find(text.partition(":")[0]))
    given = CATALOGUE.given(text, known)
    found = [unwrapped(given.get("predictor", predictor))] if "predictor" in known else []
    found += [source for source in _of_left(known, given, predictor, left) if source not in found]
    if "services" in known and "services" not in given:
        found.append("services")
    if inner := _within(text, known, given):
        found += [source for source in sources(inner, predictor, left) if source not in found]
    return found


def _of_left(
    known: Mapping[str, Any], given: Mapping[str, str], predictor: str, left: str
) -> list[str]:
    """What stands behind beliefs about the work left."""
    if "left" not in known or given.get("lengths") == "false":
        return []
    asked = unwrapped(given.get("left", left))
    own = settable(LEFT_PREDICTORS.find(asked.partition(":")[0]))
    if "predictor" not in own:
        return []
    return [unwrapped(LEFT_PREDICTORS.given(asked, own).get("predictor", predictor))]


def with_predictor(text: str, predictor: str) -> str:
    """The same, told lengths by that predictor wherever it asks for some and its text names none."""
    known = settable(find(text.partition(":")[0]))
    given, named = CATALOGUE.given(text, known), within(predictor)
    if "predictor" in known and "predictor" not in given:
        text += f":predictor={named}"
    if "left" in known and "left" not in given and given.get("lengths") != "false":
        text += f":left=predicted/predictor={named}"
    if "policy" in known and "policy" not in given:
        text += f":policy={within(with_predictor(_within(text, known, given), predictor))}"
    return text


def _within(text: str, known: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """The policy that it is over, if it is over one."""
    if "policy" not in known:
        return ""
    usual: str = getattr(find(text.partition(":")[0]), "usual_policy", "")
    return unwrapped(given["policy"]) if "policy" in given else usual


def speeds_of(text: str, usual: str) -> str | None:
    """The predictor of speeds that the policy asks; None: it asks none."""
    known = settable(find(text.partition(":")[0]))
    if "speeds" not in known:
        return None
    return unwrapped(CATALOGUE.given(text, known).get("speeds", usual))
