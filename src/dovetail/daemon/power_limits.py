"""Power limits on real GPUs: which of a table this machine can set, and books that say what was set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.core.entries import Action, Resize, Start
from dovetail.core.loop import Policy
from dovetail.core.model import Node
from dovetail.core.view import View
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.worlds.world import Power

NO_TABLE = "none"  # said instead of files: forget those of last time


def table_of(texts: Sequence[str]) -> PowerTable:
    """The power table of these files, GPUs on other machines included."""
    if not texts:
        return NO_LIMITS
    from dovetail.traces.clusters.power_tables import read_power_tables

    return read_power_tables(texts)


def settable(table: PowerTable, limits: Power, nodes: Sequence[Node]) -> PowerTable:
    """Its limits that GPUs here can have. What they cannot have is said."""
    if not table:
        return table
    known = [node for node in nodes if node.kind in table.kinds]
    if not known:
        here = ", ".join([node.kind for node in nodes])
        limits.notice(f"no power limits: the power table has nothing for the GPUs here ({here})")
    ranges = limits.try_out(known)
    for kind, (low, high) in ranges.items():
        odd = sorted([watts for watts in table.limits(kind) if not low <= watts <= high])
        if odd:
            told = ", ".join(map(str, odd))
            limits.notice(f"no power limits of {told} W: {kind} may have {low:g} to {high:g} W")
    return table.within(ranges)


@dataclass(frozen=True, slots=True)
class AsSet:
    """Stands where a policy stands. Once a GPU has refused a limit, no job is said to have one that
    its GPUs do not have."""

    inner: Policy
    limits: Power

    def decide(self, view: View) -> Iterable[Action]:
        actions = self.inner.decide(view)
        if not self.limits.failed:
            return actions
        return [*self._unlimited(actions), *self._corrected(view)]

    @staticmethod
    def _unlimited(actions: Iterable[Action]) -> Iterable[Action]:
        for action in actions:
            if isinstance(action, Start) and action.placement.limit:
                yield Start(action.job_id, action.placement.limited_to(0))
            elif not (isinstance(action, Resize) and action.placement.limit):
                yield action

    def _corrected(self, view: View) -> Iterable[Action]:
        nodes = view.room.nodes
        for track in list(view.running.values()):
            placement = track.placement
            assert placement is not None
            if placement.limit and not self.limits.is_held(placement, nodes):
                yield Resize(track.job.id, placement.limited_to(0))
