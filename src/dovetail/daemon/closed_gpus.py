"""GPUs and nodes as administrators name them to close them, and what is told of closed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.core.room import Room
from dovetail.daemon.gpus_told import gpu_number, numbers_in
from dovetail.text.counting import counted
from dovetail.text.gpu_numbers import gpu_numbers

_LEAST_OF_A_UUID = 8  # characters; fewer may mean a node


def named_gpus(room: Room, texts: Sequence[str]) -> dict[str, int]:
    """Masks by node. `2`, `0,2-3` (where there is one node), `NODE`, `NODE/0-1`, or the beginning of a
    UUID."""
    found: dict[str, int] = {}
    for text in texts:
        for n, mask in _named(room, text):
            name = room.nodes[n].id
            found[name] = found.get(name, 0) | mask
    return found


def _named(room: Room, text: str) -> Iterator[tuple[int, int]]:
    there = [n for n in range(len(room.nodes)) if n not in room.gone]
    for n in there:
        if room.nodes[n].id == text:
            if not room.nodes[n].gpus:
                raise BadInput(f"node {text!r} has no GPU that could be closed")
            yield n, (1 << room.nodes[n].gpus) - 1
            return
    by_uuid = [(n, gpu) for n in there for gpu in _by_uuid(room.nodes[n], text)]
    if len(by_uuid) > 1:
        raise BadInput(f"{text!r} is the beginning of {len(by_uuid)} GPUs' UUIDs; write more of it")
    if by_uuid:
        yield by_uuid[0][0], 1 << by_uuid[0][1]
        return
    node, slash, numbers = text.rpartition("/")
    yield from _numbered(
        room, [n for n in there if not slash or room.nodes[n].id == node], numbers, text
    )


def _by_uuid(node: Node, text: str) -> list[int]:
    if len(text) < _LEAST_OF_A_UUID:
        return []
    return [gpu for gpu, (_, uuid) in enumerate(node.labels[: node.gpus]) if uuid.startswith(text)]


def _numbered(room: Room, nodes: list[int], numbers: str, text: str) -> Iterator[tuple[int, int]]:
    names = ", ".join(room.nodes[n].id for n in range(len(room.nodes)) if n not in room.gone)
    if not nodes or not numbers[:1].isdigit():
        raise BadInput(f"there is no GPU or node {text!r}; the nodes are {names}")
    if len(nodes) > 1:
        raise BadInput(f"which node's GPU {text}? Write NODE/{text}; the nodes are {names}")
    (n,) = nodes
    places = {gpu_number(room.nodes[n], place): place for place in range(room.nodes[n].gpus)}
    for number in gpu_numbers(numbers):
        if number not in places:
            there = ", ".join(map(str, places))
            raise BadInput(f"node {room.nodes[n].id!r} has no GPU {number}; it has {there}")
        yield n, 1 << places[number]


def told_closed(room: Room) -> list[str]:
    """A line for all that are closed on a node for the same reason."""
    found: dict[tuple[int, str, bool], int] = {}
    for n, mask, why, vacate in room.told_closed():
        if n not in room.gone:
            found[n, why, vacate] = found.get((n, why, vacate), 0) | mask
    return [_line(room.nodes[n], mask, why, vacate) for (n, why, vacate), mask in found.items()]


def _line(node: Node, mask: int, why: str, vacate: bool) -> str:
    numbers = ", ".join(map(str, numbers_in(node, mask)))
    is_all = mask == (1 << node.gpus) - 1
    what = "node" if is_all else "slot" if node.kind == "cpu" else "GPU"
    told = (
        f"{what} {node.id}"
        if is_all
        else f"{what}{'s' * (mask & mask - 1 > 0)} {numbers} of {node.id}"
    )
    return f"{told} {'is' if is_all or not mask & mask - 1 else 'are'} closed {why}" + (
        ", its jobs give way" if vacate else ""
    )


def count_closed(room: Room, nodes: Sequence[int]) -> str:
    """`2 closed (by ann: its fan)`; "" if none is."""
    number = sum(room.closed.get(n, 0).bit_count() for n in nodes)
    why = sorted({why for (n, _), why in room.why_closed.items() if n in nodes})
    return f"{number} closed ({'; '.join(why[:2])})" if number else ""


def counted_closed(room: Room) -> str:
    """For a forecast."""
    number = sum(mask.bit_count() for n, mask in room.closed.items() if n not in room.gone)
    return f"{counted(number, 'GPU')} that an administrator has closed" if number else ""
