"""Studies as the daemon tells of them, made up."""

from __future__ import annotations

from math import exp
from typing import Any

from dovetail.api.study_row import StudyPage, TrialRow
from dovetail.api.wire import plain, read

OPENED = 1_700_000_000.0
STEP_S = 2.0


def a_trial(number: int, steps: int = 0, state: str = "new", **more: Any) -> TrialRow:
    """Its curve falls towards a floor that its number decides, faster for some than for others."""
    floor, speed = 0.05 + 0.07 * (number * 5 % 9), 0.1 + 0.04 * (number * 7 % 11)
    points = [
        [step, round(floor + 2.2 * exp(-speed * step), 6), STEP_S * (number + step)]
        for step in range(1, steps + 1)
    ]
    values = [point[1] for point in points]
    begun, over = STEP_S * number, STEP_S * (number + steps)
    ended = None if state == "running" else over
    trial = {
        "number": number, "job": str(number + 1), "state": state, "steps": steps,
        "settings": {"lr": 10 ** -(1 + number % 4), "units": 16 * (1 + number % 5),
                     "optimizer": "adam" if number % 2 else "sgd"},
        "value": values[-1] if values else None, "best": min(values, default=None),
        "points": points, "reason": "",
        "stints": [[begun, ended, f"gpu {number % 2}"]] if steps or state == "running" else [],
    }  # fmt: skip
    return read(TrialRow, {**trial, **more})


def a_study(trials: list[TrialRow], **more: Any) -> StudyPage:
    """The description of one study."""
    count = {own: sum(trial.state == own for trial in trials) for own in _COUNTED}
    sign = -1 if more.get("direction") == "max" else 1
    with_value = [(sign * trial.best, trial) for trial in trials if trial.best is not None]
    top = min(with_value, key=lambda own: own[0])[1] if with_value else None
    study = {
        "id": "3", "name": "digits", "user": "ann", "policy": "default", "state": "open",
        "reason": "", **count,
        "best": top and {
            "trial": top.number, "value": top.best, "settings": top.settings,
            "step": next(step for step, value, _ in top.points if value == top.best),
        },
        "target": None, "reached_s": None, "age_s": 190.0, "gpu_hours": 0.0512, "switches": 14,
        "metric": "val_loss", "direction": "min", "steps": 27, "report_every": 1,
        "sampler": "random", "seed": 0, "at_once": None, "deadline": None, "budget": None,
        "opened_at": OPENED,
        "switch": {"seconds": 0.21, "rung": "freeze"}, "suspended_bytes": 0, "quiet": None,
    }  # fmt: skip
    return read(StudyPage, {**study, "trials": [plain(own) for own in trials], **more})


_COUNTED = ("done", "running", "paused", "failed", "stopped")


def in_the_middle(**more: Any) -> StudyPage:
    """Nine trials: one is done, two run, some wait, one failed, some have not begun."""
    trials = [
        a_trial(0, 27, "done"), a_trial(1, 9, "paused"), a_trial(2, 14, "running"),
        a_trial(3, 3, "paused"), a_trial(4, 11, "running"), a_trial(5, 3, "paused"),
        a_trial(6, 1, "failed", reason="exit code 1"), a_trial(7), a_trial(8),
    ]  # fmt: skip
    return a_study(trials, **more)
