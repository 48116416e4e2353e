"""Tables of a TOML file as frozen dataclasses; unknown and ill-typed keys are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from dovetail.core.errors import BadInput
from dovetail.traces.readers.text_files import opened

T = TypeVar("T")
# Annotations are strings here; an integer is fine where a float is wanted.
ACCEPTED: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "Mapping[str, str]": (dict,),
}
TABLES = ("nodes", "tenants")
SPOKEN = {"int": "a whole number", "float": "a number", "str": "a text"}


def read_toml(path: str) -> dict[str, Any]:
    import tomllib

    with opened(path) as text:
        try:
            return tomllib.loads(text.read().replace("\r\n", "\n"))
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{path}: this is not TOML: {error}") from None


def tables(path: str) -> dict[str, Any]:
    """The `nodes` and `tenants` of a file; anything else is an error, not silently ignored."""
    found = read_toml(path)
    for key in found:
        if key not in TABLES:
            raise BadInput(f"{path}: {key!r} is not known; known are {', '.join(TABLES)}")
    return found


_LARGEST = 10**18  # of integers: more is a slip


def settings(kind: type[T], table: object, where: str) -> T:
    """The table as a value of the given dataclass."""
    if not isinstance(table, dict):
        raise BadInput(f"{where}: a table is needed, not {table!r}")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in table.items():
        if key not in known:
            raise BadInput(f"{where}: {key!r} is not known; known are {', '.join(known)}")
        _check(f"{where}: {key}", str(known[key].type), value)
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise BadInput(f"{where}: {name!r} is missing")
    # An integer where a float may stand becomes a float: journals of both cores are equal.
    return kind(
        **{
            key: float(value) if known[key].type == "float" and isinstance(value, int) else value
            for key, value in table.items()
        }
    )


def _check(where: str, wanted: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, ACCEPTED[wanted]):
        raise BadInput(f"{where}: {value!r} is not {SPOKEN.get(wanted, 'a table')}")
    if isinstance(value, int | float) and not value >= 0:
        raise BadInput(f"{where}: {value!r} is no size; give 0 or more")
    if isinstance(value, int) and value > _LARGEST:
        raise BadInput(f"{where}: a number of more than 18 digits; give a smaller one")
    if isinstance(value, dict) and not all(isinstance(text, str) for text in value.values()):
        raise BadInput(f"{where}: {value!r} holds something other than texts")
