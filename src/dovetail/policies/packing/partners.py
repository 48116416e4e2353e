"""Who shares GPUs because a policy put two jobs there, and who might; told by the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Note, Preempt, Start
from dovetail.core.model import JobId, Slice
from dovetail.core.track import RUNNING, Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View

_ROUNDING = 1e-9
_IN_VAIN: Final = "gandiva: pairs in vain"  # of a job, as it is noted
_ALONE: Final = "gandiva: alone"  # of one that is to share its GPUs: its speed, and with whom

BySequence: TypeAlias = dict[int, Track]


@final
class Packed:
    """The GPUs that were one job's and are now shared."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        self.slices: Final = slices
        self.mates: Final[BySequence] = {}
        self._speeds: Final[dict[int, float]] = {}  # as last seen there

    def add(self, track: Track) -> None:
        self.mates[track.sequence] = track
        self._speeds[track.sequence] = track.speed

    def remove(self, track: Track) -> None:
        del self.mates[track.sequence], self._speeds[track.sequence]

    def host_first(self) -> list[Track]:
        """Who was there before the other, then that one."""
        ids = {track.job.id for track in self.mates.values()}
        return sorted(
            self.mates.values(),
            key=lambda track: (track.notes.get(_ALONE, (0, ""))[1] not in ids, track.sequence),
        )

    @property
    def are_at_work(self) -> bool:
        return all([track.phase is RUNNING for track in self.mates.values()])

    @property
    def gain(self) -> float:
        """What they do together, as a multiple of what the first did alone."""
        ids = {track.job.id for track in self.mates.values()}
        noted = [track.notes[_ALONE] for track in self.mates.values() if _ALONE in track.notes]
        alone = [float(speed) for speed, guest in noted if guest in ids] or [1.0]
        return sum([self._speeds[sequence] for sequence in sorted(self._speeds)]) / alone[0]


@final
class Partners:
    """The index behind packing. A job that made way in so many pairs that did not pay is left alone."""

    def __init__(self, threshold: float, trials: int) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self._threshold: Final = threshold
        self._trials: Final = trials
        self.hosts: Final[dict[int, BySequence]] = {}  # by lane: on GPUs of their own
        self.guests: Final[dict[int, BySequence]] = {}  # by lane: waiting, the longest first
        self.spread: Final[BySequence] = {}  # on more than one node
        self.changed: Final[dict[tuple[Slice, ...], Packed]] = {}  # to be looked at
        self._packed: Final[dict[tuple[Slice, ...], Packed]] = {}
        self._packed_with: Final[dict[int, Packed]] = {}  # by sequence
        self._stands_in: Final[dict[int, BySequence]] = {}  # by sequence: its row above

    # ------------------------------------------------------------------------- kept by the state

    def waits(self, track: Track) -> None:
        self._leave(track)
        self._stand(track, self.guests)

    def runs(self, track: Track) -> None:
        placement = track.placement
        assert placement is not None
        if placement.share < track.job.share:
            self._stand(track, None)
            self._join(track, placement.slices)
        else:
            self._leave(track)
            self._stand(track, self.hosts)
        if len(placement.slices) > 1 and track.shape.plain:
            self.spread[track.sequence] = track

    def ends(self, track: Track) -> None:
        self._leave(track)
        self._stand(track, None)

    def parks(self, track: Track) -> None:
        self._leave(track)
        self._stand(track, None)

    def _stand(self, track: Track, group: dict[int, BySequence] | None) -> None:
        """Give the job its place among those that may be paired, if it has one."""
        before = self._stands_in.pop(track.sequence, None)
        if before is not None:
            del before[track.sequence]
        if group is not None and self._may_be_tried(track):
            lane = group.get(track.shape.lane)
            if lane is None:
                lane = group[track.shape.lane] = {}
            lane[track.sequence] = track
            self._stands_in[track.sequence] = lane

    def _may_be_tried(self, track: Track) -> bool:
        return track.shape.bare and track.notes.get(_IN_VAIN, 0) < self._trials

    def _join(self, track: Track, slices: tuple[Slice, ...]) -> None:
        packed = self._packed.get(slices)
        if packed is None:
            packed = self._packed[slices] = Packed(slices)
        if self._packed_with.get(track.sequence) is not packed:
            self._leave(track)
            self._packed_with[track.sequence] = packed
        packed.add(track)
        self.changed[slices] = packed

    def _leave(self, track: Track) -> None:
        self.spread.pop(track.sequence, None)
        packed = self._packed_with.pop(track.sequence, None)
        if packed is None:
            return
        packed.remove(track)
        if packed.mates:
            self.changed[packed.slices] = packed
        else:
            del self._packed[packed.slices]
            self.changed.pop(packed.slices, None)

    def notes(self, actions: Sequence[Action], view: View) -> list[Action]:
        """What is to be known after a restart, of those that are to make way: was it because they
        hindered each other?"""
        found: dict[JobId, Action] = {}
        for action in actions:
            track = view.tracks[action.job_id] if isinstance(action, Preempt) else None
            packed = None if track is None else self._packed_with.get(track.sequence)
            if packed is not None and len(packed.mates) > 1 and not self.pay(packed):
                for mate in packed.mates.values():
                    times = mate.notes.get(_IN_VAIN, 0) + 1
                    found.setdefault(mate.job.id, Note(_IN_VAIN, times, mate.job.id))
        return list(found.values())

    @staticmethod
    def pairing(host: Track, guest: Track) -> Action:
        """To be known of a pair as long as it lasts."""
        return Note(_ALONE, [host.speed, guest.job.id], host.job.id)

    # ------------------------------------------------------------------------------- what there is

    def pay(self, packed: Packed) -> bool:
        """Is it better to leave them together?"""
        return packed.gain > self._threshold + _ROUNDING

    def may_pair_after(self, actions: Sequence[Action], view: View) -> bool:
        """Will there be one that waits and one that runs, of one kind, to be tried out together?"""
        more: dict[int, int] = {}  # by lane: that will wait
        started: set[int] = set()
        for action in actions:
            if isinstance(action, Start | Preempt):
                track = view.tracks[action.job_id]
                lane = track.shape.lane
                if not self._may_be_tried(track):
                    continue
                if isinstance(action, Start):
                    started.add(lane)
                    more[lane] = more.get(lane, 0) - 1
                else:
                    more[lane] = more.get(lane, 0) + 1
        lanes = {*self.guests, *more}
        waiting = [n for n in lanes if len(self.guests.get(n, ())) + more.get(n, 0) > 0]
        return any([lane in started or bool(self.hosts.get(lane)) for lane in waiting])


@final
class PartnersBy:
    """The spec of the index."""

    def __init__(self, threshold: float, trials: int) -> None:
        self.threshold: Final = threshold
        self.trials: Final = trials

    def build(self, view: View) -> Partners:
        return Partners(self.threshold, self.trials)
