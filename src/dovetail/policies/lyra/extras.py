"""What nobody else can use goes to elastic jobs, on top of what they asked for."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.core.entries import Action
from dovetail.core.plan import Place
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import View
from dovetail.policies.elastic.claims import CountClaim, claim_of
from dovetail.policies.elastic.optimus import share_out, smallest_first
from dovetail.policies.elastic.seating import seated
from dovetail.predict.left import LeftPredictor
from dovetail.predict.speed import SpeedPredictor


def with_extras(
    view: View,
    place: Place,
    speeds: SpeedPredictor,
    left: LeftPredictor,
    running: Sequence[Track],
    waiting: Sequence[Track],
) -> Sequence[Action]:
    """Each has what it asked for; what is left beyond what those that wait need goes, GPU by GPU, where
    it brings an end nearest. As long as each further GPU helps a job less than the one before, that is
    the best of all ways to share them out (the knapsack of Lyra)."""
    claims = [_claim(view, track, speeds) for track in running if may_grow(track)]
    if not claims:
        return ()
    held = sum(_held(claim.track) for claim in claims)
    gpus = sum(pool.free for pool in view.room.pools) + held
    gpus -= wanted_by(waiting, gpus - sum(claim.counts[0] for claim in claims))
    left_s = [left.left_s(claim.track, view) for claim in claims]
    given = share_out(gpus, claims, left_s)
    wanted = [
        (
            claim.track,
            count if count is not None and _pays(claim, count, left_s[i]) else _held(claim.track),
        )
        for i, (claim, count) in enumerate(zip(claims, given, strict=True))
    ]
    return seated(view, place, smallest_first(wanted))


def may_grow(track: Track) -> bool:
    """It runs, and may have another number of GPUs by a move that costs no more than is known."""
    job = track.job
    return track.phase is RUNNING and job.elastic and not job.options and not track.pinned


def wanted_by(waiting: Sequence[Track], gpus: int) -> int:
    """GPUs that those who wait will be given: as many of them as there is room for, the small first."""
    wanted = 0
    for track in sorted(waiting, key=lambda track: track.shape.gpus):
        if wanted + track.shape.gpus > gpus:
            break
        wanted += track.shape.gpus
    return wanted


def _claim(view: View, track: Track, speeds: SpeedPredictor) -> CountClaim:
    """From what it asked for upwards; one that was made smaller for a replica, from what it has."""
    claim = claim_of(view.room, track, speeds)
    least = min(track.job.gpus, _held(track))
    counts = [count for count in claim.counts if count >= least]
    return CountClaim(claim.track, counts, claim.speed)


def _held(track: Track) -> int:
    assert track.placement is not None
    return track.placement.gpus


def _pays(claim: CountClaim, count: int, left_s: float) -> bool:
    """Fewer are taken where others need them; more only if that saves more than moving costs."""
    track, now = claim.track, _held(claim.track)
    if count <= now:
        return True
    slow, fast = claim.speed(now), claim.speed(count)
    return slow > 0.0 and left_s / slow - left_s / fast > track.save_s + track.restore_s
