"""The search space of a study: parameters by name, some of which count only under a condition.

    Space({"lr": Log(1e-4, 1e-1), "layers": Integer(1, 8), "optimizer": Choice("sgd", "adam"),
           "beta": Float(0.8, 0.999, when={"optimizer": "adam"})})

Every sampler goes through `Space.build`, which asks for one parameter after the other and leaves
out parameters whose condition does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Final, TypeAlias, final

from dovetail.tune.parameters import (
    BadSpace,
    Choice,
    Float,
    Integer,
    Log,
    Parameter,
    nearest,
    points,
    scalar,
)
from dovetail.tune.study import Setting

__all__ = ["BadSpace", "Choice", "Float", "Integer", "Log", "Parameter", "Settings", "Space"]

Settings: TypeAlias = dict[str, Setting]
Conditions: TypeAlias = Mapping[str, tuple[Setting, ...]]  # parents, and what each must be

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
RESERVED = ("settings", "trial")  # have a meaning of their own in {…}
LONGEST_NAME = 100
MOST_PARAMETERS = 1000
LARGEST_GRID = 10_000


@final
class Space:
    """Parameters in the order in which they were given."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not parameters:
            raise BadSpace("there is nothing to search; give at least one parameter")
        if len(parameters) > MOST_PARAMETERS:
            raise BadSpace(f"{len(parameters):,} parameters; {MOST_PARAMETERS:,} is the most")
        for name in parameters:
            _check_name(name)
        self.conditions: Final = {name: _conditions(name, parameters) for name in parameters}
        self.parameters: Final = {
            name: own.under(self.conditions[name]) for name, own in parameters.items()
        }
        self._order: Final = _parents_first(self.conditions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return list(self.parameters.items()) == list(other.parameters.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parameters))

    def __repr__(self) -> str:
        return f"Space({self.parameters!r})"

    def build(self, choose: Callable[[str, Parameter], Setting]) -> Settings:
        """Settings made by asking for each parameter that counts, parents first."""
        found: Settings = {}
        for name in self._order:
            if self.counts(name, found):
                found[name] = choose(name, self.parameters[name])
        return {name: found[name] for name in self.parameters if name in found}

    def counts(self, name: str, settings: Mapping[str, Setting]) -> bool:
        """Does the parameter's condition hold? `settings` must contain its parents."""
        needed = self.conditions[name].items()
        return all(parent in settings and settings[parent] in values for parent, values in needed)

    def at(self, units: Sequence[float]) -> Settings:
        """The settings at a point of the unit cube, which has one side for each parameter."""
        unit = dict(zip(self.parameters, units, strict=True))
        return self.build(lambda name, parameter: parameter.at(unit[name]))

    def repaired(
        self,
        wished: Mapping[str, Setting],
        before: Mapping[str, Setting],
        draw: Callable[[], float],
    ) -> Settings:
        """The settings of this space closest to those wished, which were made from the ones `before`;
        parameters that count now and did not then are drawn: `draw` gives numbers from 0 to 1."""

        def choose(name: str, parameter: Parameter) -> Setting:
            found = None
            if name in wished:
                found = nearest(parameter, wished[name], before.get(name))
            return parameter.at(draw()) if found is None else found

        return self.build(choose)

    def from_steps(self) -> dict[str, int]:
        """The step from which each parameter counts: not before the parameters it depends on."""
        found: dict[str, int] = {}
        for name in self._order:
            parents = [found[parent] for parent in self.conditions[name]]
            found[name] = max([self.parameters[name].from_step, *parents])
        return {name: found[name] for name in self.parameters}

    # ------------------------------------------------------------------------------------------ grids

    def grid(self, wanted: int = 2) -> Iterator[Settings]:
        """Every combination, the last parameter changing fastest; `wanted` values of each
        uncountable parameter. Parameters that do not count make no combinations of their own."""
        yield from self._combinations(self._order, {}, wanted)

    def _combinations(
        self, names: Sequence[str], found: Settings, wanted: int
    ) -> Iterator[Settings]:
        if not names:
            yield {name: found[name] for name in self.parameters if name in found}
        elif not self.counts(names[0], found):
            yield from self._combinations(names[1:], found, wanted)
        else:
            for value in points(self.parameters[names[0]], wanted):
                yield from self._combinations(names[1:], {**found, names[0]: value}, wanted)

    def grid_size(self, wanted: int = 2) -> int:
        """The number of combinations; counting stops above `LARGEST_GRID`."""
        free = [own for name, own in self.parameters.items() if not self.conditions[name]]
        if prod(own.count or wanted for own in free) > LARGEST_GRID:
            return LARGEST_GRID + 1
        found = 0
        for _ in self.grid(wanted):
            found += 1
            if found > LARGEST_GRID:
                break
        return found


