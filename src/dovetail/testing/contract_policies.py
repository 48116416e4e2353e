"""Policies by which the contract of worlds has one thing happen: they decide about two jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Thread
from typing import Final

from dovetail.core.entries import Action, Preempt, Refuse, Resize, Start, Stop, Wake
from dovetail.core.model import JobId, Placement, Seconds, Slice
from dovetail.core.track import Phase
from dovetail.core.view import View

FIRST, SECOND = JobId("1"), JobId("2")
HERE: Final = Placement((Slice(0, 1),))
BOTH: Final = Placement((Slice(0, 3),))


@dataclass(frozen=True)
class InTurn:
    """Whoever was preempted the least goes first, and stays until it has ended."""

    def decide(self, view: View) -> Iterable[Action]:
        waiting = sorted(
            (track for track in view.tracks.values() if track.placement is None),
            key=lambda track: (track.preemptions, track.sequence),
        )
        if waiting and not view.running:
            yield Start(waiting[0].job.id, HERE)


@dataclass(frozen=True)
class DecidedAfter:
    """Once the first job has worked for so long, something is decided about it; else `InTurn`."""

    seconds: Seconds
    decided: type[Preempt] | type[Stop]

    def decide(self, view: View) -> Iterable[Action]:
        yield from InTurn().decide(view)
        track = view.tracks.get(FIRST)
        if track is None or track.phase is not Phase.RUNNING or track.preemptions:
            return
        due = track.working_since + self.seconds
        if view.now < due:
            yield Wake(due)
            return
        yield Preempt(FIRST) if self.decided is Preempt else Stop(FIRST, "by the contract")
        yield from InTurn().decide(view)


@dataclass(frozen=True)
class GrowsAfter:
    """Once the job has worked for so long it goes on with two GPUs."""

    seconds: Seconds

    def decide(self, view: View) -> Iterable[Action]:
        yield from InTurn().decide(view)
        track = view.tracks.get(FIRST)
        if track is None or track.phase is not Phase.RUNNING or track.resizes or track.pinned:
            return
        due = track.working_since + self.seconds
        yield Resize(FIRST, BOTH) if view.now >= due else Wake(due)


@dataclass(frozen=True)
class Leave:
    """The daemon stops once a job is at work."""

    stop: Callable[[], None]

    def decide(self, view: View) -> Iterable[Action]:
        yield from InTurn().decide(view)
        if any(track.phase is Phase.RUNNING for track in view.running.values()):
            self.stop()


class OnceItRuns:
    """Calls once, beside the loop, when the job is at work."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._thread: Final = Thread(target=call)
        self._has_begun = False

    def decide(self, view: View) -> Iterable[Action]:
        yield from InTurn().decide(view)
        track = view.tracks.get(FIRST)
        if not self._has_begun and track is not None and track.phase is Phase.RUNNING:
            self._has_begun = True
            self._thread.start()

    def join(self) -> None:
        if self._has_begun:
            self._thread.join()


@dataclass(frozen=True)
class RefuseAll:
    def decide(self, view: View) -> Iterable[Action]:
        return [Refuse(job_id, "by the contract") for job_id in view.tracks]
