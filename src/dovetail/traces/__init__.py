"""Traces: reading, writing, generating and describing them, and the clusters they run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dovetail.traces.readers.formats import read, read_durations
from dovetail.traces.trace import Trace

if TYPE_CHECKING:
    from dovetail.traces.description import Description, describe
    from dovetail.traces.synthetic.recipe import Recipe, generate
    from dovetail.traces.writing import write

__all__ = [
    "Description",
    "Recipe",
    "Trace",
    "describe",
    "generate",
    "read",
    "read_durations",
    "write",
]

# A simulation only reads; the rest is imported when it is used.
_LATER = {
    "Description": "description",
    "describe": "description",
    "Recipe": "synthetic.recipe",
    "generate": "synthetic.recipe",
    "write": "writing",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
