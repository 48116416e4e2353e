"""Failures and changes of nodes during a run: read from a file, or drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.core.entries import NodeDown, NodeDraining, NodeJoined, NodeLeft, NodeUp
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.failures import NodeFailures
from dovetail.traces.clusters.cluster_text import MOST_GPUS
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import each

NodeEvent = NodeJoined | NodeDown | NodeUp | NodeDraining | NodeLeft
_KINDS: Mapping[str, type[NodeDown | NodeUp | NodeDraining | NodeLeft]] = {
    "down": NodeDown,
    "up": NodeUp,
    "drain": NodeDraining,
    "leave": NodeLeft,
}
_COLUMNS = ("at_s", "node", "event")


def read_node_events(path: str, nodes: Sequence[Node]) -> list[NodeEvent]:
    """CSV with at_s,node,event (down, up, drain, leave, join) and for a join gpus and kind."""
    events = sorted(
        each(path, _maker), key=lambda found: found[1].at
    )  # equal times: as in the file
    present = {node.id for node in nodes}
    for line, event in events:
        if isinstance(event, NodeJoined):
            node_id = event.node.id
            wrong = f"there is a node {node_id!r} already" if node_id in present else ""
            present.add(node_id)
        else:
            wrong = "" if event.node_id in present else f"there is no node {event.node_id!r}"
            if isinstance(event, NodeLeft):
                present.discard(event.node_id)
        if wrong:
            raise BadInput(f"{path}:{line}: column 'node': {wrong}")
    return [event for _, event in events]


def _maker(header: cells.Header) -> cells.Read[NodeEvent]:
    if not all(name in header for name in _COLUMNS):
        raise BadInput(
            f"{header.source}: node events have the columns {','.join(_COLUMNS)}, "
            f"not {cells.shown(header.names)}"
        )
    at = cells.column(header, "at_s", cells.seconds)
    node_id = cells.column(header, "node", cells.given)
    what = cells.column(header, "event", _event)
    gpus = cells.column(header, "gpus", cells.whole) if "gpus" in header else None
    kind = cells.column(header, "kind", cells.label) if "kind" in header else None

    def event(row: cells.Row) -> NodeEvent:
        happens = _KINDS.get(what(row))
        if happens is not None:
            return happens(at(row), node_id(row))
        if gpus is None:
            raise cells.CellError("a node that joins needs a column 'gpus'")
        if (count := gpus(row)) > MOST_GPUS:
            raise cells.CellError(f"{count} GPUs in one node; give at most {MOST_GPUS}")
        return NodeJoined(at(row), Node(node_id(row), count, (kind and kind(row)) or "gpu"))

    return event


def _event(text: str) -> str:
    name = text.strip()
    if name not in _KINDS and name != "join":
        raise ValueError(f"is not one of {', '.join(_KINDS)}, join")
    return name


def random_failures(text: str, seed: int) -> NodeFailures:
    """`MTBF/REPAIR` in hours."""
    mtbf, _, repair = text.partition("/")
    try:
        hours = float(mtbf), float(repair)
    except ValueError:
        hours = (0.0, 0.0)
    if not all(0 < value < 1e9 for value in hours):
        raise BadInput(
            f"--node-failures {text!r}: give mean hours up and to repair, such as 2000/4"
        )
    return NodeFailures(hours[0] * 3600, hours[1] * 3600, seed)
