"""What elastic policies share out: the jobs that GPUs may be given to or taken from, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, final

from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import STARTING, Track
from dovetail.core.view import View
from dovetail.predict.speed import SpeedPredictor
from dovetail.text.durations import duration_text


@final
class CountClaim:
    """A job, the numbers of GPUs it may have, ascending, and the speed that it is believed to have.

    Made for every job in every round: a plain class, as a named tuple takes twice as long.
    """

    __slots__ = ("counts", "speed", "track")

    def __init__(self, track: Track, counts: Sequence[int], speed: Callable[[int], float]) -> None:
        self.track: Final = track
        self.counts: Final = counts
        self.speed: Final = speed


class Shared(NamedTuple):
    """What there is to share out, and among whom, in order of submission."""

    gpus: int
    claims: Sequence[CountClaim]


def shared(
    view: View, speeds: SpeedPredictor, round_s: Seconds, first: Callable[[Track], float] | None
) -> Shared:
    """Who cannot be moved keeps its GPUs; so does one that has not been at work on them yet, since
    otherwise two jobs that take longer to restore than a round lasts would displace each other for
    ever. Each job is given the fewest GPUs it needs in the order of `first`, then of submission: those
    that wait when there are none left are left out."""
    room, able = view.room, list[Track]()
    gpus = sum([pool.free for pool in room.pools])
    for track in view.tracks.values():
        if track.placement is None:
            if not track.barred:
                able.append(track)
        elif not (track.pinned or _is_new(track, view.now, round_s)):
            gpus += sum([room.usable_by_others(n, mask) for n, mask in track.placement.slices])
            able.append(track)
    left, claims = gpus, list[CountClaim]()
    where: dict[int, tuple[str, int]] = {}  # by lane, of those that wait: thousands ask alike
    for track in able if first is None else sorted(able, key=first):
        if track.placement is not None:
            claim = claim_of(room, track, speeds)
        elif left <= 0 and track.job.gpus and track.job.min_gpus != 0:
            continue
        else:
            lane = track.shape.lane
            if lane not in where:
                where[lane] = _where(room, track)
            claim = _claim(track, *where[lane], speeds)
        claims.append(claim)
        if claim.counts[0] <= left:
            left -= claim.counts[0]
    if first is not None:
        claims.sort(key=lambda claim: claim.track.sequence)
    return Shared(gpus, claims)


def _is_new(track: Track, now: Seconds, round_s: Seconds) -> bool:
    if track.phase is STARTING:
        return True
    cost = track.job.interruption
    return cost.save_s + cost.restore_s >= round_s and now <= track.working_since


def claim_of(room: Room, track: Track, speeds: SpeedPredictor) -> CountClaim:
    return _claim(track, *_where(room, track), speeds)


def _claim(track: Track, kind: str, width: int, speeds: SpeedPredictor) -> CountClaim:
    job = track.job

    def speed(gpus: int) -> float:
        return speeds.speed(job, kind, gpus, job.nodes or -(-gpus // width))

    return CountClaim(track, counts_of(track, kind), speed)


def why_no_more(view: View, track: Track, speeds: SpeedPredictor, left_s: Seconds) -> str:
    """Why a running job has no more GPUs under a policy that gives each to whom it helps most."""
    assert track.placement is not None
    claim = claim_of(view.room, track, speeds)
    gpus = track.placement.gpus
    more = next((count for count in claim.counts if count > gpus), gpus)
    now, then = claim.speed(gpus), claim.speed(more)
    if then <= now or not now:
        return "more would not make it faster"
    if track.pinned:
        return f"it cannot be moved: {track.pinned}"
    sooner = duration_text(left_s / now - left_s / then)
    if sum([pool.free for pool in view.room.pools]) >= more - gpus:
        return f"the next round has not come; {more} would end it {sooner} sooner"
    return f"others make more of theirs; {more} would end it {sooner} sooner"


def _where(room: Room, track: Track) -> tuple[str, int]:
    """The kind of its GPUs, or of the first that it may use, and how many a node has."""
    if track.placement is not None:
        node = room.nodes[track.placement.slices[0].node]
        return node.kind, max(node.gpus, 1)
    pools = room.eligible(track.shape)
    return (pools[0].kind, max(pools[0].width, 1)) if pools else ("", 1)


def counts_of(track: Track, kind: str = "") -> Sequence[int]:
    """The numbers of GPUs that it may have; of one with options, those on that kind if there are."""
    job, options = track.job, track.shape.options
    if options:
        there = {gpus for own, gpus in options if own == kind}
        return sorted(there or {gpus for _, gpus in options})
    if (job.min_gpus is None and job.max_gpus is None) or job.share != WHOLE_GPU or not job.gpus:
        return (job.gpus,)
    return range(job.least_gpus, job.most_gpus + 1, max(job.nodes, 1))


def shapes_of(track: Track, gpus: int) -> Iterator[Shape]:
    """With that number of GPUs, then with the next smaller ones that it may have, on each kind."""
    shape = track.shape
    if not shape.options:
        fewer = [count for count in reversed(counts_of(track)) if count <= gpus]
        return (shape.sized(count) for count in fewer)
    ways = [(count, kind) for kind, count in shape.options if count <= gpus]
    return (shape.sized(count, kind) for count, kind in sorted(ways, key=lambda way: -way[0]))
