"""Policies by name, made from text such as `tiresias:queues=3:limits=3250/7200`.

Built-in ones are looked up in a table and imported when used; others come through the entry-point
group `dovetail.policies`, asked for only when the table does not know the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import getdoc
from math import isnan
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.loop import Policy
from dovetail.core.plan import Place
from dovetail.models.cost import Costs
from dovetail.policies.placement import PLACEMENTS
from dovetail.predict.duration import Predictor

_QUEUEING = "dovetail.policies.queueing"
_ANDREAS = "dovetail.policies.andreas.policies"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "fifo": (_QUEUEING, "Fifo"),
    "fifo-skip": (_QUEUEING, "FifoSkip"),
    "easy": ("dovetail.policies.backfill", "Easy"),
    "conservative": ("dovetail.policies.backfill", "Conservative"),
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
    "gandiva": ("dovetail.policies.packing", "Gandiva"),
    "andreas-fifo": ("dovetail.policies.andreas.baselines", "AndreasFifo"),
    "andreas-edf": ("dovetail.policies.andreas.baselines", "AndreasEdf"),
    "andreas-priority": ("dovetail.policies.andreas.baselines", "AndreasPriority"),
    "andreas-greedy": (_ANDREAS, "AndreasGreedy"),
    "andreas-random-greedy": (_ANDREAS, "AndreasRandomGreedy"),
    "andreas-local-search": (_ANDREAS, "AndreasLocalSearch"),
    "andreas-path-relinking": (_ANDREAS, "AndreasPathRelinking"),
    "frugal": ("dovetail.policies.frugal", "Frugal"),
}
GROUP = "dovetail.policies"
_GIVEN = ("services", "costs")  # fields that are filled in, never written in a policy's text


@dataclass(frozen=True)
class Knowledge:
    """What a policy may be given beyond the view, by the name of the field that asks for it."""

    predictors: Mapping[str, Predictor]
    predictor: str  # the one to use unless the policy's text names another
    services: tuple[float, ...] = ()  # the distribution of service, in GPU-seconds
    costs: Costs = Costs()  # what energy and lateness are believed to cost


def names() -> list[str]:
    """Every policy there is, built-in and added."""
    return [*BUILTIN, *sorted(_added())]


def find(name: str) -> type[Any]:
    """The class behind a name."""
    if name in BUILTIN:
        module, attribute = BUILTIN[name]
        found: type[Any] = getattr(import_module(module), attribute)
        return found
    added = _added()
    if name in added:
        return _load(added[name])
    close = get_close_matches(name.lower(), [*BUILTIN, *added], 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise BadInput(f"there is no policy {name!r}; {hint}`dovetail policies` lists them all")


def _load(point: Any) -> type[Any]:
    """Somebody else's class; what is wrong with it is told in one line."""
    try:
        kind = point.load()
    except Exception as error:
        raise BadInput(f"policy {point.name!r} ({point.value}) cannot be loaded: {error}") from None
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise BadInput(f"policy {point.name!r} ({point.value}) is not a dataclass; make it one")
    if not hasattr(kind, "decide"):
        raise BadInput(f"policy {point.name!r} ({point.value}) has no method `decide`; write one")
    return kind


def _added() -> Mapping[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def make(text: str, place: Place, knowledge: Knowledge) -> Policy:
    """The policy that the text describes: its name, then `field=value` parts joined by colons."""
    name = text.partition(":")[0]
    kind = find(name)
    known = _settable(kind)
    values: dict[str, Any] = {
        key: _parse(name, known[key], value, knowledge)
        for key, value in _given(text, known).items()
    }
    for key in known:
        if key not in values:
            _provide(values, key, place, knowledge)
    try:
        policy: Policy = kind(**values)
    except (TypeError, ValueError) as error:
        raise BadInput(f"policy {text!r}: {error}") from None
    except Exception as error:  # somebody else's mistake
        raise BadInput(f"policy {text!r}: {type(error).__name__}: {error}") from None
    return policy


def sources(text: str, predictor: str) -> list[str]:
    """What a policy learns of jobs before they end: the name of its predictor, or `services`."""
    known = _settable(find(text.partition(":")[0]))
    given = _given(text, known)
    found = [given.get("predictor", predictor)] if "predictor" in known else []
    if "services" in known and "services" not in given:
        found.append("services")
    return found


def _settable(kind: type[Any]) -> dict[str, Field[Any]]:
    return {item.name: item for item in fields(kind) if item.init}


def _given(text: str, known: Mapping[str, Field[Any]]) -> dict[str, str]:
    """The `field=value` parts of the text, each of a known field and given once."""
    name, *parts = text.split(":")
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not key:
            raise BadInput(f"policy {text!r}: give a parameter after the colon; {_choices(known)}")
        if key not in known:
            raise BadInput(f"policy {name!r} has no parameter {key!r}; {_choices(known)}")
        if not equals:
            raise BadInput(f"policy {name!r}: parameter {key!r} has no value; give one: {key}=…")
        if key in given:
            raise BadInput(f"policy {text!r}: parameter {key!r} is given twice; give it once")
        given[key] = value
    return given


def _provide(values: dict[str, Any], key: str, place: Place, knowledge: Knowledge) -> None:
    if key == "place":
        values[key] = place
    elif key == "predictor":
        values[key] = knowledge.predictors[knowledge.predictor]
    elif key == "services":
        values[key] = knowledge.services
    elif key == "costs":
        values[key] = knowledge.costs


def _parse(name: str, item: Field[Any], value: str, knowledge: Knowledge) -> Any:
    if item.name == "place":
        return _choose("placement", PLACEMENTS, value)
    if item.name == "predictor":
        return _choose("predictor", knowledge.predictors, value)
    default = item.default
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, tuple) or item.name == "services":
            return tuple(_number(part) for part in value.split("/")) if value else ()
        if isinstance(default, int):
            return int(value)
        return _number(value) if isinstance(default, float) else value
    except (KeyError, ValueError):
        raise BadInput(
            f"policy {name!r}: {item.name}={value!r} is not "
            f"{_kind_of(() if item.name == 'services' else default)}"
        ) from None


def _number(text: str) -> float:
    value = float(text)
    if isnan(value):
        raise ValueError(text)
    return value


def _kind_of(default: object) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, tuple):
        return "a list of numbers such as 3250/7200"
    return "a whole number" if isinstance(default, int) else "a number"


def _choose(what: str, choices: Mapping[str, Any], value: str) -> Any:
    if value not in choices:
        raise BadInput(f"there is no {what} {value!r}; choose from {', '.join(choices)}")
    return choices[value]


def _choices(known: Mapping[str, Field[Any]]) -> str:
    given = [key for key in known if key not in _GIVEN]
    return "it has " + ", ".join(given) if given else "it has none"


@dataclass(frozen=True)
class Description:
    name: str
    summary: str
    parameters: Mapping[str, str]
    needs: tuple[str, ...]


def describe(name: str) -> Description:
    """The name, the first sentence and the parameters with their defaults."""
    kind = find(name)
    items = _settable(kind).values()
    parameters = {
        item.name: _show(item.default)
        for item in items
        if item.name not in ("place", "predictor", *_GIVEN) and item.default is not MISSING
    }
    needs = tuple(item.name for item in items if item.name in ("predictor", "services"))
    summary = " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
    return Description(name, summary, parameters, needs)


def manual(name: str) -> str:
    """All that the policy says of itself."""
    return getdoc(find(name)) or ""


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(f"{part:g}" for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
