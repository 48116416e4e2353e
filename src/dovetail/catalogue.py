"""Things made by name from text such as `tiresias:queues=3:limits=3250/7200`.

Built-in ones are looked up in a table and imported when used; others come through a group of entry
points, asked for only when the table does not know the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import getdoc
from math import isnan
from typing import Any

from dovetail.core.errors import BadInput

_RENAMED = {"slice_s": "quantum_s"}  # older journals and scripts have the first


@dataclass(frozen=True)
class Catalogue:
    """Dataclasses by name. A name is followed by `field=value` parts joined by colons."""

    noun: str  # what one of them is called in messages
    listing: str  # the command that lists them all
    group: str  # of entry points
    builtin: Mapping[str, tuple[str, str]]  # module and attribute
    method: str  # what each of them can do
    unlisted: tuple[str, ...] = ()  # fields that a message need not offer

    def names(self) -> list[str]:
        """Every one there is, built-in and added."""
        return [*self.builtin, *sorted(self._added())]

    def find(self, name: str) -> type[Any]:
        """The class behind a name."""
        if name in self.builtin:
            module, attribute = self.builtin[name]
            found: type[Any] = getattr(import_module(module), attribute)
            return found
        added = self._added()
        if name in added:
            return self._load(added[name])
        close = get_close_matches(name.lower(), [*self.builtin, *added], 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise BadInput(f"there is no {self.noun} {name!r}; {hint}`{self.listing}` lists them all")

    def _added(self) -> Mapping[str, Any]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: Any) -> type[Any]:
        """Somebody else's class; what is wrong with it is told in one line."""
        named = f"{self.noun} {point.name!r} ({point.value})"
        try:
            kind = point.load()
        except Exception as error:
            raise BadInput(f"{named} cannot be loaded: {error}") from None
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise BadInput(f"{named} is not a dataclass; make it one")
        if not hasattr(kind, self.method):
            raise BadInput(f"{named} has no method `{self.method}`; write one")
        return kind

    def values(self, text: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
        """What the text says of fields: by a reader of that name, else by the default's type."""
        name = text.partition(":")[0]
        known = settable(self.find(name))
        return {
            key: readers[key](value) if key in readers else self._parse(name, known[key], value)
            for key, value in self.given(text, known).items()
        }

    def given(self, text: str, known: Mapping[str, Field[Any]]) -> dict[str, str]:
        """The `field=value` parts of the text, each of a known field and given once."""
        name, *parts = text.split(":")
        given: dict[str, str] = {}
        for part in parts:
            key, equals, value = part.partition("=")
            key = _RENAMED[key] if _RENAMED.get(key) in known and key not in known else key
            if not key:
                raise BadInput(
                    f"{self.noun} {text!r}: give a parameter after the colon; {self._choices(known)}"
                )
            if key not in known:
                raise BadInput(
                    f"{self.noun} {name!r} has no parameter {key!r}; {self._choices(known)}"
                )
            if not equals:
                raise BadInput(
                    f"{self.noun} {name!r}: parameter {key!r} has no value; give one: {key}=…"
                )
            if key in given:
                raise BadInput(
                    f"{self.noun} {text!r}: parameter {key!r} is given twice; give it once"
                )
            given[key] = value
        return given

    def _choices(self, known: Mapping[str, Field[Any]]) -> str:
        offered = [key for key in known if key not in self.unlisted]
        return "it has " + ", ".join(offered) if offered else "it has none"

    def build(self, text: str, values: Mapping[str, Any]) -> Any:
        """The thing itself; what it has against the values is told in one line."""
        try:
            return self.find(text.partition(":")[0])(**values)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{self.noun} {text!r}: {error}") from None
        except Exception as error:  # somebody else's mistake
            raise BadInput(f"{self.noun} {text!r}: {type(error).__name__}: {error}") from None

    def summary(self, name: str) -> str:
        """The first sentences of what it says of itself."""
        return " ".join((self.find(name).__doc__ or "").strip().split("\n\n")[0].split())

    def manual(self, name: str) -> str:
        """All that it says of itself."""
        return getdoc(self.find(name)) or ""

    def parameters(self, name: str) -> dict[str, str]:
        """Those that have a default, and the default as one would write it."""
        return {
            item.name: _show(item.default)
            for item in settable(self.find(name)).values()
            if item.default is not MISSING
        }

    def _parse(self, name: str, item: Field[Any], value: str) -> Any:
        default = item.default
        try:
            if isinstance(default, bool):
                return {"true": True, "false": False}[value.lower()]
            if _is_list(item):
                return tuple(_number(part) for part in value.split("/")) if value else ()
            if isinstance(default, int):
                return int(value)
            return _number(value) if isinstance(default, float) else value
        except (KeyError, ValueError):
            raise BadInput(
                f"{self.noun} {name!r}: {item.name}={value!r} is not {_kind_of(item)}"
            ) from None


def settable(kind: type[Any]) -> dict[str, Field[Any]]:
    return {item.name: item for item in fields(kind) if item.init}


def _is_list(item: Field[Any]) -> bool:
    return isinstance(item.default, tuple) or str(item.type).startswith("tuple[")


def _number(text: str) -> float:
    value = float(text)
    if isnan(value):
        raise ValueError(text)
    return value


def _kind_of(item: Field[Any]) -> str:
    if isinstance(item.default, bool):
        return "true or false"
    if _is_list(item):
        return "a list of numbers such as 3250/7200"
    return "a whole number" if isinstance(item.default, int) else "a number"


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(f"{part:g}" for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
