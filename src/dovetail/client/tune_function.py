"""Studies from Python: `dovetail.tune.tune(train, space=…, metric="loss", steps=27, trials=27)`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from types import ModuleType
from typing import Any, TypeAlias

from dovetail.api.study_row import StudyOpen, StudyPage, TrialRow
from dovetail.api.wire import read
from dovetail.client.connection import Client
from dovetail.client.follow import patiently
from dovetail.client.shell import as_sent
from dovetail.core.errors import BadInput, DovetailError
from dovetail.home import find_home
from dovetail.tune.space import Parameter, Space
from dovetail.tune.worker import NAME as WORKER

What: TypeAlias = Callable[[dict[str, Any]], Any] | Sequence[str] | str

_FIRST_LOOK_S, _LATER_S = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One trial, as far as it came."""

    number: int
    state: str
    settings: Mapping[str, object]
    value: float | None  # the best it reported
    curve: tuple[tuple[float, float], ...]  # step and value


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a study."""

    study: str
    name: str
    state: str
    reason: str
    trials: tuple[TrialResult, ...]
    best_number: int | None

    @property
    def best(self) -> TrialResult:
        for trial in self.trials:
            if trial.number == self.best_number:
                return trial
        raise DovetailError(
            f"no trial of study {self.name} has reported a value"
            f"{f' ({self.reason})' if self.reason else ''}; dovetail study show {self.name} says more"
        )


def tune(
    what: What,
    *,
    space: Space | Mapping[str, Parameter],
    metric: str,
    steps: int,
    trials: int | None = None,
    wait: bool = True,
    home: str | None = None,
    **fields: Any,
) -> Result:
    """Try settings from `space` and come back with the best.

    `what` is a function of the settings, a command as a list, or a shell script as a text, with
    {name} where settings go. `fields` are those of a study or a job: direction, sampler, policy,
    seed, target, budget, resources, … Without `wait` the study goes on by itself.
    """
    from dovetail.jobfiles.job_model import dump
    from dovetail.jobfiles.study_model import read_study

    _refuse_inside_a_trial()
    asked = {"space": space, "metric": metric, "steps": steps, "trials": trials, **fields}
    spec = dump(read_study({**asked, **_way(what, fields.get("envs") or {})}))
    client = Client(find_home(home), named=home)
    try:
        opened = read(StudyOpen, client.post("/v1/studies", as_sent(spec)))
        return _followed(client, opened.study) if wait else _look(client, opened.study)
    finally:
        client.close()


def _refuse_inside_a_trial() -> None:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == WORKER:
        raise BadInput(
            "a trial imports this file, and must not begin a study itself; "
            "put tune(…) below: if __name__ == '__main__':"
        )


def _followed(client: Client, study: str) -> Result:
    """Looked at until it is closed."""
    pause_s = _FIRST_LOOK_S
    while (found := _look(client, study)).state != "closed":
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LATER_S)
    return found


def _look(client: Client, study: str) -> Result:
    told = patiently(client, StudyPage, f"/v1/studies/{study}")
    return Result(
        study=told.id,
        name=told.name,
        state=told.state,
        reason=told.reason,
        trials=tuple(_trial(own) for own in told.trials),
        best_number=told.best.trial if told.best else None,
    )


def _trial(told: TrialRow) -> TrialResult:
    curve = tuple((step, nan if value is None else value) for step, value, _ in told.points)
    return TrialResult(told.number, told.state, told.settings, told.best, curve)


# ----------------------------------------------------------------------------------------- functions


def _way(what: What, envs: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a study that name its command."""
    if isinstance(what, str):
        return {"run": what}
    if not callable(what):
        return {"command": list(what)}
    module = sys.modules.get(getattr(what, "__module__", ""))
    name = getattr(what, "__qualname__", "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or not name or "<" in name:
        raise BadInput(
            f"{name or what!r} cannot be found by a process of its own; "
            "give a function that stands at the top of a file"
        )
    return {"python": sys.executable, **_place(module, os.path.abspath(file), name, envs)}


def _place(module: ModuleType, file: str, name: str, envs: Mapping[str, str]) -> dict[str, Any]:
    """A file by its path; a module of a package by its name, from the folder of the package."""
    spec = getattr(module, "__spec__", None)
    dotted = spec.name if spec is not None else module.__name__  # python -m calls it __main__
    is_package = os.path.basename(file) == "__init__.py"
    if "." not in dotted and not is_package:
        return {"function": f"{file}:{name}"}
    above = os.path.dirname(file)
    for _ in range(dotted.count(".") + is_package):
        above = os.path.dirname(above)
    path = envs.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    joined = os.pathsep.join(part for part in (above, path) if part)
    return {"function": f"{dotted}:{name}", "envs": {**envs, "PYTHONPATH": joined}}
