"""The files of the pages: their own, and those that they share with the reports."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ROOMS = ("dovetail.dashboard", "dovetail.reports")


@cache
def text_of(name: str) -> str:
    for room in _ROOMS:
        found = files(room) / "assets" / name
        if found.is_file():
            return found.read_text("utf-8")
    raise FileNotFoundError(name)


@cache
def served() -> dict[str, str]:
    """The names of what may be asked for, and their media types."""
    return {
        found.name: _TYPES[ending]
        for room in _ROOMS
        for found in (files(room) / "assets").iterdir()
        if (ending := found.name[found.name.rfind(".") :]) in _TYPES
    }


@cache
def address(name: str) -> str:
    """Named by what is in it: a browser may keep it for good, and has the new one after an upgrade."""
    return f"/page/static/{name}?v={sha256(text_of(name).encode()).hexdigest()[:12]}"
