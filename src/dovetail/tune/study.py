"""The part of a study that its rule may see: the trials and their learning curves so far.

The replay of recorded curves and, live, the journal fill the same objects; a rule cannot tell
which. Losses are lower-is-better whatever the metric's direction; one report is one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf, isfinite
from typing import Final, TypeAlias, final

Setting: TypeAlias = float | int | str | bool
LARGEST_LOSS: Final = 1e100  # its square is still a finite number


def bounded(loss: float) -> float:
    """A loss that rules can calculate with; infinite if the value is not finite."""
    return max(min(loss, LARGEST_LOSS), -LARGEST_LOSS) if isfinite(loss) else inf


class TrialStanding(Enum):
    NEW = "new"  # has never had a slot
    RUNNING = "running"
    PAUSED = "paused"  # has run and waits with its progress kept
    DONE = "done"  # all its steps are made
    STOPPED = "stopped"  # given up by its rule
    FAILED = "failed"


# By name: a lookup in an Enum costs as much as a call.
NEW: Final = TrialStanding.NEW
RUNNING: Final = TrialStanding.RUNNING
PAUSED: Final = TrialStanding.PAUSED
DONE: Final = TrialStanding.DONE
STOPPED: Final = TrialStanding.STOPPED
FAILED: Final = TrialStanding.FAILED


@final
class Trial:
    """One setting of the hyper-parameters and how far its training is."""

    __slots__ = ("best", "losses", "number", "seconds", "settings", "standing", "turn")

    def __init__(self, number: int, settings: Mapping[str, Setting]) -> None:
        self.number: Final = number  # order of creation, from 0
        self.settings = settings
        self.standing = NEW
        self.losses: list[float] = []  # after each step; inf if the value was not finite
        self.best: list[float] = []  # the lowest loss up to each step
        self.turn = 0  # steps since it was last given a slot
        self.seconds = 0.0  # time in a slot, as far as known

    @property
    def steps(self) -> int:
        return len(self.losses)

    @property
    def loss(self) -> float:
        """The lowest loss so far; infinite before the first step."""
        return self.best[-1] if self.best else inf

    @property
    def waits(self) -> bool:
        return self.standing is NEW or self.standing is PAUSED

    def report(self, loss: float) -> None:
        """Add one more step."""
        if not -LARGEST_LOSS <= loss <= LARGEST_LOSS:
            loss = bounded(loss)
        self.losses.append(loss)
        self.best.append(min(loss, self.best[-1]) if self.best else loss)
        self.turn += 1


@final
class Study:
    """The trials of a study and its circumstances."""

    def __init__(
        self,
        steps: int,
        slots: int = 1,
        *,
        switch_cost: float = 0.0,
        target: float | None = None,
        deadline: float | None = None,
        planned: int = 0,
        seed: int = 0,
    ) -> None:
        self.steps: Final = steps  # of a whole trial
        self.slots = slots  # the slots it has, or may have at most
        self.switch_cost = switch_cost  # in steps: as measured, else as expected
        self.target = target  # a loss
        self.deadline = deadline  # in steps of time from the beginning of the study
        self.planned = planned  # the number of trials; some may not exist yet
        self.seed: Final = seed
        self.now = 0.0  # in steps of time: seconds over the mean seconds of a step
        # Of that: what first starts have taken so far, over what as many switches would have.
        self.starting = 0.0
        self.switches = 0  # so far: slots that changed their trial, first starts counted
        self.trials: list[Trial] = []

    def waiting(self) -> list[Trial]:
        """The trials that could get a slot, in order of creation."""
        return [trial for trial in self.trials if trial.standing is NEW or trial.standing is PAUSED]
