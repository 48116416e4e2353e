"""Rows to JSON and back. A row is a plain dataclass; unknown fields are ignored, so that an older
client understands a newer daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, dataclass_transform, get_args, get_origin, get_type_hints

from dovetail.core.errors import DovetailError

Row = TypeVar("Row")


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def row(kind: type[Row]) -> type[Row]:
    """A dataclass. To write out its comparison and its text would more than double the time that
    making it takes, and every command waits for that: here all kinds share theirs."""
    for name, method in (("__eq__", _equal), ("__repr__", _shown), ("__hash__", None)):
        setattr(kind, name, method)
    return dataclass(kw_only=True, eq=False, repr=False)(kind)


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and vars(one) == vars(other)


def _shown(own: object) -> str:
    return f"{type(own).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(own).items())})"


def about(text: str) -> dict[str, str]:
    """The metadata of a field that the published schema describes so."""
    return {"description": text}


class AnswerIncomplete(DovetailError):
    """The daemon and this command are of different versions."""


def read(kind: type[Row], told: Mapping[str, Any]) -> Row:
    """A row from an answer of the daemon, or from what is kept of one."""
    readers = _readers(cast(Any, kind))
    try:
        return kind(**{name: own(told[name]) for name, own in readers.items() if name in told})
    except TypeError:
        missing = [name for name in readers if name not in told and not hasattr(kind, name)]
        raise AnswerIncomplete(
            f"the daemon does not tell {', '.join(missing)}: it is of another version; "
            "`dovetail doctor` shows which"
        ) from None


def text_of(row: object) -> str:
    """ASCII, so that any text that a user has found a way to hand in can be told."""
    return json.dumps(row, default=vars, allow_nan=False, separators=(",", ":"))


def plain(row: object) -> Any:
    """Dictionaries and lists, as `json.loads` gives them."""
    return json.loads(text_of(row))


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(read, hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType and NoneType in inner:
        return partial(_unless_none, _reader(inner[0]))
    if origin is list and is_dataclass(inner[0]):
        return partial(_each, _reader(inner[0]))
    if origin is dict and _reader(inner[1]) is not _as_told:
        return partial(_each_value, _reader(inner[1]))
    return _as_told


def _as_told(value: Any) -> Any:
    return value


def _unless_none(reader: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else reader(value)


def _each(reader: Callable[[Any], Any], values: Any) -> list[Any]:
    return [reader(value) for value in values]


def _each_value(reader: Callable[[Any], Any], values: Any) -> dict[str, Any]:
    return {name: reader(value) for name, value in values.items()}
