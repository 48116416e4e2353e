"""Studies on a state without a daemon: opened, lived through by chance, and told as entries."""

from __future__ import annotations

from random import Random
from typing import Any

from dovetail.core.entries import (
    Branch,
    Cancelled,
    Failed,
    Finished,
    Held,
    JournalEntry,
    NodeJoined,
    Preempt,
    Released,
    Reported,
    Restored,
    Saved,
    Start,
    Started,
    Stop,
    Submitted,
)
from dovetail.core.model import Job, JobId, Node
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.testing import placement
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import CloseStudy, StudyOpened, StudyResumed, StudyStopped
from dovetail.workloads.study.kind import studies_of

METRIC = "loss"


def design(study_id: str = "s1", trials: int = 4, **rest: Any) -> Design:
    return Design(
        **{
            "id": study_id,
            "name": "digits",
            "metric": METRIC,
            "steps": 5,
            "planned": trials,
            **rest,
        }
    )


def trial(number: int, study_id: str = "s1", job_id: str = "", **rest: Any) -> Job:
    settings = (("lr", 0.1 * (number + 1)),)
    fields = {"member": number, "settings": settings, "group": study_id, "name": "digits", **rest}
    return Job(JobId(job_id or f"{study_id}.{number}"), **fields)


class Lived:
    """A state with a study, and all that was recorded on the way there."""

    def __init__(self, gpus: int = 2, past: int = 1000) -> None:
        self.state = State(past)
        self.entries: list[JournalEntry] = []
        self.record(NodeJoined(0.0, Node("box", gpus)))

    @property
    def now(self) -> float:
        return self.state.now

    def record(self, *entries: JournalEntry) -> None:
        for entry in entries:
            self.state.record(entry)
            self.entries.append(entry)

    def open(self, asked: Design, **rest: Any) -> None:
        self.record(StudyOpened(self.now, asked))
        for number in range(asked.planned):
            self.record(Submitted(self.now, trial(number, asked.id, **rest)))

    def start(self, job_id: str, gpu: int = 0) -> None:
        self.record(Start(JobId(job_id), placement((0, 1 << gpu))))
        self.record(Started(self.now, JobId(job_id)))

    def report(self, job_id: str, step: float | None, value: float | str, at: float) -> None:
        self.record(Reported(at, JobId(job_id), step, {METRIC: value}))


def live_by_chance(chance: Random, turns: int = 40) -> Lived:
    """Whatever may happen to a study and its trials, in some order."""
    lived = Lived(gpus=chance.choice([1, 2, 3]))
    at_once = chance.choice([None, 1, 2])
    lived.open(design(trials=chance.randint(1, 6), at_once=at_once, target=0.2))
    if chance.random() < 0.5:
        lived.record(Submitted(lived.now, Job(JobId("other"))))
    for _ in range(turns):
        _live_on(lived, chance, lived.now + chance.choice([0.0, 0.5, 2.0]))
    if chance.random() < 0.3 and studies_of(lived.state).open:
        for track in list(lived.state.tracks.values()):
            lived.record(Stop(track.job.id, "the budget is spent", None, True))
        lived.record(CloseStudy("s1", "the budget is spent"))
    return lived


def _live_on(lived: Lived, chance: Random, at: float) -> None:
    tracks = list(lived.state.tracks.values())
    if not tracks:
        return
    track = chance.choice(tracks)
    if track.placement is None:
        _while_waiting(lived, chance, track, at)
    else:
        _while_running(lived, chance, track, at)
    if chance.random() < 0.05 and studies_of(lived.state).open:
        stopped = studies_of(lived.state).open["s1"].is_stopped
        lived.record(StudyResumed(at, "s1") if stopped else StudyStopped(at, "s1"))


def _while_waiting(lived: Lived, chance: Random, track: Track, at: float) -> None:
    job_id, free = track.job.id, lived.state.room.free[0]
    if track.phase is Phase.SUSPENDED and not track.rung:
        lived.record(Saved(at, job_id, "freeze", 0.25, 10, True))
    elif track.held:
        lived.record(Released(at, job_id))
    elif chance.random() < 0.1:
        either: list[JournalEntry] = [Held(at, job_id, "paused"), Cancelled(at, job_id, "enough")]
        lived.record(chance.choice(either))
    elif free and (not track.barred or (track.benched and _line_has_waiting(lived, track))):
        lived.record(Start(job_id, placement((0, free & -free))))


def _line_has_waiting(lived: Lived, track: Track) -> bool:
    line = studies_of(lived.state).open[track.job.group].group.line
    return any(job_id not in lived.state.running for job_id in line)


def _while_running(lived: Lived, chance: Random, track: Track, at: float) -> None:
    job_id, step = track.job.id, (track.step or 0) + chance.choice([1, 1, 2, -1])
    if track.phase is Phase.STARTING:
        lived.record(Started(at, job_id))
        if track.rung:
            lived.record(Restored(at, job_id, track.rung, 0.5))
        return
    kind = chance.random()
    if kind < 0.5:
        values: list[float | str] = [chance.random(), chance.random(), "NaN", "inf"]
        told = chance.choice(values)
        metrics: dict[str, float | str] = (
            {METRIC: told} if chance.random() < 0.9 else {"accuracy": 0.5}
        )
        lived.record(Reported(at, job_id, chance.choice([step, step, None]), metrics))
    elif kind < 0.75:
        lived.record(Preempt(job_id))
    elif kind < 0.8:
        lived.record(Held(at, job_id, "paused"))
    elif kind < 0.85 and track.job.member is not None:
        _branch(lived, track, at)
    elif kind < 0.9:
        lived.record(Finished(at, job_id))
    elif kind < 0.95:
        lived.record(Failed(at, job_id, "out of memory"))


def _branch(lived: Lived, track: Track, at: float) -> None:
    assert track.job.member is not None
    source = next(iter(lived.state.tracks))
    lived.record(Branch(track.job.id, source, (("lr", 9.0),)))
    number = len([entry for entry in lived.entries if isinstance(entry, Submitted)])
    lived.record(Submitted(at, trial(track.job.member, job_id=f"again.{number}")))
