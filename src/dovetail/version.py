"""Which Dovetail this is."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    from importlib import metadata  # takes a while to import

    try:
        return metadata.version("dovetail")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from its sources
