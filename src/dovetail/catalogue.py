"""Things made by name from text such as `tiresias:queues=3:limits=3250/7200`.

Built-in ones are looked up in a table and imported when used; others come through a group of entry
points, asked for only when the table does not know the name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import getdoc
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dovetail.core.errors import BadInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NOTHING: Mapping[str, Any] = MappingProxyType({})
_FEW = 10  # names that a message may list
_RENAMED = {"slice_s": "quantum_s"}  # older journals and scripts have the first


@dataclass(frozen=True)
class Listing:
    """One row of a list of things."""

    name: str
    summary: str
    parameters: Mapping[str, str]  # with their defaults
    needs: tuple[str, ...] = ()  # fields that are filled in


@dataclass(frozen=True)
class Catalogue:
    """Things of one kind by name. A name is followed by `field=value` parts joined by colons.

    Each is a dataclass whose fields are its parameters. Where what is wanted is itself a function
    (`method` is `__call__`), a plain function will do: it has no parameters.
    """

    noun: str  # what one of them is called in messages
    listing: str  # the command that lists them all
    group: str  # of entry points
    builtin: Mapping[str, tuple[str, str]]  # module and attribute
    method: str  # what each of them can do
    filled: Mapping[str, str] = field(
        default_factory=dict
    )  # fields that whoever makes one fills in
    nested: tuple[str, ...] = ()  # those of them that a text may name another thing for
    _loaded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def names(self) -> list[str]:
        """Every one there is, built-in and added. What others call as we do is ours."""
        return [*self.builtin, *sorted(set(self._added()) - set(self.builtin))]

    def added(self) -> list[str]:
        """The names that came through entry points."""
        return self.names()[len(self.builtin) :]

    def find(self, name: str) -> Any:
        """The class, or the function, behind a name."""
        if name in self.builtin:
            module, attribute = self.builtin[name]
            return getattr(import_module(module), attribute)
        if name not in self._loaded:
            added = self._added()
            if name not in added:
                raise BadInput(f"there is no {self.noun} {name!r}; {self._hint(name)}")
            self._loaded[name] = self._load(added[name])
        return self._loaded[name]

    def _hint(self, name: str) -> str:
        names = self.names()
        close = get_close_matches(name.lower(), names, 1)
        if not close and len(names) <= _FEW:
            return f"there is {', '.join(names)}"
        nearest = f"did you mean {close[0]!r}? " if close else ""
        return f"{nearest}`{self.listing}` lists them all"

    def _added(self) -> Mapping[str, EntryPoint]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: EntryPoint) -> Any:
        """Somebody else's; what is wrong with it is told in one line."""
        package = f" of the package {point.dist.name}" if point.dist is not None else ""
        named = f"{self.noun} {point.name!r}{package} ({point.value})"
        try:
            found = point.load()
        except Exception as error:
            what = " ".join(str(error).split()) or type(error).__name__
            raise BadInput(f"{named} cannot be loaded: {what}") from None
        if self.method == "__call__" and callable(found) and not isinstance(found, type):
            return found
        if not (isinstance(found, type) and is_dataclass(found)):
            raise BadInput(f"{named} is not a dataclass; make it one")
        if not hasattr(found, self.method):
            raise BadInput(f"{named} has no method `{self.method}`; write one")
        return found

    # -------------------------------------------------------------------------------------- by text

    def make(
        self,
        text: str,
        given: Mapping[str, Callable[[], Any]] = NOTHING,
        readers: Mapping[str, Callable[[str], Any]] = NOTHING,
    ) -> Any:
        """The thing that the text describes. Fields that it does not name are taken from `given`."""
        found = self.find(name := text.partition(":")[0])
        values = self.values(text, readers)
        if not isinstance(found, type):
            return found
        for key, item in settable(found).items():
            if key not in values and key in given:
                values[key] = given[key]()
            elif key not in values and key in self.filled and _is_required(item):
                raise BadInput(f"{self.noun} {name!r} needs {self.filled[key] or key}")
        return self.build(text, values)

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
        for part in _whole_texts(parts, known):
            key, equals, value = part.partition("=")
            key = _RENAMED[key] if _RENAMED.get(key) in known and key not in known else key
            if not key:
                raise BadInput(
                    f"{self.noun} {text!r}: give a parameter after the colon; {self._choices(known)}"
                )
            if key not in known or not self._may_be_set(known[key]):
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

    def _may_be_set(self, item: Field[Any]) -> bool:
        return item.name not in self.filled or item.name in self.nested or _is_list(item)

    def _choices(self, known: Mapping[str, Field[Any]]) -> str:
        offered = [key for key in known if key not in self.filled or key in self.nested]
        return "it has " + ", ".join(offered) if offered else "it has none"

    def build(self, text: str, values: Mapping[str, Any]) -> Any:
        """The thing itself; what it has against the values is told in one line."""
        try:
            return self.find(text.partition(":")[0])(**values)
        except BadInput:
            raise
        except (TypeError, ValueError) as error:
            raise BadInput(f"{self.noun} {text!r}: {error}") from None
        except Exception as error:  # somebody else's mistake
            raise BadInput(f"{self.noun} {text!r}: {type(error).__name__}: {error}") from None

    # ------------------------------------------------------------------------------- told to people

    def describe(self, name: str) -> Listing:
        """The name, the first sentences, and the parameters with their defaults."""
        needs = tuple(key for key in settable(self.find(name)) if self.filled.get(key))
        return Listing(name, self.summary(name), self.parameters(name), needs)

    def all(self, tell: Callable[[str], object]) -> list[Listing]:
        """Of every one there is. What is wrong with one is told; the others can be used all the
        same."""
        found = []
        for name in self.names():
            try:
                found.append(self.describe(name))
            except BadInput as error:
                tell(str(error))
        return found

    def summary(self, name: str) -> str:
        """The first sentences of what it says of itself."""
        return " ".join(self.manual(name).split("\n\n")[0].split())

    def manual(self, name: str) -> str:
        """All that it says of itself."""
        return _doc(self.find(name))

    def parameters(self, name: str) -> dict[str, str]:
        """The parameters that have a default, each with the default as one would write it."""
        return {
            item.name: _show(item.default)
            for item in settable(self.find(name)).values()
            if item.default is not MISSING and item.name not in self.filled
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


def _doc(found: Any) -> str:
    """What it says of itself. Compiling leaves that out: then it is read from the source beside it."""
    file = Path(getattr(sys.modules.get(found.__module__), "__file__", None) or "")
    if file.suffix == ".py" or not isinstance(getattr(found, "__name__", None), str):
        return getdoc(found) or ""
    try:
        tree = ast.parse(file.with_name(f"{file.name.partition('.')[0]}.py").read_text())
    except OSError:
        return getdoc(found) or ""
    told = [
        ast.get_docstring(node)
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == found.__name__
    ]
    return (told[0] if told else "") or ""


def _whole_texts(parts: Iterable[str], known: Mapping[str, Field[Any]]) -> list[str]:
    """A text may have colons of its own (`image=registry:5000/train:2`): what has no `=` goes on with
    it."""
    whole: list[str] = []
    for part in parts:
        before = known.get(whole[-1].partition("=")[0]) if whole else None
        if before is not None and before.type in (str, "str") and part and "=" not in part:
            whole[-1] += f":{part}"
        else:
            whole.append(part)
    return whole


def within(text: str) -> str:
    """A text as the value of a parameter of another: `mine:window=3` becomes `mine/window=3`."""
    return text.replace(":", "/")


def unwrapped(value: str) -> str:
    """The other way: what has no `=` goes on with the list before it."""
    name, *parts = value.split("/")
    text = name
    for part in parts:
        text += f":{part}" if "=" in part else f"/{part}"
    return text


def _is_required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def settable(found: Any) -> dict[str, Field[Any]]:
    """The fields of a class that can be given; a function has none."""
    return {i.name: i for i in fields(found) if i.init} if is_dataclass(found) else {}


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
