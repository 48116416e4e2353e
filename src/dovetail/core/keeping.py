"""What the processes of a job keep of their nodes while they are suspended.

On a node that `keeps`, a suspended job gives back its GPUs and nothing else: its memory is where it was,
and whoever guards the node (a kubelet, say) counts its CPUs too. So from its start there until its
processes are gone, CPUs and memory are the job's own; what has to be free for it, and what it leaves
when it gives way, are GPUs alone. Its shape says so, and no policy need know.
"""

from __future__ import annotations

from itertools import starmap

from dovetail.core.model import Placement, Slice
from dovetail.core.queue import Queue
from dovetail.core.track import KeptHost, Track

_GB = 1e9


class Keeping(Queue):
    """The queue, and what jobs keep."""

    __slots__ = ()

    def _keep(self, track: Track, placement: Placement) -> None:
        """It was given GPUs there. If it kept nothing before, its CPUs and memory were taken with
        them."""
        full = track.shape.full
        keep = KeptHost(placement, full.cpus, full.memory_gb)
        if track.keeps is not None:
            self._keep_instead(track, keep)
        elif not full.bare and self._may_keep(track, placement):
            track.keeps = keep
            track.shape, _ = self._shape_for(track)

    def _keep_parked(self, track: Track) -> None:
        """It is suspended: what lay in the memory of its GPUs lies in that of its nodes now."""
        home, full = track.parked_at, track.shape.full
        if home is None or track.placement is not None or not self._may_keep(track, home):
            return
        memory_gb = max(full.memory_gb, track.parked_bytes / _GB)
        was_kept = track.keeps is not None
        self._keep_instead(track, KeptHost(home, full.cpus, memory_gb))
        if not (was_kept or full.bare):
            self._shape_anew(track)

    def _keep_no_longer(self, track: Track) -> None:
        """It has given way, and its processes are gone."""
        if track.keeps is not None and track.placement is None:
            self._keep_nothing(track)
            self._shape_anew(track)

    def _keep_as_before(self, track: Track) -> None:
        """It did not come to where it was to go: its processes are where they were, or there are
        none."""
        if track.parked_at is None:
            self._keep_nothing(track)
        else:
            self._keep_parked(track)

    def _keep_nothing(self, track: Track) -> None:
        """Its processes are gone."""
        if track.keeps is not None:
            self.room.charge_kept(track.keeps, 1.0)
            track.keeps = None
            track.shape = track.shape.full

    def _keep_instead(self, track: Track, keep: KeptHost) -> None:
        if track.keeps is not None:
            self.room.charge_kept(track.keeps, 1.0)
        self.room.charge_kept(keep, -1.0)
        track.keeps = keep

    def _may_keep(self, track: Track, placement: Placement) -> bool:
        """An elastic job gives way by saving itself, and keeps nothing."""
        return not track.job.elastic and self.room.nodes[placement.slices[0].node].keeps

    def _tie(self, track: Track, is_tied: bool) -> None:
        """To the nodes where it is suspended: elsewhere nothing is free for it."""
        if track.tied != is_tied:
            track.tied = is_tied
            self._shape_anew(track)

    def _go_along(self, before: int, n: int) -> None:
        """A node has another number now: what is suspended there is where it was."""
        for track in self._tracks.values():
            home = track.home
            if home is None or all([piece.node != before for piece in home.slices]):
                continue
            pieces = [
                (n if piece.node == before else piece.node, piece.mask) for piece in home.slices
            ]
            track.parked_at = there = Placement(tuple(starmap(Slice, pieces)), home.share)
            if track.keeps is not None:
                self._keep_instead(track, track.keeps._replace(placement=there))
            self._shape_anew(track)

    def _shape_anew(self, track: Track) -> None:
        track.shape, _ = self._shape_for(track)
        track.turn += 1
        if track.placement is not None:
            self._say_it_runs(track)
        elif not track.barred:
            self._say_it_waits(track)
