"""What Sia chooses from, taken from the view: configurations, and what each is worth to each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from dovetail.core.inventory import Pool
from dovetail.core.model import JobId
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.goodput import Floats, best_batch
from dovetail.models.goodput_agent import ToldGoodput, read_goodput
from dovetail.policies.goodput.configurations import Configuration, configurations
from dovetail.policies.goodput.packing import packed_rows
from dovetail.policies.goodput.posing import is_open, kept, most_gpus
from dovetail.policies.goodput.program import NONE, Choices, Program, costs
from dovetail.policies.goodput.taking import Row, row_of, takes_part
from dovetail.predict.speed import SpeedPredictor


@dataclass(frozen=True, eq=False)
class PosedChoice:
    """The problem as plain data: which rows and columns of the program are which jobs and counts."""

    jobs: tuple[JobId, ...]
    columns: tuple[Configuration, ...]
    program: Program
    held: Mapping[JobId, Row]
    nodes: Sequence[Mapping[int, int]]  # by kind: GPUs of each node that can be shared out

    def rows(self, chosen: Choices) -> dict[JobId, Row]:
        """What was chosen, on nodes."""
        wanted: list[dict[JobId, int]] = [{} for _ in self.nodes]
        rows: dict[JobId, Row] = {}
        for job_id, column in zip(self.jobs, chosen.configuration, strict=True):
            if column == NONE:
                rows[job_id] = ()
            else:
                wanted[self.columns[column].kind][job_id] = self.columns[column].gpus
        for number, nodes in enumerate(self.nodes):
            there = {j: row for j, row in self.held.items() if row and row[0][0] in nodes}
            rows |= packed_rows(wanted[number], there, nodes)
        return rows


def posed_choice(
    view: View, speeds: SpeedPredictor, power: float, without: float, change: float
) -> PosedChoice | None:
    """The problem of this moment; None: there is nobody or nothing to choose for."""
    room = view.room
    tracks = [track for track in view.tracks.values() if takes_part(track) and is_open(room, track)]
    nodes = _nodes(room, tracks)
    if not tracks or not any(nodes):
        return None
    columns = _columns(room, tracks, nodes)
    worth = np.array([_worth(room, track, columns, speeds) for track in tracks])
    numbers = {(one.kind, one.gpus): number for number, one in enumerate(columns)}
    held = np.array([_held(room, track, numbers) for track in tracks])
    cost = costs(worth, held, np.array([_kept(track, view.now) for track in tracks]), power)
    moves = (held >= 0)[:, None] & (np.arange(len(columns)) != held[:, None])
    program = Program(
        cost=cost + change * moves,
        without=without,
        gpus=np.array([one.gpus for one in columns]),
        kind=np.array([one.kind for one in columns]),
        room=np.array([sum(own.values()) for own in nodes]),
        kept=np.full(len(tracks), NONE),
    )
    rows = {track.job.id: tuple(sorted(row_of(track.placement))) for track in tracks}
    return PosedChoice(tuple(rows), tuple(columns), program, rows, nodes)


def _nodes(room: Room, tracks: Sequence[Track]) -> list[dict[int, int]]:
    """By pool: what is free on each open node, and what those have who take part."""
    found = [{n: room.count[n] for n in pool.members if room.open[n]} for pool in room.pools]
    for track in tracks:
        for n, gpus in row_of(track.placement):
            found[room.pool_of[n].index][n] += gpus
    return found


def _columns(
    room: Room, tracks: Sequence[Track], nodes: Sequence[Mapping[int, int]]
) -> list[Configuration]:
    """Sia's configurations, as far as any job may have so many, and the counts that jobs ask for or
    have beside them."""
    found: dict[tuple[int, int], Configuration] = {}
    most = max([most_gpus(track) for track in tracks])
    for pool in room.pools:
        sizes = [room.nodes[n].gpus for n in nodes[pool.index]]
        whole = min(sizes.count(pool.width), ceil(most / max(pool.width, 1)))
        for one in configurations(pool.index, whole, pool.width if sizes else 0):
            found[one.kind, one.gpus] = one
    for track in tracks:
        counts = (
            {track.job.least_gpus} if not track.job.elastic or track.job.least_gpus > 1 else set()
        )
        for pool in room.eligible(track.shape) if counts else ():
            _add(found, pool, counts)
        if track.placement is not None:
            _add(found, room.pool_of[track.placement.slices[0].node], {track.placement.gpus})
    return list(found.values())


def _add(found: dict[tuple[int, int], Configuration], pool: Pool, counts: set[int]) -> None:
    for gpus in counts:
        nodes = ceil(gpus / max(pool.width, 1))
        found.setdefault((pool.index, gpus), Configuration(pool.index, nodes, gpus))


def _held(room: Room, track: Track, numbers: Mapping[tuple[int, int], int]) -> int:
    place = track.placement
    if place is None:
        return NONE
    return numbers[room.pool_of[place.slices[0].node].index, place.gpus]


def _kept(track: Track, now: float) -> float:
    """Nobody is held back before it could have restarted once."""
    costs_s = track.save_s + track.restore_s
    return 1.0 if now - track.submitted_at < costs_s else kept(track, now)


def _worth(
    room: Room, track: Track, columns: Sequence[Configuration], speeds: SpeedPredictor
) -> Floats:
    """The goodput of each configuration; 0 where the job may not be."""
    least, most = track.job.least_gpus, most_gpus(track)
    pools = {pool.index for pool in room.eligible(track.shape)}
    fits = [
        number
        for number, one in enumerate(columns)
        if least <= one.gpus <= most and one.kind in pools and _counts(track, one.gpus)
    ]
    found = np.zeros(len(columns))
    if fits:
        found[fits] = _goodputs(room, track, [columns[number] for number in fits], speeds)
    return found


def _goodputs(
    room: Room, track: Track, columns: Sequence[Configuration], speeds: SpeedPredictor
) -> Floats:
    told = read_goodput(track.metrics)
    if told is not None:
        return _as_told(track, told, room, columns, speeds)
    if track.job.elastic and not track.resumed:
        return np.ones(len(columns))  # the same on all kinds, as long as nobody knows
    ways = [(room.pools[one.kind].kind, one.gpus, one.nodes) for one in columns]
    return np.array([speeds.speed(track.job, *way) for way in ways])


def _counts(track: Track, gpus: int) -> bool:
    """Jobs that were timed keep to the count they asked for."""
    return gpus == track.job.gpus if track.job.options else True


def _as_told(
    track: Track,
    told: ToldGoodput,
    room: Room,
    columns: Sequence[Configuration],
    speeds: SpeedPredictor,
) -> Floats:
    """By the law of that kind; where it has never been, by that of another, as much faster as this
    kind is believed to be with one GPU."""
    found = np.zeros(len(columns))
    for number in {one.kind for one in columns}:
        own = np.array([one.kind == number for one in columns])
        kind = room.pools[number].kind
        known = kind if kind in told.laws else next(iter(told.laws))
        each = room.pools[number].width if known == kind else _width(room, known)
        gpus = np.array([one.gpus for one in columns])[own]
        law = told.laws[known]
        rates = best_batch(law.times, told.noise, law.batches, np.ceil(gpus / each), gpus).goodput
        found[own] = rates * _ratio(track, kind, known, speeds)
    return found


def _width(room: Room, kind: str) -> int:
    return max([pool.width for pool in room.pools if pool.kind == kind], default=1)


def _ratio(track: Track, kind: str, known: str, speeds: SpeedPredictor) -> float:
    if kind == known:
        return 1.0
    usual = speeds.speed(track.job, known, 1, 1)
    return speeds.speed(track.job, kind, 1, 1) / usual if usual > 0 else 1.0
