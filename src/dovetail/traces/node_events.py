"""What happens to nodes during a run: read from a file, or drawn by chance."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from math import isfinite

from dovetail.core.entries import NodeDown, NodeDraining, NodeJoined, NodeLeft, NodeUp
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.failures import node_failures
from dovetail.models.workload import Arrival

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
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if rows and not set(_COLUMNS) <= set(rows[0]):
        raise BadInput(f"{path}: needs the columns {','.join(_COLUMNS)}; has {','.join(rows[0])}")
    known = {node.id for node in nodes}
    events = []
    for line, row in enumerate(rows, 2):
        event = _event(path, line, row)
        if isinstance(event, NodeJoined):
            known.add(event.node.id)
        elif event.node_id not in known:
            raise BadInput(f"{path}:{line}: column 'node': there is no node {event.node_id!r}")
        events.append(event)
    return events


def _event(path: str, line: int, row: dict[str, str]) -> NodeEvent:
    at = _number(path, line, "at_s", row["at_s"])
    what, node_id = row["event"], row["node"]
    if what == "join":
        gpus = int(_number(path, line, "gpus", row.get("gpus") or ""))
        return NodeJoined(at, Node(node_id, gpus, row.get("kind") or "gpu"))
    if what not in _KINDS:
        raise BadInput(
            f"{path}:{line}: column 'event': {what!r} is not one of {', '.join(_KINDS)}, join"
        )
    return _KINDS[what](at, node_id)


def _number(path: str, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise BadInput(f"{path}:{line}: column {column!r}: {text!r} is not a number, 0 or more")
    return value


def random_failures(
    text: str, nodes: Sequence[Node], arrivals: Sequence[Arrival], seed: int
) -> Sequence[NodeEvent]:
    """`MTBF/REPAIR` in hours, as failures and repairs until the work should long be done."""
    mtbf, _, repair = text.partition("/")
    try:
        hours = float(mtbf), float(repair)
    except ValueError:
        hours = (0.0, 0.0)
    if not all(0 < value < 1e9 for value in hours):
        raise BadInput(
            f"--node-failures {text!r}: give mean hours up and to repair, such as 2000/4"
        )
    if not arrivals:
        return []
    gpus = sum(node.gpus for node in nodes) or 1
    work = sum(arrival.work_s * arrival.job.gpus for arrival in arrivals)
    start, until = arrivals[0].at, arrivals[-1].at + 3 * work / gpus
    return node_failures(nodes, hours[0] * 3600, hours[1] * 3600, start, until, seed)
