"""A job that names a profile: the file is read here, where the job is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from os.path import exists
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.jobfiles.profile_table import read_table
from dovetail.jobfiles.profiles import as_times


def with_options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The description with times instead of the name of a file."""
    named = spec["profile"]
    given = _apart(named) if isinstance(named, str) else named
    if not isinstance(given, Mapping) or not isinstance(given.get("file"), str):
        raise BadInput(
            "profile: name the file that dovetail profile wrote: profile: train.profile.yaml"
        )
    if unknown := [name for name in given if name not in ("file", "steps")]:
        raise BadInput(f"profile.{unknown[0]}: there is no such field; it has file and steps")
    if spec.get("options"):
        raise BadInput("options and profile: give one of them, not both")
    table, path = read_table(given["file"]), given["file"]
    try:
        options = table.options(_steps(given.get("steps")))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    rest = {name: value for name, value in spec.items() if name != "profile"}
    return {**rest, "options": as_times(options)}


def _apart(named: str) -> dict[str, str]:
    """A file, or `train.profile.yaml@20000`."""
    file, at, steps = named.rpartition("@")
    return {"file": file, "steps": steps} if at and not exists(named) else {"file": named}


def _steps(given: object) -> float | None:
    from dovetail.jobfiles.quantities import within

    if given is None:
        return None
    try:
        return within(1e-9, 1e18)(given)
    except ValueError as error:
        raise BadInput(f"profile.steps: {given!r} {error}") from None
