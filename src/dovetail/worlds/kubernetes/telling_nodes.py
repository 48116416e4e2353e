"""From the nodes of a cluster as they are to events for the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dovetail.core.entries import Event, NodeDraining, NodeJoined, NodeLeft, NodeUp, Occupied
from dovetail.core.model import Seconds
from dovetail.core.room import Room
from dovetail.core.view import View
from dovetail.worlds.kubernetes.inventory import Machine, Taken

_NOTHING: Final = (0, 0.0, 0.0)


def node_events(
    view: View, machines: Mapping[str, Machine], taken: Mapping[str, Taken], now: Seconds
) -> list[Event]:
    """What changes the nodes that the view knows into these."""
    room = view.room
    known = {node.id: n for n, node in enumerate(room.nodes) if n not in room.gone}
    used = _used_gpus(view)
    events: list[Event] = []
    for name, n in known.items():
        if name not in machines:
            events += _leaves(name, n, used, room.open[n], now)
    for name, machine in machines.items():
        n = known.get(name, -1)
        if n < 0:
            events.append(NodeJoined(now, machine.node))
            events += [] if machine.is_open else [NodeDraining(now, name)]
        else:
            events += _changes(view, n, machine, n in used, now)
        is_kept = n >= 0 and not any(isinstance(own, NodeLeft) for own in events[-2:])
        held = used.get(n, 0) if is_kept else 0
        others = _of_others(machine, taken.get(name, Taken()), held)
        if others != (_as_told(room, n) if is_kept else _NOTHING):
            events.append(Occupied(now, name, others[0], others[1] or None, others[2] or None))
    return events


def _as_told(room: Room, n: int) -> tuple[int, float, float]:
    cpus, memory_gb = room.strangers_host.get(n, (0.0, 0.0))
    return room.strangers.get(n, 0), cpus, memory_gb


def _of_others(machine: Machine, taken: Taken, used: int) -> tuple[int, float, float]:
    """GPUs, CPUs and memory: in thousandths, so that sums of parts do not differ for nothing."""
    return _strangers(machine, taken, used), round(taken.cpus, 3), round(taken.memory_gb, 3)


def _used_gpus(view: View) -> dict[int, int]:
    """By node, the GPUs that jobs of ours hold; of a job without GPUs none, but it is there."""
    used: dict[int, int] = {}
    for track in view.running.values():
        if track.placement is not None:
            for piece in track.placement.slices:
                used[piece.node] = used.get(piece.node, 0) | piece.mask
    return used


def _leaves(name: str, n: int, used: Mapping[int, int], is_open: bool, now: Seconds) -> list[Event]:
    """First nothing new starts there; it is forgotten when nothing of ours is left."""
    if n not in used:
        return [NodeLeft(now, name)]
    return [NodeDraining(now, name)] if is_open else []


def _changes(view: View, n: int, machine: Machine, is_used: bool, now: Seconds) -> list[Event]:
    room, name = view.room, machine.node.id
    is_same = room.nodes[n] == machine.node
    if not (is_same or is_used):
        joined: list[Event] = [NodeLeft(now, name), NodeJoined(now, machine.node)]
        return joined if machine.is_open else [*joined, NodeDraining(now, name)]
    # One that shows fewer GPUs for a moment (its kubelet starts) or has become another while jobs
    # run there is given nothing new; that there is an agent now matters from the next job on.
    is_like = replace(room.nodes[n], keeps=machine.node.keeps) == machine.node
    is_open = machine.is_open and is_like
    if is_open == room.open[n]:
        return []
    return [NodeUp(now, name) if is_open else NodeDraining(now, name)]


def _strangers(machine: Machine, taken: Taken, used: int) -> int:
    """Nobody says which GPUs pods of others have: the last of those that ours have not."""
    mask, left = 0, min(taken.gpus, machine.node.gpus)
    for gpu in reversed(range(machine.node.gpus)):
        if left and not used >> gpu & 1:
            mask |= 1 << gpu
            left -= 1
    return mask
