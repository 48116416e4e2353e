"""Tenants of a cluster: their quotas, and the nodes that are theirs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from os import PathLike, fspath

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Tenant
from dovetail.traces.clusters.toml_tables import settings, tables
from dovetail.traces.readers.cells import Header, Read, column, given, shown, whole
from dovetail.traces.readers.rows import each

NAMES = ("tenant", "vc", "name")
COUNTS = ("nodes", "node_num", "num_nodes", "count")


@dataclass(frozen=True, slots=True)
class Holding:
    """A tenant and the number of its own nodes; one [[tenants]] of a TOML file."""

    name: str
    nodes: int = 0
    gpu_quota: float = inf
    weight: float = 1.0


def read_tenants(path: str | PathLike[str]) -> tuple[Tenant, ...]:
    """From a CSV `tenant,nodes` (or Philly's `vc,node num`), or TOML with quotas and weights."""
    return tuple(
        Tenant(holding.name, holding.gpu_quota, holding.weight)
        for holding in _holdings(fspath(path))
    )


def split_by_tenants(nodes: Sequence[Node], path: str | PathLike[str]) -> tuple[Node, ...]:
    """Give each tenant its number of nodes, both in their order.

    Nodes that already have a tenant keep it; nodes left over stay open to everyone.
    """
    source = fspath(path)
    holdings = _holdings(source)
    if not any(holding.nodes for holding in holdings):
        raise BadInput(
            f"{source} gives no tenant any nodes; give them some (nodes = 2), "
            "or name the file with --quotas if it is about quotas"
        )
    return _split(nodes, holdings, source)


def tenants_of_cluster(source: str) -> tuple[Tenant, ...]:
    """The tenants of a cluster file, which need not have any."""
    return read_tenants(source) if "tenants" in tables(source) else ()


def split_by_cluster(nodes: Sequence[Node], source: str) -> tuple[Node, ...]:
    """The same as `split_by_tenants` for a cluster file and its own tenants."""
    return _split(nodes, _holdings(source), source) if "tenants" in tables(source) else tuple(nodes)


def _split(nodes: Sequence[Node], holdings: Sequence[Holding], source: str) -> tuple[Node, ...]:
    free = [index for index, node in enumerate(nodes) if not node.tenant]
    wanted = sum(holding.nodes for holding in holdings)
    if wanted > len(free):
        raise BadInput(f"{source} gives away {wanted} nodes, but the cluster has {len(free)}")
    split = list(nodes)
    unclaimed = iter(free)
    for holding in holdings:
        for _, index in zip(range(holding.nodes), unclaimed, strict=False):
            split[index] = replace(split[index], tenant=holding.name)
    return tuple(split)


def _holdings(source: str) -> list[Holding]:
    holdings = _from_toml(source) if source.endswith(".toml") else _from_csv(source)
    if not holdings:
        raise BadInput(f"{source} names no tenants")
    names = [holding.name for holding in holdings]
    for name in names:
        if not name or names.count(name) > 1:
            raise BadInput(
                f"{source}: tenant {name!r} {'appears twice' if name else 'has no name'}"
            )
    return holdings


def _from_toml(source: str) -> list[Holding]:
    found = tables(source).get("tenants")
    if not isinstance(found, list):
        raise BadInput(f"{source}: there are no tenants; add [[tenants]] with name and nodes")
    return [settings(Holding, table, f"{source}: tenants {i}") for i, table in enumerate(found, 1)]


def _from_csv(source: str) -> list[Holding]:
    return [holding for _, holding in each(source, _holding)]


def _holding(header: Header) -> Read[Holding]:
    name = column(header, _first_of(header, NAMES), given)
    nodes = column(header, _first_of(header, COUNTS), whole)
    return lambda row: Holding(name(row), nodes(row))


def _first_of(header: Header, names: Sequence[str]) -> str:
    for name in names:
        if name in header:
            return name
    raise BadInput(
        f"{header.source}: a list of tenants has the columns tenant,nodes, "
        f"not {shown(header.names)}"
    )
