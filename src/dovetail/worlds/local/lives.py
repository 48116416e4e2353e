"""What is wanted of a job's processes and where they really are. Only the world's own thread looks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from dovetail.core.model import JobId, Placement, Seconds
from dovetail.worlds.local.runs import Launch, Run

REPORTS = "reports.jsonl"  # in the folder of a job: what it tells of itself
LIVE = "live"  # among the runs: a note for each job that has processes
CHECKPOINTS = "checkpoints"  # and where it may save itself


class Want(Enum):
    RUN = "run"
    AWAY = "away"  # off the GPUs, nothing lost
    END = "end"


class Place(Enum):
    """Where the processes of a job are."""

    ABSENT = "absent"
    AT_WORK = "at work"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class Order:
    """What the world must know to run a job; the daemon's book of submissions answers it."""

    launch: Launch
    checkpoints: Path
    grace_s: Seconds
    preemptible: bool
    restartable: bool
    saves_itself: bool
    begins_from: Path | None = None  # checkpoints of another job that its own are a copy of
    reads_output: bool = False  # its metrics may be in what it prints
    metric_pattern: str = (
        ""  # and are found there by this regular expression, else in lines of JSON
    )


class Life:
    """One job that has, or is about to have, processes."""

    def __init__(self, job_id: JobId, want: Want) -> None:
        self.job_id: Final = job_id
        self.want = want
        self.place = Place.ABSENT
        self.booked: Placement | None = None  # where it is to run
        self.stands: Placement | None = None  # where it really is, until it has left
        self.run: Run | None = None
        self.watched: Run | None = None  # whose end will be told
        self.busy = False  # somebody is at work on its processes
        self.ended = False  # its main process has ended and we have not looked at it yet
        self.requeue = ""  # why it is to line up again once its processes have ended
        self.pin = ""  # why it cannot give way, as last told
        self.began_at: Seconds = 0.0

    @property
    def is_leaving(self) -> bool:
        """Does it stand on GPUs that are no longer its own?"""
        return self.stands is not None and (self.want is not Want.RUN or self.stands != self.booked)


def overlap(one: Placement, other: Placement) -> bool:
    """Do they have a GPU in common?"""
    masks = dict(one.slices)
    return any(masks.get(piece.node, 0) & piece.mask for piece in other.slices)
