"""Clusters from a CSV with one node per line: our columns, or those of Alibaba's node list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import each


class Spelling(NamedTuple):
    """A column, the field of `Node` it fills, and how its cells are read."""

    field: str
    parse: Callable[[str], Any]


def _thousandths(text: str) -> float:
    return cells.amount(text) / 1000.0


def _mebibytes(text: str) -> float:
    return cells.amount(text) / 1024.0


SPELLINGS: Mapping[str, Spelling] = {
    **dict.fromkeys(("node", "id", "node_id", "sn", "name"), Spelling("id", cells.given)),
    **dict.fromkeys(("gpus", "gpu", "num_gpus"), Spelling("gpus", cells.whole)),
    **dict.fromkeys(("kind", "model", "gpu_type"), Spelling("kind", cells.label)),
    "gpu_memory_gb": Spelling("gpu_memory_gb", cells.amount),
    "cpus": Spelling("cpus", cells.amount),
    "cpu_milli": Spelling("cpus", _thousandths),
    "memory_gb": Spelling("memory_gb", cells.amount),
    "memory_mib": Spelling("memory_gb", _mebibytes),
    "rack": Spelling("rack", cells.label),
    "island": Spelling("island", cells.whole),
    "tenant": Spelling("tenant", cells.label),
    "idle_watts": Spelling("idle_watts", cells.amount),
    "gpu_watts": Spelling("gpu_watts", cells.amount),
}


def read_node_list(source: str) -> tuple[Node, ...]:
    nodes: dict[str, Node] = {}
    for line, node in each(source, _maker):
        if node.id in nodes:
            raise BadInput(f"{source}:{line}: node {node.id!r} appears twice")
        nodes[node.id] = node
    if not nodes:
        raise BadInput(f"{source} has no nodes below its header")
    return tuple(nodes.values())


def _maker(header: cells.Header) -> cells.Read[Node]:
    columns = {
        spelling.field: cells.column(header, name, spelling.parse)
        for name, spelling in SPELLINGS.items()
        if name in header
    }
    if not columns.keys() >= {"id", "gpus"}:
        raise BadInput(
            f"{header.source}: a list of nodes has the columns node,gpus, "
            f"not {cells.shown(header.names)}"
        )

    def node(row: cells.Row) -> Node:
        return Node(**{field: read(row) for field, read in columns.items()})

    return node
