"""Why a job waits or runs, as the daemon tells it. Times are seconds since 1970."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.forecast_row import Change, Span
from dovetail.api.job_row import DeadlineTold
from dovetail.api.wire import about, row


@row
class Why:
    """Why a job is where it is."""

    id: str
    phase: str
    reason: str = field(metadata=about("In one word."))
    because: str
    text: str = field(default="", metadata=about("All of it, for people."))


@row
class WhyEnded(Why):
    """How a job ended."""

    exit_code: int | None
    ended_at: float | None


@row
class _WhyLive(Why):
    """Of a job that has not ended."""

    policy: str
    limited: str = field(metadata=about("What the forecast does not take into account."))
    since: float
    end: Span | None
    rests_on: str = field(metadata=about("The source of the expected duration."))
    promise: DeadlineTold | None = field(
        default=None, metadata=about("null: no deadline, or a policy that promises none.")
    )


@row
class Preemption:
    """The last time that a waiting job gave way."""

    to: str | None = field(metadata=about("The job that got its GPUs."))
    rung: str
    save_s: float | None
    parked_bytes: int
    preemptions: int
    reason: str


@row
class JobsAhead:
    """The jobs ahead in the queue."""

    number: int
    first: list[str]
    why: str
    at_least: bool = field(
        default=False, metadata=about("True: of thousands not all were looked at.")
    )


@row
class WaitsFor:
    """The job whose end, or preemption, lets this one start."""

    job: str
    ends: bool
    expected: Span | None
    rests_on: str


@row
class WhyWaiting(_WhyLive):
    """Why a job waits, until when, and what would let it start."""

    needs: str
    free: str
    in_use_by: list[str]
    gave_way: Preemption | None
    ahead: JobsAhead
    would_start: list[Change] = field(metadata=about("Each lets it start at once."))
    start: Span | None
    waits_for: WaitsFor | None


@row
class NextPreemption:
    """When a job is expected to be preempted, and by which job."""

    expected: float
    to: str | None


@row
class WhyRunning(_WhyLive):
    """Where a job runs, and until when."""

    first_start: float
    where: str
    progress: str
    speed: str = field(metadata=about("Steps a second as measured, where it is now first."))
    size: str = field(metadata=about("Of an elastic job: its GPUs of how many, and why no more."))
    gives_way: NextPreemption | None
    cannot_give_way: str
