"""Kinds of made-up traffic by name."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.serving.traffic.made_up import Traffic

_MADE_UP = "dovetail.serving.traffic.made_up"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "poisson": (_MADE_UP, "Poisson"),
    "bursty": (_MADE_UP, "Bursty"),
    "daily": (_MADE_UP, "Daily"),
}
TRAFFIC = Catalogue(
    "kind of traffic", "dovetail catalogue traffic", "dovetail.traffic", BUILTIN, "requests"
)


def is_traffic(text: str) -> bool:
    """`bursty:rate=300` is; a file is not."""
    return text.partition(":")[0] in TRAFFIC.names()


def make(text: str) -> Traffic:
    traffic: Traffic = TRAFFIC.build(text, TRAFFIC.values(text, {}))
    return traffic
