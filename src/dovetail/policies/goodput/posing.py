"""What Pollux shares out: the nodes' GPUs, the jobs, and what each makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TypeAlias

import numpy as np

from dovetail.core.model import JobId, Seconds
from dovetail.core.room import Room
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.goodput import Floats, GradientNoise, best_batch
from dovetail.models.goodput_agent import KindLaw, ToldGoodput, read_goodput
from dovetail.policies.goodput.genetic import Sharing, States
from dovetail.policies.goodput.node_parts import NodePart, dealt_out
from dovetail.policies.goodput.taking import Row, takes_part
from dovetail.predict.speed import SpeedPredictor


@dataclass(frozen=True, eq=False)
class PosedSharing:
    """The problem as plain data: which rows and columns of the tables are which jobs and nodes."""

    jobs: tuple[JobId, ...]
    nodes: tuple[int, ...]
    sharing: Sharing
    seed: int

    def rows(self, state: States) -> dict[JobId, Row]:
        """A state by job."""
        return {
            job_id: tuple([(self.nodes[at], int(row[at])) for at in np.nonzero(row)[0]])
            for job_id, row in zip(self.jobs, state, strict=True)
        }


Posed: TypeAlias = tuple[PosedSharing, ...]  # parts that have no job and no node in common


def posed(view: View, speeds: SpeedPredictor, power: float, seed: int, parts: int) -> Posed | None:
    """The problem of this moment in so many parts; None: there is nobody or nothing to share out."""
    room, now = view.room, view.now
    tracks = [track for track in view.tracks.values() if takes_part(track) and is_open(room, track)]
    tracks.sort(key=lambda track: (track.service_by(now), track.submitted_at, track.sequence))
    nodes = [n for n, is_open in enumerate(room.open) if is_open and room.nodes[n].gpus]
    dealt = dealt_out(room, tracks, nodes, parts) if parts > 1 else [NodePart(tracks, nodes)]
    found = [
        _posed(view, part.tracks, part.nodes, speeds, power, seed + number)
        for number, part in enumerate(dealt)
        if part.tracks and part.nodes
    ]
    return tuple(found) or None


def _posed(
    view: View, tracks: list[Track], nodes: list[int], speeds: SpeedPredictor, power: float,
    seed: int,
) -> PosedSharing:  # fmt: skip
    room, now = view.room, view.now
    held = _held(tracks, nodes)
    free = np.array([room.count[n] for n in nodes]) + held.sum(axis=0)
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys([room.nodes[n].kind for n in nodes]))}
    most = np.array([min(most_gpus(track), int(free.sum())) for track in tracks])
    sharing = Sharing(
        speedup=_speedups(tracks, list(kinds), most, free, speeds),
        held=held,
        kept=np.array([kept(track, now) for track in tracks]),
        least=np.array([track.job.least_gpus for track in tracks]),
        most=most,
        room=free,
        legal=np.array([_legal(room, track, nodes) for track in tracks]),
        kinds=np.array([kinds[room.nodes[n].kind] for n in nodes]),
        power=power,
    )
    return PosedSharing(tuple([track.job.id for track in tracks]), tuple(nodes), sharing, seed)


def is_open(room: Room, track: Track) -> bool:
    """Whoever is on GPUs that are closed stays as it is."""
    return track.placement is None or room.is_open_at(track.placement)


def _held(tracks: list[Track], nodes: list[int]) -> States:
    at = {n: i for i, n in enumerate(nodes)}
    held = np.zeros((len(tracks), len(nodes)), dtype=np.int64)
    for number, track in enumerate(tracks):
        for n, _, gpus in () if track.placement is None else track.placement.uses:
            held[number, at[n]] = gpus
    return held


def _legal(room: Room, track: Track, nodes: list[int]) -> list[int]:
    pools = room.eligible(track.shape)
    return [int(room.pool_of[n] in pools) for n in nodes]


def most_gpus(track: Track) -> int:
    """At most twice what it has had, so that its law is never asked far beyond what it has seen."""
    job = track.job
    if not job.elastic or job.options:
        return job.gpus
    told = read_goodput(track.metrics)
    place = track.placement or track.left
    had = told.most_gpus if told is not None else 0 if place is None else place.gpus
    return min(job.most_gpus, max(2 * had, job.least_gpus))


def kept(track: Track, now: Seconds) -> float:
    """What a restart leaves of a speed-up: less for the young and for those that had many."""
    age = now - track.submitted_at
    costs = track.save_s + track.restore_s
    restarts = track.preemptions + track.resizes
    return max(age - restarts * costs, 0.0) / (age + costs) if age + costs > 0 else 1.0


def _speedups(
    tracks: list[Track], kinds: list[str], most: States, free: States, speeds: SpeedPredictor
) -> Floats:
    """[job, one node or several, GPUs]: goodput as a multiple of that with a fair share of all GPUs on
    one node, where a node's share of them counts as 1."""
    total, fair = int(free.sum()), ceil(int(free.sum()) / len(tracks))
    found = np.zeros((len(tracks), 2, total + 1))
    for number, track in enumerate(tracks):
        upto, told = int(most[number]), read_goodput(track.metrics)
        if told is not None:
            found[number, :, 1 : upto + 1] = _as_told(told, upto, fair)
        elif track.job.elastic and not track.resumed:
            found[number, :, 1:] = np.arange(1, total + 1) / fair  # as long as nobody knows
        else:
            found[number, :, 1 : upto + 1] = _as_believed(track, kinds, upto, fair, speeds)
    scaled: Floats = found * (len(free) / max(total, 1))
    return scaled


def _as_told(told: ToldGoodput, most: int, fair: int) -> Floats:
    """Pollux knows nothing of GPU kinds: the law of the one that the job told of first."""
    law = next(iter(told.laws.values()))
    base = _goodput(law, told.noise, fair)
    worth: Floats = _goodputs(law, told.noise, most) / base if base > 0 else np.zeros((2, most))
    return worth


@lru_cache(maxsize=4096)
def _goodputs(law: KindLaw, noise: GradientNoise, most: int) -> Floats:
    both = np.array([[1], [2]])
    found: Floats = best_batch(law.times, noise, law.batches, both, np.arange(1, most + 1)).goodput
    return found


@lru_cache(maxsize=8192)
def _goodput(law: KindLaw, noise: GradientNoise, gpus: int) -> float:
    gpus = min(gpus, law.batches.most_gpus)
    return float(best_batch(law.times, noise, law.batches, 1, gpus).goodput)


def _as_believed(
    track: Track, kinds: list[str], most: int, fair: int, speeds: SpeedPredictor
) -> Floats:
    """Only what a job may have, and the mean over kinds where it may be on several."""
    job = track.job
    used = [kind for kind in kinds if not job.kinds or kind in job.kinds]
    counts = range(job.least_gpus, most + 1)
    found = np.zeros((2, most))
    base = min(max(fair, job.least_gpus), job.most_gpus)
    usual = sum([speeds.speed(job, kind, base, 1) for kind in used])
    for nodes in (1, 2):
        for gpus in counts if usual > 0 else ():
            speed = sum([speeds.speed(job, kind, gpus, nodes) for kind in used])
            found[nodes - 1, gpus - 1] = speed / usual * (base / fair if base > fair else 1.0)
    return found
