"""A search space as plain values, as it is written in a file and in the journal.

    lr: {log: [1e-4, 1e-1]}
    units: {int: [16, 256], step: 16}
    optimizer: {choice: [sgd, adam]}
    beta: {float: [0.8, 0.999], when: {optimizer: adam}}

YAML gives strings only, so strings that look like numbers are numbers; `text: true` keeps them strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.tune.parameters import BadSpace, Choice, Float, Integer, Log, Parameter, scalar
from dovetail.tune.space import Space

KINDS = ("float", "log", "int", "choice")
COMMON = ("when", "from_step")
FIELDS: Mapping[str, tuple[str, ...]] = {  # beside the kind itself
    "float": ("step", "log", *COMMON),
    "log": COMMON,
    "int": ("step", "log", *COMMON),
    "choice": ("text", *COMMON),
}
FORMS = "{float: [0, 1]}, {log: [1e-4, 1e-1]}, {int: [1, 8]} or {choice: [sgd, adam]}"


def read_space(given: object) -> Space:
    """The space that plain values describe; every mistake raises a `BadSpace` that says where."""
    if not isinstance(given, Mapping):
        raise BadSpace(f"write the name of each parameter and what it may be: {FORMS}", "space")
    try:
        return Space({name: _parameter(name, own) for name, own in given.items()})
    except BadSpace as error:
        raise error.below("space") from None


def dump_space(space: Space) -> dict[str, dict[str, Any]]:
    """Plain values from which `read_space` makes the same space."""
    return {name: _dumped(own) for name, own in space.parameters.items()}


def _parameter(name: object, given: object) -> Parameter:
    try:
        if isinstance(given, Float | Log | Integer | Choice):
            return given
        if not isinstance(given, Mapping):
            raise BadSpace(f"say what it may be: {FORMS}")
        return _made(_kind(given), given)
    except BadSpace as error:
        raise error.below(str(name)) from None


def _kind(given: Mapping[str, object]) -> str:
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) > 1 and not isinstance(given.get("log"), list | tuple):
        # there `log` is the scale of another kind
        kinds = [kind for kind in kinds if kind != "log"]
    if len(kinds) != 1:
        raise BadSpace(f"say what it may be by one of {FORMS}")
    for field in given:
        if field != kinds[0] and field not in FIELDS[kinds[0]]:
            known = ", ".join(FIELDS[kinds[0]])
            raise BadSpace(f"there is no such field; beside {kinds[0]} there is {known}", field)
    return kinds[0]


def _made(kind: str, given: Mapping[str, Any]) -> Parameter:
    common: dict[str, Any] = {
        "when": given.get("when") or {},
        "from_step": _number(given.get("from_step", 0)),
    }
    if kind == "choice":
        return Choice(*_values(given["choice"], _truth(given, "text")), **common)
    low, high = _bounds(given[kind], kind)
    is_log, step = _truth(given, "log") if kind != "log" else True, given.get("step")
    if kind == "int":
        whole = [_whole(own) for own in (low, high, 1 if step is None else _number(step))]
        return Integer(whole[0], whole[1], step=whole[2], log=is_log, **common)
    if not is_log:
        return Float(low, high, step=None if step is None else _number(step), **common)
    if step is not None:
        raise BadSpace("a float on a log scale has no step; use an int, or a choice", "step")
    return Log(low, high, **common)


def _bounds(given: object, kind: str) -> tuple[Any, Any]:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise BadSpace(f"give the lowest and the highest value: {kind}: [low, high]")
    return _number(given[0]), _number(given[1])


def _number(given: object) -> Any:
    """Strings are parsed; the parameter checks whatever results."""
    return scalar(given.strip()) if isinstance(given, str) else given


def _whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given  # 1e3


def _values(given: object, is_text: bool) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise BadSpace("give the values as a list: choice: [sgd, adam]")
    return [scalar(own) if isinstance(own, str) and not is_text else own for own in given]


def _truth(given: Mapping[str, object], field: str) -> bool:
    found = given.get(field, False)
    found = scalar(found.lower()) if isinstance(found, str) else found
    if not isinstance(found, bool):
        raise BadSpace("write true or false", field)
    return found


def _dumped(parameter: Parameter) -> dict[str, Any]:
    found: dict[str, Any]
    if isinstance(parameter, Choice):
        found = {"choice": list(parameter.values)}
        if any(isinstance(own, str) and scalar(own) != own for own in parameter.values):
            found["text"] = True
    elif isinstance(parameter, Log):
        found = {"log": [parameter.low, parameter.high]}
    else:
        kind = "int" if isinstance(parameter, Integer) else "float"
        found = {kind: [parameter.low, parameter.high]}
        if parameter.step not in (None, 1) or (parameter.step == 1 and kind == "float"):
            found["step"] = parameter.step
        if isinstance(parameter, Integer) and parameter.log:
            found["log"] = True
    return found | _dumped_circumstances(parameter)


def _dumped_circumstances(parameter: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if parameter.when:
        found["when"] = {name: _one_or_list(own) for name, own in parameter.when.items()}
    if parameter.from_step:
        found["from_step"] = parameter.from_step
    return found


def _one_or_list(told: object) -> object:
    if not isinstance(told, list | tuple):
        return told
    return told[0] if len(told) == 1 else list(told)
