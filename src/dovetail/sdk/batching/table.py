"""Rules by name, as text: `static:wait_ms=2`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dovetail.sdk.batching.clipper import Clipper
from dovetail.sdk.batching.clockwork import Clockwork, Shepherd
from dovetail.sdk.batching.forming import BadRule, BatchRule
from dovetail.sdk.batching.nexus import Nexus
from dovetail.sdk.batching.static import Static
from dovetail.sdk.batching.symphony import Symphony

RULES: Final[Mapping[str, type[Any]]] = {
    "static": Static,
    "clipper": Clipper,
    "nexus": Nexus,
    "clockwork": Clockwork,
    "shepherd": Shepherd,
    "symphony": Symphony,
}


def make(text: str) -> BatchRule:
    """The rule that the text describes: its name, then `field=number` parts joined by colons."""
    name, *parts = text.split(":")
    if name not in RULES:
        raise BadRule(f"there is no batching rule {name!r}; choose from {', '.join(RULES)}")
    known = RULES[name].__dataclass_fields__
    values: dict[str, float] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in known:
            raise BadRule(f"{name} has no parameter {key!r}; it has {', '.join(known) or 'none'}")
        try:
            values[key] = float(value)
        except ValueError:
            raise BadRule(f"{name}: {key}={value!r} is not a number") from None
    rule: BatchRule = RULES[name](**values)
    return rule
