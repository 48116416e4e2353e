"""Days of jobs to judge forecasts by: made up in families, or cut out of traces.

What was chosen in the making of forecasts was chosen on CHOSEN_ON; the families of LEFT_OUT and the
traces were looked at when it had been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

from dovetail import traces
from dovetail.core.model import Job
from dovetail.jobfiles.job_model import read
from dovetail.jobfiles.jobs import to_job
from dovetail.models.workload import Arrival

JOBS = 300
SHORTEST_S, LONGEST_S = 60.0, 86_400.0  # live they are scaled to fractions of a second
USERS = ("ann", "bob", "cyd", "dan", "eve")
DATA = Path(__file__).parent.parent.parent / "shared/data"


@dataclass(frozen=True)
class Made:
    """A job as its user describes it, and how long it really takes."""

    user: str
    words: tuple[str, ...]
    seconds: float
    estimate: float | None = None
    limit: float | None = None

    def job(self, number: int) -> Job:
        spec: dict[str, Any] = {"command": list(self.words), "resources": {"gpus": 1}}
        if self.estimate is not None:
            spec["estimate"] = self.estimate
        if self.limit is not None:
            spec["time_limit"] = self.limit
        return to_job(read(spec), f"j{number}", self.user, 0.0)


def _clipped(seconds: float) -> float:
    return min(max(seconds, SHORTEST_S), LONGEST_S)


def _noisy(chance: Random, seconds: float, spread: float) -> float:
    return _clipped(seconds * exp(chance.gauss(0.0, spread)))


def _level(chance: Random, wide: float = 1.2) -> float:
    return 3600.0 * exp(chance.gauss(-0.5, wide))


# ------------------------------------------------------------------------------------------ families


def repeats(chance: Random) -> Iterator[Made]:
    """A few commands, again and again; every eighth is new."""
    known = [(chance.choice(USERS), f"train{n}.py", _level(chance)) for n in range(12)]
    while True:
        if chance.random() < 0.12:
            known.append((chance.choice(USERS), f"new{len(known)}.py", _level(chance)))
        user, name, level = chance.choice(known)
        yield Made(user, ("python", name, "--fold", "1"), _noisy(chance, level, 0.15))


def sweeps(chance: Random) -> Iterator[Made]:
    """Scripts with other values each time; how long depends on the epochs, and on the model."""
    scripts = [(chance.choice(USERS), f"sweep{n}.py", _level(chance) / 50) for n in range(10)]
    while True:
        if chance.random() < 0.08:
            scripts.append((chance.choice(USERS), f"try{len(scripts)}.py", _level(chance) / 50))
        user, name, level = chance.choice(scripts)
        epochs, units = chance.choice([1, 10, 50, 100, 300]), chance.choice([16, 64, 256])
        words = ("python", name, "--epochs", str(epochs), "--units", str(units))
        yield Made(user, words, _noisy(chance, 40 + level * epochs * (units / 64) ** 0.3, 0.1))


def strangers(chance: Random) -> Iterator[Made]:
    """Hardly any name comes twice; users differ in what they run."""
    levels = {user: _level(chance, 1.0) for user in USERS}
    number = 0
    while True:
        user, number = chance.choice(USERS), number + 1
        name = f"job{number if chance.random() < 0.8 else chance.randrange(number)}.sh"
        yield Made(user, ("bash", name), _noisy(chance, levels[user], 1.3))


def two_kinds(chance: Random) -> Iterator[Made]:
    """Of every command some runs end at once, by a mistake that exits with 0, or as a smoke test."""
    for made in repeats(chance):
        if chance.random() < 0.25:
            smoke = (*made.words, "--smoke") if chance.random() < 0.5 else made.words
            yield replace(made, words=smoke, seconds=_noisy(chance, 90.0, 0.3))
        else:
            yield made


def estimating(chance: Random) -> Iterator[Made]:
    """Users who say how long: some well, some ten times too much, some only a limit."""
    habits = {user: (chance.uniform(0.0, 1.6), chance.uniform(0.1, 0.8)) for user in USERS}
    for made in strangers(chance):
        over, spread = habits[made.user]
        said = _noisy(chance, made.seconds * exp(over), spread)
        if chance.random() < 0.3:
            yield replace(made, limit=max(said, made.seconds * 1.05))
        else:
            yield replace(made, estimate=said)


# Looked at only when everything had been chosen.


def drifting(chance: Random) -> Iterator[Made]:
    """Data sets grow, machines get slower: everything takes four times as long in the evening."""
    for number, made in enumerate(repeats(chance)):
        yield replace(made, seconds=_clipped(made.seconds * 4 ** (number / JOBS)))


def heavy(chance: Random) -> Iterator[Made]:
    """Pareto's tails, by name."""
    names = [(chance.choice(USERS), f"mine{n}.py") for n in range(60)]
    levels = {name: 200.0 * chance.paretovariate(0.9) for name in names}
    while True:
        name = chance.choice(names)
        yield Made(
            name[0],
            ("python", name[1], str(chance.randrange(3))),
            _noisy(chance, levels[name], 0.5),
        )


def laboratory(chance: Random) -> Iterator[Made]:
    """All of these people in one building."""
    families = [
        repeats(chance),
        sweeps(chance),
        strangers(chance),
        two_kinds(chance),
        heavy(chance),
    ]
    while True:
        yield next(chance.choice(families))


Family = Callable[[Random], Iterator[Made]]
CHOSEN_ON: dict[str, Family] = {
    own.__name__: own for own in (repeats, sweeps, strangers, two_kinds, estimating)
}
LEFT_OUT: dict[str, Family] = {own.__name__: own for own in (drifting, heavy, laboratory)}


# ------------------------------------------------------------------------------------------ a day


def day(made: Iterator[Made], chance: Random, slots: int, load: float = 0.9) -> list[Arrival]:
    """Jobs that come at random, as many as keep the slots so busy."""
    jobs = [next(made) for _ in range(JOBS)]
    apart = sum(own.seconds for own in jobs) / JOBS / slots / load
    at, arrivals = 0.0, []
    for number, own in enumerate(jobs):
        at += chance.expovariate(1.0 / apart)
        arrivals.append(Arrival(at, own.job(number), own.seconds))
    return arrivals


def days_of_trace(path: Path, number: int, seed: int) -> Iterator[list[Arrival]]:
    """Stretches of so many jobs in a row, brought to one GPU each and to a load that keeps some
    waiting; who and what they are stays as it was."""
    arrivals = sorted(traces.read(path).arrivals, key=lambda arrival: arrival.at)
    chance = Random(f"{path.name}/{seed}")
    for _ in range(number):
        first = chance.randrange(max(len(arrivals) - JOBS, 1))
        part = arrivals[first : first + JOBS]
        work = sum(one.work_s for one in part)
        apart = work / len(part) / 8 / 0.9
        at, found = 0.0, []
        for one in part:
            at += chance.expovariate(1.0 / max(apart, 1e-9))
            job = replace(one.job, gpus=1, share=1000, kinds=(), cpus=0.0, memory_gb=0.0)
            found.append(Arrival(at, job, one.work_s))
        yield found


def log_width(low: float, high: float) -> float:
    return log((high + 1.0) / (low + 1.0))
