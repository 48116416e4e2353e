"""The truth about a job whose speed depends on more than its GPUs: on progress, batch or rounds.

Plain jobs have a `Speed`, one rate per placement. A job with a course is asked only when something
about it changes; nothing ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from dovetail.core.model import Node, Placement, Seconds


class Milestone(NamedTuple):
    """What comes next if nothing changes: the end, or something it tells of itself. Never: infinity."""

    at: Seconds
    ends: bool


class Told(NamedTuple):
    """What a job tells of itself at a milestone; the scheduler gets it as `Reported`."""

    step: float | None
    metrics: Mapping[str, float | str]


class Course(Protocol):
    """One job's way through its work. Kept by the simulator alone."""

    @property
    def heeds_leaving(self) -> bool:
        """Does it go faster at once when somebody leaves its GPUs?"""

    @property
    def speed(self) -> float:
        """How fast it goes now, in seconds of its `work_s` a second; 0: nobody is to be told."""

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        """It is at work there from then on; that may be later than now. Called again, after `halt`,
        whenever it gets other GPUs, or the same once more."""

    def meet(self, others: Sequence[Course | None], rate: float) -> None:
        """These share its GPUs when it begins next, and slow down a plain job to this rate; told before
        `begin`, of those that share at all."""

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        """The milestone, which was not the end, is here: what it tells, and what comes next."""

    def halt(self, at: Seconds) -> Seconds:
        """It stops, perhaps before it was at work: what it has done since it began is kept. How much
        of its `work_s` that was."""

    def lose(self, work_s: Seconds) -> None:
        """So much of what was done is lost."""


class CourseMaker(Protocol):
    """Kept in an arrival; makes the same course each time, so that a trace can be run again."""

    def __call__(self) -> Course: ...
