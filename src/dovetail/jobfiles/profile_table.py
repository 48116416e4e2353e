"""The file that `dovetail profile` writes and that a job names: speeds, start-up and watts by kind and
number of GPUs. It is read where the job is submitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from os.path import exists
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import Option, Seconds
from dovetail.jobfiles.profiles import as_times


@dataclass(frozen=True, slots=True)
class Timing:
    """How the job did with so many GPUs of a kind. Watts are of the GPUs that one job has, where they
    tell."""

    kind: str
    gpus: int
    steps_per_s: float
    startup_s: Seconds = 0.0
    shutdown_s: Seconds = 0.0
    watts: float | None = None
    startup_watts: float | None = None

    def __post_init__(self) -> None:
        numbers = [self.steps_per_s, self.startup_s, self.shutdown_s]
        if not (self.gpus >= 1 and self.steps_per_s > 0 and min(numbers) >= 0):
            raise ValueError("give at least 1 GPU, more than 0 steps a second, and no time below 0")

    def seconds(self, steps: float) -> Seconds:
        """The seconds of a whole job with so many steps."""
        return self.startup_s + steps / self.steps_per_s + self.shutdown_s

    def joules(self, steps: float) -> float | None:
        if self.watts is None:
            return None
        idle = self.watts if self.startup_watts is None else self.startup_watts
        return idle * (self.startup_s + self.shutdown_s) + self.watts * steps / self.steps_per_s


@dataclass(frozen=True, slots=True)
class ProfileTable:
    timings: tuple[Timing, ...]
    steps: float | None = None  # of the whole job
    command: tuple[str, ...] = ()

    def options(self, steps: float | None = None) -> list[Option]:
        """Every way that was measured, and how long all of the job takes so."""
        whole = steps or self.steps
        if whole is None:
            raise BadInput(
                "it is not said how many steps the whole job has; write "
                "profile: {file: …, steps: 5000}, or give --steps to dovetail profile"
            )
        return [Option(own.kind, own.gpus, own.seconds(whole)) for own in self.timings]


def text_of(table: ProfileTable) -> str:
    """YAML, a line for each way."""
    lines = ["# By dovetail profile. A job file names it: profile: THIS FILE"]
    if table.command:
        lines.append(f"command: {json.dumps(list(table.command))}")
    if table.steps is not None:
        lines.append(f"steps: {table.steps:.15g}")
    lines.append("measured:")
    for timing in table.timings:
        row = {item.name: getattr(timing, item.name) for item in fields(timing)}
        told = ", ".join(
            f"{name}: {_short(value)}" for name, value in row.items() if value is not None
        )
        lines.append(f"- {{{told}}}")
    return "\n".join(lines) + "\n"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)


def read_table(path: str) -> ProfileTable:
    from dovetail.jobfiles.yaml_files import located, text_of

    found, _ = located(text_of(path), path)
    rows = found.get("measured") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(rows, Sequence) or not rows:
        raise BadInput(f"{path}: there is nothing under measured; have dovetail profile write it")
    timings = tuple([_timing(path, number, row) for number, row in enumerate(rows, 1)])
    steps = found.get("steps")
    return ProfileTable(timings, None if steps is None else _number(f"{path}: steps", steps))


def _timing(path: str, number: int, row: object) -> Timing:
    where = f"{path}: measured, row {number}"
    known = {item.name for item in fields(Timing)}
    if not isinstance(row, Mapping) or not {"kind", "gpus", "steps_per_s"} <= set(row) <= known:
        raise BadInput(f"{where}: kind, gpus and steps_per_s are needed, and beyond them only "
                       "startup_s, shutdown_s, watts and startup_watts")  # fmt: skip
    values: dict[str, Any] = {
        name: value if name == "kind" else _number(f"{where}: {name}", value)
        for name, value in row.items()
    }
    try:
        return Timing(**{**values, "gpus": int(values["gpus"])})
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None


def _number(where: str, value: object) -> float:
    try:
        found = float(value) if isinstance(value, str | int | float) else float("nan")
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise BadInput(f"{where}: {value!r} is not a number")
    return found


def with_options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The description with times instead of the name of a file."""
    named = spec["profile"]
    given = _apart(named) if isinstance(named, str) else named
    if not isinstance(given, Mapping) or not isinstance(given.get("file"), str):
        raise BadInput(
            "profile: name the file that dovetail profile wrote: profile: train.profile.yaml"
        )
    if unknown := [name for name in given if name not in ("file", "steps")]:
        raise BadInput(f"profile.{unknown[0]}: there is no such field; it has file and steps")
    if spec.get("options"):
        raise BadInput("options and profile: give one of them, not both")
    table, path = read_table(given["file"]), given["file"]
    try:
        options = table.options(_steps(given.get("steps")))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    rest = {name: value for name, value in spec.items() if name != "profile"}
    return {**rest, "options": as_times(options)}


def _apart(named: str) -> dict[str, str]:
    """A file, or `train.profile.yaml@20000`."""
    file, at, steps = named.rpartition("@")
    return {"file": file, "steps": steps} if at and not exists(named) else {"file": named}


def _steps(given: object) -> float | None:
    from dovetail.jobfiles.quantities import within

    if given is None:
        return None
    try:
        return within(1e-9, 1e18)(given)
    except ValueError as error:
        raise BadInput(f"profile.steps: {given!r} {error}") from None
