"""What to record from now on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.insight.catalogue import UNREAD, FeatureCatalogue, Item
from dovetail.insight.evidence import DERIVABLE, MISSING

# What most is missing where it is missing: first what predictors and policies could use tomorrow.
RECORD_FIRST = (
    *("J30", "J1", "J4", "J6", "J32", "J31", "J8", "J7", "J11", "J16", "J27", "J35", "J14", "J26"),
    *("J19", "J18", "J21", "J22", "J20", "C7", "J37", "J10"),
)
ADVISED = 6


@dataclass(frozen=True, slots=True)
class Advice:
    id: str
    name: str
    why: str
    how: str


def advice(table: FeatureCatalogue | None) -> Iterator[Advice]:
    lacking = {item.id: item for item in table.items if _lacks(item)} if table else {}
    wanted = [lacking[name] for name in RECORD_FIRST if name in lacking]
    for item in wanted[:ADVISED]:
        there = f" (there is {item.evidence})" if item.status == DERIVABLE else ""
        yield Advice(item.id, item.name, _use(item), f"{item.record}{there}")


def _lacks(item: Item) -> bool:
    """Also what the file says in a way that Dovetail does not read, but could under another name."""
    unread = item.status == DERIVABLE and item.evidence.endswith(UNREAD)
    return item.status == MISSING or unread


def _use(item: Item) -> str:
    users = []
    if item.policies:
        named = item.policies[:4]
        users.append(f"{', '.join(named)} {'uses' if len(named) == 1 else 'use'} it")
    if item.also:
        users.append(f"{item.also} use it")
    if item.predicts:
        users.append("predictors of durations learn from it")
    return "; ".join(users) or item.effect
