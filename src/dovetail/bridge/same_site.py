"""Is a request of one of our own pages? Another site's page can make a browser send almost anything.

A cookie alone does not tell: a name that resolves to our address a moment later (DNS rebinding), a form
that posts here, a page on another port of this machine, which counts as the same site.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

SAFE: Final = frozenset(("GET", "HEAD"))
HERE: Final = frozenset(("127.0.0.1", "localhost", "[::1]"))  # names of the loopback, of any port
_OURS: Final = ("same-origin", "none")  # none: typed, or from a bookmark


def foreign(method: str, headers: Mapping[str, str], hosts: Collection[str] | None) -> str:
    """Why it is not of a page of ours; "" if it is. `hosts`: the names under which we are asked; None:
    any. Names of headers are in small letters."""
    host = headers.get("host", "").lower()
    if not host or (hosts is not None and host_name(host) not in hosts):
        return f"this is not asked under the name {shown(host)}"
    site = headers.get("sec-fetch-site", "none")
    if site not in _OURS:
        return "a page of another site has asked for this"
    origin = headers.get("origin")
    if origin is None:
        return "" if method in SAFE else "a change needs to say which page asks for it (Origin)"
    if origin.lower().partition("://")[2] != host:
        return f"a page of {shown(origin)} has asked for this"
    return ""


def host_name(host: str) -> str:
    """Without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def shown(text: str) -> str:
    """A header of somebody else's making, short and plain."""
    return repr(text[:80].encode("ascii", "replace").decode())


def cookies_in(header: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, equals, value in pairs if equals}


def cookie(name: str, value: str, secure: bool = False, seconds: int | None = None) -> str:
    """Scripts cannot read it, and other sites' pages do not send it."""
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if secure:
        parts.append("Secure")
    if seconds is not None:
        parts.append(f"Max-Age={seconds}")
    return "; ".join(parts)
