"""Rows as a table of pandas or polars, whichever is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dovetail.core.errors import BadInput

FRAMES = ("pandas", "polars")


def as_frame(rows: Sequence[Mapping[str, Any]], kind: str | None = None) -> Any:
    """A frame of that package, else of the first that is here, else the rows as they are."""
    if kind is not None and kind not in FRAMES:
        raise BadInput(f"{kind!r} is no kind of frame; pandas and polars are")
    for name in FRAMES if kind is None else (kind,):
        if find_spec(name) is not None:
            return import_module(name).DataFrame(list(rows))
    if kind is not None:
        raise BadInput(f"{kind} is not installed; pip install {kind}, or ask for no kind")
    return list(rows)
