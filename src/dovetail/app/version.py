"""Which Dovetail this is."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    from importlib import metadata  # takes a while to import

    return metadata.version("dovetail")
