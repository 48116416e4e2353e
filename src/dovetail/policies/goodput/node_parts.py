"""Nodes and jobs in parts that can be shared out apart (POP, Narayanan et al., SOSP 2021).

Nodes that share a job stay together, so that nobody must move because of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.core.room import Room
from dovetail.core.track import Track


@dataclass(slots=True)
class NodePart:
    """Some nodes, and the jobs that are there or may come."""

    tracks: list[Track] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    gpus: int = 0
    wanted: int = 0  # by its jobs, the least they need


def dealt_out(
    room: Room, tracks: Sequence[Track], nodes: Sequence[int], parts: int
) -> list[NodePart]:
    """Parts with about as many GPUs of each kind; a waiting job goes to the part that it may use and
    that has most GPUs for what its jobs need."""
    dealt = [NodePart() for _ in range(parts)]
    part_of: dict[int, NodePart] = {}
    groups = sorted(
        _together(tracks, nodes), key=lambda group: (room.nodes[group[0]].kind, -len(group))
    )
    for number, group in enumerate(groups):
        at = number % parts
        part = min(dealt[at:] + dealt[:at], key=lambda part: part.gpus)
        part.nodes += group
        part.gpus += sum([room.nodes[n].gpus for n in group])
        part_of.update(dict.fromkeys(group, part))
    for track in tracks:
        place = track.placement
        _add(_where(room, track, dealt) if place is None else part_of[place.slices[0].node], track)
    for part in dealt:
        part.nodes.sort()
    return dealt


def _together(tracks: Sequence[Track], nodes: Sequence[int]) -> list[list[int]]:
    """Nodes in groups: two that have a job in common are in one."""
    group_of = {n: [n] for n in nodes}
    for track in tracks:
        first, *others = [n for n, _ in track.placement.slices] if track.placement else [-1]
        for n in others:
            mine, theirs = group_of[first], group_of[n]
            if mine is not theirs:
                mine += theirs
                group_of.update(dict.fromkeys(theirs, mine))
    return list({id(group): group for group in group_of.values()}.values())


def _where(room: Room, track: Track, dealt: Sequence[NodePart]) -> NodePart:
    pools = room.eligible(track.shape)
    needs = track.job.least_gpus
    able = [
        part
        for part in dealt
        if sum([room.nodes[n].gpus for n in part.nodes if room.pool_of[n] in pools]) >= needs
    ]
    return max(able or dealt, key=lambda part: part.gpus / (part.wanted + needs))


def _add(part: NodePart, track: Track) -> None:
    part.tracks.append(track)
    part.wanted += track.job.least_gpus
