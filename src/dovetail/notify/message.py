"""A message: what has happened, in words, and by which ways it is to be told."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Final

START, END, FAILURE, BEST = "start", "end", "failure", "best"
EVENTS: Final = (START, END, FAILURE, BEST)
DESKTOP, MAIL, WEBHOOK, COMMAND, HOOK = "desktop", "mail", "webhook", "command", "hook"
WAYS: Final = (DESKTOP, MAIL, WEBHOOK, COMMAND)
LONGEST_WAY: Final = 2000


@dataclass(frozen=True, slots=True)
class Message:
    """`ways` are as users write them: `mail`, `mail:ann@example.org`, `https://…`."""

    event: str
    ways: tuple[str, ...]
    title: str
    text: str
    job_id: str = ""
    name: str = ""
    phase: str = ""
    exit_code: int | None = None
    user: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def message_of(text: str) -> Message:
    told = json.loads(text)
    known = {item.name for item in fields(Message)}
    found = {name: value for name, value in told.items() if name in known}
    return Message(**{**found, "ways": tuple(found["ways"])})


def way_trouble(way: str) -> str:
    """Why nobody can be told by it; "" if they can."""
    kind, colon, rest = way.partition(":")
    if len(way) > LONGEST_WAY:
        return f"is too long; a way to be told has {LONGEST_WAY:,} characters at most"
    if not way.isprintable():
        return "holds characters that cannot be printed"
    if kind in ("http", "https"):
        return "" if rest.startswith("//") and len(rest) > 2 else "is no address of a webhook"
    if kind == MAIL and colon:
        return "" if "@" in rest and " " not in rest else "names no mail address"
    if way in WAYS:
        return ""
    return f"is none of {', '.join(WAYS)}, mail:ADDRESS or https://…"
