"""`dovetail nodes`."""

from __future__ import annotations

from typing import NamedTuple

import click

from dovetail.api.machine_row import Gpu, NodeRow, Nodes
from dovetail.api.wire import read
from dovetail.cli.reach import as_json, print_json, print_lines, with_client
from dovetail.client.connection import Client
from dovetail.text.tables import Column, has_colours, table


class _Slot(NamedTuple):
    """A GPU or processor slot, and its node."""

    node: NodeRow
    gpu: Gpu


def _state(row: _Slot) -> str:
    if not row.node.up:
        return "down"
    if row.gpu.strangers:
        return "in use by others"
    return "busy" if row.gpu.jobs else "free"


def _jobs(row: _Slot) -> str:
    return ", ".join(
        f"{own.job} {own.name}" + (f" ({own.share:.0%})" if own.share < 1 else "")
        for own in row.gpu.jobs
    )


def _memory(row: _Slot) -> str:
    return f"{row.node.gpu_memory_gb:.0f} GB" if row.node.gpu_memory_gb else ""


_STYLES = {"free": "green", "in use by others": "red", "down": "red"}
_COLUMNS: tuple[Column[_Slot], ...] = (
    Column("NODE", lambda row: row.node.id, least=8),
    Column("GPU", lambda row: str(row.gpu.index), right=True),
    Column("KIND", lambda row: row.node.kind, least=6),
    Column("MEMORY", _memory, right=True),
    Column("STATE", _state, style=lambda row: _STYLES.get(_state(row), "")),
    Column("UUID", lambda row: row.gpu.uuid or "", least=14),
    Column("JOBS", _jobs, least=12),
)


@click.command()
@as_json
@with_client
def nodes(client: Client, as_json: bool) -> None:
    """Every GPU or slot, who has it, and whether processes of others use it."""
    found = read(Nodes, client.get("/v1/nodes")).nodes
    if as_json:
        print_json(found)
        return
    slots = [_Slot(node, gpu) for node in found for gpu in node.gpus]
    print_lines(table(_COLUMNS, slots, colours=has_colours()))
