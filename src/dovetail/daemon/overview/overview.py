"""The last look at the state, kept for all who ask: a hundred open pages cost one look at a time, and
nobody who reads waits for the loop to finish what it does."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from threading import Lock
from time import monotonic, sleep
from typing import Final, final

from dovetail.api.page_row import HourCost, QueuedRow, QueueLine
from dovetail.api.wire import text_of
from dovetail.core.model import WHOLE_GPU, JobId
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.asking import Parts
from dovetail.daemon.desk import Request
from dovetail.daemon.history.job_rows import phase_of, reason_of
from dovetail.daemon.holds import PUBLIC
from dovetail.daemon.overview.hour_ahead import Foreseen
from dovetail.daemon.overview.job_story import Stories
from dovetail.daemon.overview.past_hour import NameAndUser, RecentStints
from dovetail.daemon.overview.scene import LiveScene, Watts, look_at
from dovetail.daemon.overview.shared_answer import SharedAnswer
from dovetail.daemon.refusals import Unavailable
from dovetail.daemon.service import Service
from dovetail.daemon.users.callers import Caller

_APART_S = 0.2  # between two looks
_STILL_S = 5.0  # what has not changed is looked at again: GPUs draw power, strangers come and go
_PATIENCE_S = 0.1  # for the loop; then the last look must do
_FIRST_S = 60.0
_WATTS_EVERY_S = 2.0
_COST_S = 10.0


@dataclass(frozen=True, slots=True)
class LastLook:
    scene: LiveScene
    at: float  # monotonic
    text: bytes  # as the page reads it


@final
class Overview:
    def __init__(self, parts: Parts, service: Service, view: View) -> None:
        self._view: Final = view
        self.past: Final = RecentStints(parts.reader, parts.clock, self.titles, view.room.nodes)
        self.stories: Final = Stories(parts.reader, parts.clock, view.room.nodes)
        self.ahead: Final = Foreseen(service)
        self.cost: Final = SharedAnswer[HourCost](_COST_S, _COST_S)
        self._world: Final = parts.world
        self._desk: Final = parts.desk
        self._store: Final = parts.store
        self._chosen: Final = parts.chosen
        self._clock: Final = parts.clock
        self._notices: Final = parts.notices
        self._lock: Final = Lock()
        self._seen: LastLook | None = None
        self._asked: Future[LiveScene] | None = None  # of the loop, which has not answered yet
        self._line: tuple[LiveScene, list[Track]] | None = None
        self._watts: Watts = {}
        self._watts_at = -_WATTS_EVERY_S

    @property
    def seq(self) -> int:
        """Of the last entry there is: has anything happened?"""
        return self._store.last_seq

    def now(self) -> LastLook:
        """The last look, or a new one if something has happened since: several who ask at once wait
        for the same one. A loop that is busy is not waited for."""
        seen = self._seen
        if seen is not None and self._will_do(seen):
            return seen
        if not self._lock.acquire(timeout=_FIRST_S if seen is None else _APART_S + _PATIENCE_S):
            if seen is None:
                raise Unavailable("the daemon is busy; try again")
            return seen
        try:
            return self._look()
        finally:
            self._lock.release()

    def _will_do(self, seen: LastLook) -> bool:
        return seen.scene.seq == self.seq and monotonic() - seen.at < _STILL_S

    def _look(self) -> LastLook:
        if self._seen is not None and self._will_do(self._seen):
            return self._seen
        if self._seen is not None:
            sleep(max(self._seen.at + _APART_S - monotonic(), 0.0))
        if self._asked is None:
            self._asked = self._desk.ask(self._request())
        try:
            scene = self._asked.result(_PATIENCE_S if self._seen else _FIRST_S)
        except TooLate:
            if self._seen is None:
                raise Unavailable("the daemon is busy; try again") from None
            return self._seen
        self._asked = None
        chosen = self._chosen
        told = scene.told(self._clock.unix, chosen.text, chosen.trouble, len(self._notices.all))
        self._seen = LastLook(scene, monotonic(), text_of(told).encode())
        return self._seen

    def _request(self) -> Request:
        policy, unix, watts = self._chosen.policy, self._clock.unix, self._measured()
        seq = self.seq  # taken first: what comes meanwhile is looked at once more
        return lambda view, now: ((), look_at(view, now, policy, unix, seq, watts))

    def _measured(self) -> Watts:
        if monotonic() - self._watts_at > _WATTS_EVERY_S:
            self._watts_at = monotonic()
            self._watts = {
                (str(labels["node"]), int(str(labels["gpu"]))): value
                for gauge in self._world.gauges()
                if gauge.name == "dovetail_gpu_power_watts"
                for labels, value in gauge.values
            }
        return self._watts

    def titles(self, job_id: JobId) -> NameAndUser | None:
        """Of a job that has not ended. Read as it stands: a name never changes."""
        track = self._view.tracks.get(job_id)
        return None if track is None else NameAndUser(track.job.name, track.job.user)

    # ------------------------------------------------------------------------------------- the queue

    def line(self, first: int, most: int, user: str | None, caller: Caller) -> QueueLine:
        """So many of those that wait, from that place on; `user`: of one user alone."""
        scene = self.now().scene
        tracks = self._in_order(scene)
        if user is not None:
            tracks = [track for track in tracks if track.job.user == user]
        return QueueLine(
            seq=scene.seq,
            total=len(tracks),
            first=first,
            exact=scene.lineup is not None and scene.lineup.exact,
            rows=[self._waiting(track, caller) for track in tracks[first : first + most]],
        )

    def _in_order(self, scene: LiveScene) -> list[Track]:
        """Those that may start in the order of the policy, then those that are held."""
        kept = self._line
        if kept is not None and kept[0] is scene:
            return kept[1]
        eligible = [track for track in scene.waiting if not track.barred]
        if scene.lineup is not None:
            mine = {id(track) for track in eligible}
            ordered = [track for track in scene.lineup.order() if id(track) in mine]
            told = {id(track) for track in ordered}
            eligible = [*ordered, *(track for track in eligible if id(track) not in told)]
        tracks = [*eligible, *(track for track in scene.waiting if track.barred)]
        self._line = (scene, tracks)
        return tracks

    def _waiting(self, track: Track, caller: Caller) -> QueuedRow:
        job, note = track.job, reason_of(track, self._clock.unix(self._clock()))
        may_read = caller.may_read(job.user) or note.startswith(PUBLIC)
        return QueuedRow(
            id=job.id,
            name=job.name,
            user=job.user,
            phase=phase_of(track),
            gpus=job.gpus,
            share=job.share / WHOLE_GPU,
            priority=job.priority,
            group=job.group,
            trial=job.member,
            submitted_at=self._clock.unix(track.submitted_at),
            preemptions=track.preemptions,
            held=track.barred,
            note=note if may_read else "",
        )
