"""The 55 features and factors of deep-learning scheduling: which of them a trace has."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dovetail.core.model import Node
from dovetail.insight.evidence import DERIVABLE, MISSING, NOT_HERE, PRESENT, Found, evidence
from dovetail.traces.readers.cells import plain
from dovetail.traces.trace import Trace

# Policies of ours that take a predictor: every feature that predicts durations reaches them.
WITH_PREDICTOR = (
    *("qssf", "srtf", "srsf", "psjf", "sjf", "sjf-skip"),
    *("easy", "conservative", "least-laxity"),
)
UNREAD = ", which Dovetail does not read"
STATUSES = (PRESENT, DERIVABLE, MISSING)


@dataclass(frozen=True, slots=True)
class Item:
    """A feature of jobs or a factor of cluster or time, and whether this trace has it."""

    id: str
    name: str
    known: str  # submit, profile, run or end; empty for factors
    effect: str
    systems: str  # of the literature
    policies: tuple[str, ...]  # of ours that use it
    also: str  # other parts of ours that use it
    predicts: bool  # it reaches the policies that take a predictor
    status: str  # one of STATUSES
    evidence: str  # how we know, or the part of it that exists
    record: str  # how to record it


@dataclass(frozen=True, slots=True)
class Lacking:
    """A feature that hardly any system uses and that we propose to record."""

    name: str
    of: tuple[str, ...]  # the items it is about
    definition: str
    why: str
    here: str  # the best status of those items in this trace


@dataclass(frozen=True, slots=True)
class FeatureCatalogue:
    items: tuple[Item, ...]
    lacking: tuple[Lacking, ...]

    def count(self, status: str) -> int:
        return sum(item.status == status for item in self.items)


def catalogue(trace: Trace, nodes: Sequence[Node], tenants: int = 0) -> FeatureCatalogue:
    """The catalogue for a trace and a cluster; `tenants`: how many have a quota."""
    found = evidence(trace, nodes, tenants)
    columns = {plain(name): name for name in trace.columns}
    items = tuple(
        _item(row, *_better(found.get(row["id"], NOT_HERE), _unread(row, columns)))
        for row in _rows()["item"]
    )
    status = {item.id: item.status for item in items}
    return FeatureCatalogue(items, tuple(_lacking(row, status) for row in _rows()["lacking"]))


@cache
def _rows() -> Mapping[str, list[dict[str, Any]]]:
    return tomllib.loads((files("dovetail.insight") / "catalogue.toml").read_text("utf-8"))


def _unread(row: Mapping[str, Any], columns: Mapping[str, str]) -> Found:
    """Columns of the file that Dovetail does not read; the feature can be derived from them."""
    status = DERIVABLE if row["record"].startswith("column") else PRESENT
    for name in row.get("columns", ()):
        if name in columns:
            return status, f"column {columns[name]}{UNREAD}"
    return NOT_HERE


def _better(*found: Found) -> Found:
    return min(found, key=lambda each: STATUSES.index(each[0]))


def _item(row: Mapping[str, Any], status: str, said: str) -> Item:
    return Item(
        id=row["id"],
        name=row["name"],
        known=row.get("known", ""),
        effect=row["effect"],
        systems=row["systems"],
        policies=tuple(row["policies"]),
        also=row.get("also", ""),
        predicts=row.get("predicts", False),
        status=status,
        evidence=said,
        record=row["record"],
    )


def _lacking(row: Mapping[str, Any], status: Mapping[str, str]) -> Lacking:
    here = min((status[item] for item in row["of"]), key=STATUSES.index, default=MISSING)
    return Lacking(row["name"], tuple(row["of"]), row["definition"], row["why"], here)
