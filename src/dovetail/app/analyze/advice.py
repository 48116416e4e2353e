"""What to record from now on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.insight.catalogue import Catalogue, Item
from dovetail.insight.evidence import MISSING

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


def advice(table: Catalogue | None) -> Iterator[Advice]:
    missing = {item.id: item for item in table.items if item.status == MISSING} if table else {}
    wanted = [missing[name] for name in RECORD_FIRST if name in missing]
    for item in wanted[:ADVISED]:
        yield Advice(item.id, item.name, _use(item), item.record)


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
