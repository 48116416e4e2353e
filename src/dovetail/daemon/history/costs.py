"""The costs of running jobs on this machine: as policies are told, and as the journal says they were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from dovetail.core.entries import Event, JournalEntry
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Seconds
from dovetail.core.state import State
from dovetail.models.cost import Costs, rates_of
from dovetail.models.hourly import DAY, Hourly
from dovetail.results.charges import Charges
from dovetail.traces.clusters.cost_files import read_costs, told_without_watts

Figures: TypeAlias = Mapping[str, float | int]  # by the name of a charge

NO_FILE = "none"  # said instead of a file: forget the one of last time


def costs_here(path: str | None, nodes: Sequence[Node], epoch: float) -> Costs:
    """As the file says, else what is known of the nodes' power. Hours are those of the wall clock."""
    if path in (None, NO_FILE):
        return Costs(rates_of(nodes))
    assert path is not None
    found = read_costs(path).costs(nodes)
    return replace(found, price=_daily(found.price, epoch), carbon=_daily(found.carbon, epoch))


def notice_of(costs: Costs, path: str, nodes: Sequence[Node]) -> str:
    """A notice for the administrator who gave prices; as a rule empty."""
    return "" if path == NO_FILE else told_without_watts(costs, [node.kind for node in nodes])


def _daily(table: Hourly, epoch: float) -> Hourly:
    if table.constant:
        return table
    if len(table.values) != DAY:
        raise BadInput(
            f"the {table.what} has {len(table.values)} hours; a daemon may run for ever: give one "
            "number, or 24 for every day"
        )
    began = datetime.fromtimestamp(epoch)
    midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
    return Hourly(table.values, table.what, midnight.timestamp() - epoch)


def charged(
    entries: Iterable[JournalEntry], costs: Costs, now: Seconds, since: Seconds = 0.0
) -> Figures:
    """The costs since then, computed from the journal as those of a simulation are."""
    state, charges = State(), Charges(costs)
    state.index(charges)
    before: Figures | None = None
    for entry in entries:
        if before is None and isinstance(entry, Event) and entry.at >= since:
            before = charges.figures(since)
        state.record(entry)
    until = max(now, state.now)
    if before is None:  # nothing has happened since, though jobs may have gone on
        before = charges.figures(min(since, until))
    after = charges.figures(until)
    return {name: value - before[name] for name, value in after.items()}
