"""The design of a study, as its user asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import Seconds


@dataclass(frozen=True, slots=True)
class Design:
    """A study: many trials of one thing, of which the best is wanted."""

    id: str
    name: str
    metric: str
    steps: int  # of a whole trial
    planned: int  # trials in all; they may be submitted one after the other
    user: str = ""
    direction: str = "min"  # or max
    report_every: int = 1  # steps
    rule: str = "default"
    at_once: int | None = None  # trials that may run at the same time
    target: float | None = None
    stop_at_target: bool = False
    deadline: Seconds | None = None
    budget_s: Seconds | None = None  # from its opening, pauses not counted
    budget_gpu_s: float | None = None
    seed: int = 0
    spec: str = ""  # the whole description, as JSON

    def __post_init__(self) -> None:
        if self.steps < 1 or self.planned < 1 or self.report_every < 1:
            raise ValueError(f"study {self.id!r} needs at least 1 step, 1 trial, 1 step a report")
        if self.direction not in ("min", "max"):
            raise ValueError(f"study {self.id!r}: direction {self.direction!r} is not min or max")

    def is_better(self, value: float, other: float) -> bool:
        return value < other if self.direction == "min" else value > other
