"""Rungs: numbers of steps at which the rules of the halving family compare trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.tune.rules import Rule
from dovetail.tune.study import Study, Trial


def geometric(first: int, eta: int, steps: int) -> tuple[int, ...]:
    """first, first * eta, … below `steps`."""
    found = []
    rung = first
    while rung < steps:
        found.append(rung)
        rung *= eta
    return tuple(found)


def check(first: int, eta: int) -> None:
    if first < 1:
        raise ValueError(f"first={first}; give at least 1 step")
    if eta < 2:
        raise ValueError(f"eta={eta}; give at least 2")


@dataclass(frozen=True, slots=True)
class GeometricRungs(Rule):
    """The parameters of rules with rungs at `first` steps, `first` * `eta`, …"""

    eta: int = 3
    first: int = 1

    def __post_init__(self) -> None:
        check(self.first, self.eta)


def whole(rungs: Sequence[float]) -> tuple[int, ...]:
    """The rungs as rising whole numbers; a `ValueError` says what is wrong with them."""
    found = tuple(int(rung) for rung in rungs)
    told = "/".join(f"{rung:g}" for rung in rungs)
    if any(rung < 1 or rung != given for rung, given in zip(found, rungs, strict=True)):
        raise ValueError(f"rungs={told}; give whole numbers of steps, from 1 on")
    if list(found) != sorted(set(found)):
        raise ValueError(f"rungs={told}; give them in rising order")
    return found


def arrived(trials: Sequence[Trial], rung: int) -> list[Trial]:
    """Trials that have made so many steps, the best there first; of equals the older first."""
    found = [trial for trial in trials if len(trial.losses) >= rung]
    found.sort(key=lambda trial: trial.best[rung - 1])
    return found


def last_rung(trial: Trial, rungs: Sequence[int]) -> int:
    """The highest rung that the trial has reached; 0 if none."""
    made, last = len(trial.losses), 0
    for rung in rungs:
        if rung > made:
            break
        last = rung
    return last


def lowest(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the lowest loss so far."""
    return min(trials, key=lambda trial: trial.loss, default=None)


def candidates(study: Study, leaving: Trial | None) -> list[Trial]:
    """The trials that could get the slot."""
    return study.waiting() if leaving is None else [leaving, *study.waiting()]