def is_countable(space: Space) -> bool:
    """Is the space's grid the whole space?"""
    return all(own.count is not None for own in space.parameters.values())


# ------------------------------------------------------------------------------------------- checks


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadSpace(
            "this name cannot be used in {…}; a name has letters, digits and _ . - "
            "and begins with a letter",
            str(name),
        )
    if name in RESERVED:
        raise BadSpace(f"{{{name}}} has a meaning of its own; give it another name", name)
    if len(name) > LONGEST_NAME:
        raise BadSpace(f"a name has {LONGEST_NAME} characters at most", name)


def _conditions(name: str, parameters: Mapping[str, Parameter]) -> Conditions:
    when = parameters[name].when
    if not isinstance(when, Mapping):
        raise BadSpace("write {other: value}, or {other: [value, value]}", name, "when")
    return {parent: _possible(name, parent, own, parameters) for parent, own in when.items()}


def _possible(
    name: str, parent: str, told: object, parameters: Mapping[str, Parameter]
) -> tuple[Setting, ...]:
    where = (name, "when")
    if parent not in parameters:
        known = ", ".join(own for own in parameters if own != name) or "nothing else"
        raise BadSpace(f"there is no parameter {parent!r}; there is {known}", *where)
    other = parameters[parent]
    if isinstance(other, Float | Log):
        raise BadSpace(
            f"{parent} is a number of any size; a condition needs a choice or an int",
            *where,
        )
    values = tuple(told) if isinstance(told, list | tuple) else (told,)
    found = [_member(value, other) for value in values]
    if not values or None in found:
        wrong = repr(values[found.index(None)]) if values else "nothing"
        raise BadSpace(f"{parent} is never {wrong}; it is {_told(other)}", *where)
    return tuple(value for value in found if value is not None)


def _member(value: object, parameter: Choice | Integer) -> Setting | None:
    """The value as the parameter represents it; YAML gives numbers as strings."""
    values = points(parameter, 0)
    for own in (value, scalar(value) if isinstance(value, str) else value):
        if isinstance(own, str | int | float) and own in values:
            return values[values.index(own)]
    return None


def _told(parameter: Choice | Integer) -> str:
    if isinstance(parameter, Integer):
        by = f" in steps of {parameter.step}" if parameter.step > 1 else ""
        return f"{parameter.low} to {parameter.high}{by}"
    shown = [str(value) for value in parameter.values[:8]]
    return ", ".join(shown) + (", …" if len(parameter.values) > 8 else "")


def _parents_first(conditions: Mapping[str, Conditions]) -> tuple[str, ...]:
    """In the order given, except that parents come before children."""
    sorter: TopologicalSorter[str] = TopologicalSorter(
        {name: tuple(own) for name, own in conditions.items()}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        loop = list(reversed(error.args[1]))
        raise BadSpace(
            f"the conditions go round in a circle: {' → '.join(loop)}",
            *(loop[0], "when"),
        ) from None
    found: list[str] = []
    told = list(conditions)
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=told.index)
        found += ready
        sorter.done(*ready)
    return tuple(found)
