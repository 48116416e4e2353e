"""Clusters from a short text such as `8x8` or `4x8:V100+2x4:T4`, or from a CSV with one node per line:
our columns, or those of Alibaba's node list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from os.path import exists
from typing import Any, NamedTuple

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Tenant
from dovetail.traces.clusters.tenants import (
    read_tenants,
    split_by_cluster,
    split_by_tenants,
    tenants_of_cluster,
)
from dovetail.traces.clusters.toml_tables import settings, tables
from dovetail.traces.readers import cells
from dovetail.traces.readers.cells import LARGEST_AMOUNT
from dovetail.traces.readers.rows import each

__all__ = ["read_cluster", "read_cluster_tenants", "read_tenants", "split_by_tenants"]

EXAMPLE = "write 8x8 for 8 nodes of 8 GPUs, 4x8:V100+2x4:T4 for two kinds, or name a .toml file"
MOST_NODES = 100_000
MOST_GPUS = 1024  # of one node
GROUP = re.compile(r"(\d+)[xX×](\d+)(?::([\w./-]+))?")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes: one [[nodes]] of a cluster file."""

    gpus: int
    count: int = 1
    name: str = "n"  # nodes are called n0, n1, …
    kind: str = "gpu"
    gpu_memory_gb: float = 0.0
    cpus: float = inf
    memory_gb: float = inf
    rack: str = ""
    nodes_per_rack: int = 0  # instead of `rack`: r0, r1, … with so many nodes each
    island: int = 0
    tenant: str = ""
    idle_watts: float = 0.0
    gpu_watts: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)


def read_cluster(text: str) -> tuple[Node, ...]:
    """The nodes that a text or a TOML file describes."""
    text = text.strip()
    if text.endswith(".toml"):
        return split_by_cluster(_nodes(text, _groups_of_file(text)), text)
    if text.endswith((".csv", ".csv.gz")):
        return read_node_list(text)
    if exists(text):
        raise BadInput(f"cannot read a cluster from {text!r}: name a .toml or .csv file")
    return _nodes(text, [_group(text, part.strip()) for part in text.split("+")])


def read_cluster_tenants(text: str) -> tuple[Tenant, ...]:
    """The tenants, with their quotas, that the same text or file describes."""
    text = text.strip()
    return tenants_of_cluster(text) if text.endswith(".toml") else ()


def _group(text: str, part: str) -> NodeGroup:
    match = GROUP.fullmatch(part)
    if match is None:
        raise BadInput(f"{text!r} is not a cluster: {EXAMPLE}")
    count, gpus, kind = match.groups()
    if not int(gpus[:9]):
        raise BadInput(f"{text!r} is not a cluster: its nodes have no GPUs; {EXAMPLE}")
    return NodeGroup(int(gpus[:9]), int(count[:9]), kind=kind or "gpu")


def _groups_of_file(path: str) -> list[NodeGroup]:
    found = tables(path).get("nodes")
    if not isinstance(found, list) or not found:
        raise BadInput(f"{path}: there are no nodes; add [[nodes]] with count = 8 and gpus = 8")
    return [settings(NodeGroup, table, f"{path}: nodes {i}") for i, table in enumerate(found, 1)]


def _nodes(source: str, groups: list[NodeGroup]) -> tuple[Node, ...]:
    for group in groups:
        if group.count < 1:
            raise BadInput(f"{source}: a group of {group.count} nodes; give at least 1")
        if group.gpus > MOST_GPUS:
            raise BadInput(f"{source}: {group.gpus} GPUs in one node; give at most {MOST_GPUS}")
        for name in ("idle_watts", "gpu_watts"):
            if getattr(group, name) > LARGEST_AMOUNT:
                raise BadInput(
                    f"{source}: {name} is no number up to {LARGEST_AMOUNT:g}; give watts"
                )
    if sum(group.count for group in groups) > MOST_NODES:
        raise BadInput(f"{source}: more than {MOST_NODES:,} nodes; simulate a smaller cluster")
    try:
        nodes = {node.id: node for node in _numbered(groups)}
    except ValueError as error:
        raise BadInput(f"{source}: {error}") from None
    if len(nodes) < sum(group.count for group in groups):
        raise BadInput(f"{source}: two nodes have one name; give the groups other names")
    return tuple(nodes.values())


def _numbered(groups: list[NodeGroup]) -> Iterator[Node]:
    """Numbers continue from group to group of one name, and racks over all groups."""
    next_number: dict[str, int] = {}
    racks = 0
    for group in groups:
        start = next_number.get(group.name, 0)
        for index in range(group.count):
            rack = (
                f"r{racks + index // group.nodes_per_rack}" if group.nodes_per_rack else group.rack
            )
            yield _node(group, f"{group.name}{start + index}", rack)
        next_number[group.name] = start + group.count
        racks += -(-group.count // group.nodes_per_rack) if group.nodes_per_rack else 0


def _node(group: NodeGroup, node_id: str, rack: str) -> Node:
    shared: dict[str, Any] = {name: getattr(group, name) for name in SHARED}
    return Node(node_id, rack=rack, labels=tuple(sorted(group.labels.items())), **shared)


SHARED = (
    *("gpus", "kind", "gpu_memory_gb", "cpus", "memory_gb"),
    *("island", "tenant", "idle_watts", "gpu_watts"),
)


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
