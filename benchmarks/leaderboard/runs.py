"""One row of the leaderboard: a policy on a load, as many seeds as chance asks for, within a time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.leaderboard.loads import Load
from dovetail.catalogue import settable
from dovetail.core.errors import DovetailError
from dovetail.core.track import Track
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.parallel import Failure, each
from dovetail.policies import registry
from dovetail.results.finished_jobs import FinishedJobs

PREDICTOR = "history-mean"
SHORTEST_S = 10.0  # of a job's own length, so that a job of a second does not decide the fairness
ON_TIME_S = 1e-6
# Those that refuse what they cannot promise, once more without: else they finish fewer jobs.
VARIANTS = ("elasticflow:refuse=false", "chronus:refuse=false")
Figures = Mapping[str, float]


@dataclass(frozen=True)
class Settings:
    """How a leaderboard is made; said on its page."""

    seeds: int = 10
    row_s: float = 40.0  # wall-clock, for all seeds of a row
    minutes: float = 55.0  # for everything; rows that come later say so
    loads: tuple[str, ...] = ()  # empty: all
    policies: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardRow:
    """A policy on a load: the figures of each run, or why there are none."""

    load: str
    policy: str
    knows: str
    runs: tuple[Figures, ...] = ()
    reason: str = ""


class _OutOfTime(BaseException):
    """Not an `Exception`: policies catch some of these."""


def policies() -> list[str]:
    """Everything in the catalogue, and each that asks for durations again with predicted ones."""
    known = [*registry.names(), *VARIANTS]
    asking = [text for text in known if "oracle" in registry.sources(text, "oracle")]
    return [*known, *(f"{text}:predictor={PREDICTOR}" for text in asking)]


def knows(experiment: Experiment, text: str) -> str:
    """Letters, explained on the page; `-` for a policy that is told nothing."""
    known = settable(registry.find(text.partition(":")[0]))
    told, sources = experiment.knowledge(), registry.sources(text, experiment.predictor)
    letters = {
        "D": experiment.predictor in sources,
        "P": PREDICTOR in sources,
        "S": "services" in sources,
        "V": registry.speeds_of(text, told.speed) not in (None, "none"),
        "W": "left" in known and told.left != "predicted",
        "E": "costs" in known,
    }
    return "".join(letter for letter, holds in letters.items() if holds) or "-"


def figures(experiment: Experiment, text: str, tell: Callable[[int], object]) -> Figures:
    """One run."""
    own_s = {one.job.id: max(one.work_s, SHORTEST_S) for one in experiment.arrivals}
    due = sum(one.job.deadline is not None for one in experiment.arrivals)
    slowdowns, kept = list[float](), list[bool]()

    def note(track: Track) -> None:
        deadline = track.job.deadline
        slowdowns.append((track.ended_at - track.submitted_at) / own_s[track.job.id])
        kept.append(deadline is not None and track.ended_at <= deadline + ON_TIME_S)

    summary = simulate(experiment, text, progress=tell, watching=FinishedJobs(note)).summary
    names = ("finished", "mean_jct_s", "p99_jct_s", "makespan_s", "energy_kwh")
    found = {name: float(summary[name]) for name in names}
    if due:
        found["on_time"] = sum(kept) / due
    return {**found, "fairness": jain(slowdowns)}


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def all_rows(
    loads: Sequence[Load], texts: Sequence[str], settings: Settings, folder: Path, quiet: bool
) -> list[BoardRow]:
    """A row for each policy on each load, whatever comes of it."""
    ends = time.monotonic() + 60.0 * settings.minutes
    made = [[one.make(folder, seed) for seed in _seeds(one, settings)] for one in loads]
    pieces = [(i, text) for i in range(len(loads)) for text in texts]

    def work(number: int, tell: Callable[[int], object]) -> BoardRow:
        i, text = pieces[number]
        return row(loads[i].name, made[i], text, settings, ends, tell)

    sizes = [len(made[i]) * len(made[i][0].arrivals) for i, _ in pieces]
    found = each([f"{loads[i].name} {text}" for i, text in pieces], sizes, work, "running", quiet)
    return [
        BoardRow(loads[i].name, text, knows(made[i][0], text), reason=one.reason)
        if isinstance(one, Failure)
        else one
        for (i, text), one in zip(pieces, found.results, strict=True)
    ]


def _seeds(load: Load, settings: Settings) -> range:
    return range(settings.seeds if load.drawn else 1)


def row(
    load: str, made: Sequence[Experiment], text: str, settings: Settings, ends: float,
    tell: Callable[[int], object],
) -> BoardRow:  # fmt: skip
    """The runs of a policy on one load, up to the first that fails or is out of time."""
    told = knows(made[0], text)
    asked = _asked(made, text, settings.seeds)
    left_s = min(settings.row_s, ends - time.monotonic())
    if left_s <= 0:
        return BoardRow(load, text, told, reason="not run: the time for all rows was over")
    runs, reason = list[Figures](), ""
    try:
        with _within(left_s):
            for experiment, seeded in asked:
                runs.append(figures(experiment, seeded, tell))
    except _OutOfTime:
        reason = f"out of time: {len(runs)} of {len(asked)} runs ended in {left_s:.0f} s"
    except DovetailError as error:
        reason = f"failed: {error}"
    return BoardRow(load, text, told, tuple(runs), reason)


def _asked(made: Sequence[Experiment], text: str, seeds: int) -> list[tuple[Experiment, str]]:
    """One run for each drawn load; of a policy that draws, one for each seed."""
    if "seed" not in settable(registry.find(text.partition(":")[0])):
        return [(one, text) for one in made]
    return [(made[seed % len(made)], f"{text}:seed={seed}") for seed in range(seeds)]


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises `_OutOfTime` in what runs longer, again and again until it unwinds."""

    def over(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
