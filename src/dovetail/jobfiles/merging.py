"""A description with some fields changed: by options of a command line, or for another run of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(file: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are joined field by field; for anything else the second has the last word."""
    found = {**file, **own}
    for name in ("checkpoint", "envs"):
        if isinstance(file.get(name), Mapping) and isinstance(own.get(name), Mapping):
            found[name] = {**file[name], **own[name]}
    if isinstance(file.get("resources"), Mapping) and isinstance(own.get("resources"), Mapping):
        found["resources"] = _merged_resources(file["resources"], own["resources"])
    return found


def _merged_resources(file: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A file names kind and number of GPUs in one field; the options name them in two."""
    found = dict(file)
    kinds = [*_pieces(found.pop("accelerators", None)), *_pieces(found.pop("any_of", None))]
    counts = [count for _, count in kinds if count]
    found["any_of"] = [kind for kind, _ in kinds if kind] or None
    if found.get("gpus") is None and counts:
        found["gpus"] = counts[0]
    return {**found, **own}


def _pieces(value: object) -> list[tuple[str, str]]:
    """`H100:2`, `2`, `{H100: 2}` or a list of such, as kinds and numbers."""
    if isinstance(value, Mapping):
        return [(str(kind), str(count or "")) for kind, count in value.items()]
    if isinstance(value, list):
        return [piece for one in value for piece in _pieces(one)]
    if value is None:
        return []
    kind, _, count = str(value).rpartition(":")
    if kind or str(value).isdigit():
        return [(kind, count)]
    return [(str(value), "")]
