"""`dovetail nodes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from dovetail.api.machine_row import Gpu, NodeRow, Nodes
from dovetail.api.wire import read
from dovetail.cli.reach import print_json, print_lines, shown_or_set, with_client
from dovetail.client.connection import Client
from dovetail.text.tables import Column, clean, has_colours, table


class _Slot(NamedTuple):
    """A GPU or processor slot, and its node."""

    node: NodeRow
    gpu: Gpu


def _state(row: _Slot) -> str:
    if not row.node.up:
        return "down"
    if row.gpu.strangers:
        return "in use by others"
    if row.gpu.closed:
        return "closed" if not row.gpu.jobs else "to be vacated" if row.gpu.to_vacate else "closing"
    return "busy" if row.gpu.jobs else "free"


def _users(row: _Slot) -> str:
    """Its jobs, else others who compute there, and why it is closed."""
    jobs = [
        f"{own.job} {own.name} ({own.user}{f', {own.share:.0%}' if own.share < 1 else ''})"
        for own in row.gpu.jobs
    ]
    closed = [f"closed {row.gpu.closed}"] if row.gpu.closed else []
    return "; ".join([", ".join(jobs)] * bool(jobs) + list(map(clean, row.gpu.others)) + closed)


def _memory(row: _Slot) -> str:
    return f"{row.node.gpu_memory_gb:.0f} GB" if row.node.gpu_memory_gb else ""


_STYLES = {
    "free": "green",
    "in use by others": "red",
    "down": "red",
    **dict.fromkeys(("closed", "closing", "to be vacated"), "yellow"),
}
_COLUMNS: tuple[Column[_Slot], ...] = (
    Column("NODE", lambda row: row.node.id, least=8),
    Column("GPU", lambda row: str(row.gpu.index), right=True),
    Column("KIND", lambda row: row.node.kind, least=6),
    Column("MEMORY", _memory, right=True),
    Column("STATE", _state, style=lambda row: _STYLES.get(_state(row), "")),
    Column("UUID", lambda row: row.gpu.uuid or "", least=14),
    Column("USED BY", _users, least=12),
)


@shown_or_set
def nodes(client: Client, as_json: bool) -> None:
    """Every GPU or slot, who has it, and whether processes of others use it; `nodes close` and `nodes
    open` say where jobs may start."""
    found = read(Nodes, client.get("/v1/nodes")).nodes
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Sequence[NodeRow]) -> None:
    slots = [_Slot(node, gpu) for node in found for gpu in node.gpus]
    print_lines(table(_COLUMNS, slots, colours=has_colours()))


_NAMES = "GPU|NODE"


@nodes.command("close")
@click.argument("gpus", metavar=f"{_NAMES}...", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="Told to everybody whose job waits.")
@click.option("--vacate", is_flag=True, help="Jobs there give way.  [they end in peace]")
@with_client
def close(client: Client, gpus: Sequence[str], reason: str, vacate: bool) -> None:
    """Let nothing start on GPUs or nodes any more, until they are opened.

    \b
    dovetail nodes close 2              GPU 2; 0,2-3 for several
    dovetail nodes close zeus/2         of one of several nodes
    dovetail nodes close zeus --vacate  all of a node; jobs there give way
    """
    asked = {"gpus": list(gpus), "reason": reason, "vacate": vacate}
    _print(read(Nodes, client.post("/v1/nodes/close", asked)).nodes)


@nodes.command("open")
@click.argument("gpus", metavar=f"[{_NAMES}]...", nargs=-1)
@with_client
def open_again(client: Client, gpus: Sequence[str]) -> None:
    """Let jobs start there again; without a name wherever it is closed."""
    _print(read(Nodes, client.post("/v1/nodes/open", {"gpus": list(gpus)})).nodes)
