"""A study as the daemon tells it: a row in a list, or a page with the curve of every trial."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from dovetail.api.wire import about, row

State: TypeAlias = Literal["open", "stopped", "closed"]
TrialState: TypeAlias = Literal["new", "running", "paused", "done", "stopped", "failed"]
Direction: TypeAlias = Literal["min", "max"]


@row
class StudyOpen:
    """A study that was just opened."""

    study: str
    name: str
    planned: int = field(metadata=about("Trials in all; they may share jobs, or come one by one."))
    trials: list[str] = field(metadata=about("The jobs submitted so far."))


@row
class BestTrial:
    """The best trial so far."""

    trial: int
    value: float
    step: float
    settings: dict[str, object]


@row
class QuietTrials:
    """Trials that report nothing."""

    trials: list[int] = field(metadata=about("First the trial that has been quiet for longest."))
    job: str = field(metadata=about("Of the first of them."))
    seconds: float = field(metadata=about("For how long it has reported nothing."))
    usual_s: float | None = field(
        metadata=about("Between two reports here; null: no trial has reported.")
    )
    told: list[str] = field(metadata=about("What it reports instead of the metric."))
    printed: list[str] = field(
        default_factory=list,
        metadata=about("Its last lines, if no trial has ever reported the metric."),
    )
    pattern: str = field(
        default="", metadata=about("A metric_pattern that may find the metric there.")
    )


@row
class StudyHead:
    """The fields that a row and a page have in common."""

    id: str
    name: str
    user: str
    policy: str = field(metadata=about("The rule that says which trial runs next."))
    state: State
    reason: str = field(metadata=about("Why it is closed, or what is wrong with its rule."))
    done: int
    running: int
    paused: int
    failed: int
    stopped: int
    best: BestTrial | None
    target: float | None
    reached_s: float | None = field(
        metadata=about("When the target was reached, from its opening.")
    )
    age_s: float = field(metadata=about("Since its opening, while it was not stopped."))
    gpu_hours: float
    switches: int
    quiet: QuietTrials | None = field(
        default=None,
        metadata=about("Trials that hold a slot and have not reported for too long."),
    )

    @property
    def trial_count(self) -> int:
        """Also those that are planned."""
        raise NotImplementedError


@row
class StudyRow(StudyHead):
    """A study in a list."""

    trials: int

    @property
    def trial_count(self) -> int:
        return self.trials


@row
class StudiesTold:
    """Studies, the open ones first."""

    studies: list[StudyRow]
    more: int = field(
        metadata=about("Closed studies that are not told; a higher limit tells them.")
    )


@row
class TrialRow:
    """One trial with its curve."""

    number: int
    job: str
    state: TrialState
    settings: dict[str, object]
    steps: int
    value: float | None
    best: float | None
    points: list[tuple[float, float | None, float]] = field(
        metadata=about("Step, value (null if it was not finite), seconds from the opening.")
    )
    stints: list[tuple[float, float | None, str]] = field(
        metadata=about("From and until when, in seconds from the opening, and where.")
    )
    reason: str


@row
class SwitchCost:
    """The cost of exchanging one trial for another."""

    seconds: float
    rung: str


@row
class BudgetTold:
    """How much a study may use."""

    time: float | None = field(metadata=about("Seconds."))
    gpu_hours: float | None


@row
class StudyPage(StudyHead):
    """A study with all its trials."""

    trials: list[TrialRow] = field(metadata=about("Those submitted so far."))
    planned: int = 0
    metric: str
    direction: Direction
    steps: int
    report_every: int
    sampler: str
    seed: int
    at_once: int | None
    deadline: float | None
    budget: BudgetTold | None
    opened_at: float
    switch: SwitchCost
    suspended_bytes: int

    @property
    def trial_count(self) -> int:
        return self.planned or len(self.trials)
