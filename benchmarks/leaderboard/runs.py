"""One row of the leaderboard: a policy on a load, as many seeds as chance asks for, within a time.

Times are of processors, so that a row is the same whatever else the machine does."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.leaderboard.loads import Load
from benchmarks.leaderboard.rows import BoardRow, Figures, KeptRows, Settings
from dovetail.catalogue import settable
from dovetail.core.errors import DovetailError
from dovetail.core.track import Track
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.parallel import Failure, RunOutcomes, each
from dovetail.policies import registry
from dovetail.results.finished_jobs import FinishedJobs

PREDICTOR = "history-mean"
SHORTEST_S = 10.0  # of a job's own length, so that a job of a second does not decide the fairness
ON_TIME_S = 1e-6
# Those that refuse what they cannot promise, once more without: else they finish fewer jobs.
VARIANTS = ("elasticflow:refuse=false", "chronus:refuse=false")


class _OutOfTime(BaseException):
    """Not an `Exception`: policies catch some of these."""


def policies() -> list[str]:
    """Everything in the catalogue, and each that asks for durations again with predicted ones."""
    known = [*registry.names(), *VARIANTS]
    asking = [text for text in known if "oracle" in registry.sources(text, "oracle")]
    again = [registry.with_predictor(text, PREDICTOR) for text in asking]
    return [*known, *(text for text in again if text not in known)]


def knows(experiment: Experiment, text: str) -> str:
    """Letters, explained on the page; `-` for a policy that is told nothing."""
    policy = registry.find(text.partition(":")[0])
    known, told = settable(policy), experiment.knowledge()
    sources = registry.sources(text, experiment.predictor, told.left)
    counts = any(one.job.amount is not None for one in experiment.arrivals)
    letters = {
        "D": experiment.predictor in sources,
        "P": PREDICTOR in sources,
        "S": "services" in sources,
        "V": registry.speeds_of(text, told.speed) not in (None, "none"),
        "W": ("left" in known and told.left != "predicted")
        or (counts and getattr(policy, "by_reports", False)),
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
    loads: Sequence[Load], texts: Sequence[str], settings: Settings, folder: Path, kept: KeptRows,
    quiet: bool,
) -> list[BoardRow]:  # fmt: skip
    """A row for each policy on each load, whatever comes of it; those that are kept are not run."""
    made = [[one.make(folder, seed) for seed in _seeds(one, settings)] for one in loads]
    before = kept.rows()
    pieces = [
        (i, text)
        for i in range(len(loads))
        for text in texts
        if (loads[i].name, text) not in before
    ]
    left_s = multiprocessing.Value(
        "d", 60.0 * settings.minutes - sum(r.took_s for r in before.values())
    )

    def work(number: int, tell: Callable[[int], object]) -> BoardRow:
        i, text = pieces[number]
        found = row(loads[i].name, made[i], text, settings, left_s.value, tell)
        with left_s.get_lock():
            left_s.value -= found.took_s
        kept.keep(found)
        return found

    sizes = [len(made[i]) * len(made[i][0].arrivals) for i, _ in pieces]
    names = [f"{loads[i].name} {text}" for i, text in pieces]
    found = each(names, sizes, work, "running", quiet) if pieces else RunOutcomes[BoardRow]([])
    if found.stopped:
        raise SystemExit(found.exit_code)
    for (i, text), one in zip(pieces, found.results, strict=True):
        if isinstance(one, Failure):
            one = BoardRow(loads[i].name, text, knows(made[i][0], text), reason=one.reason)
        before[loads[i].name, text] = one
    return [before[load.name, text] for load in loads for text in texts]


def _seeds(load: Load, settings: Settings) -> range:
    return range(settings.seeds if load.drawn else 1)


def row(
    load: str, made: Sequence[Experiment], text: str, settings: Settings, left_s: float,
    tell: Callable[[int], object],
) -> BoardRow:  # fmt: skip
    """The runs of a policy on one load, up to the first that fails or is out of time."""
    told = knows(made[0], text)
    asked = _asked(made, text, settings.seeds)
    most_s = min(settings.row_s, left_s)
    if most_s <= 0:
        return BoardRow(load, text, told, reason="not run: the time for all rows was over")
    runs, reason, began_s = list[Figures](), "", time.process_time()
    try:
        with _within(most_s):
            for experiment, seeded in asked:
                runs.append(figures(experiment, seeded, tell))
    except _OutOfTime:
        reason = f"out of time: {len(runs)} of {len(asked)} runs ended in {most_s:.0f} s"
    except DovetailError as error:
        reason = f"failed: {error}"
    return BoardRow(load, text, told, tuple(runs), reason, time.process_time() - began_s)


def _asked(made: Sequence[Experiment], text: str, seeds: int) -> list[tuple[Experiment, str]]:
    """One run for each drawn load; of a policy that draws, one for each seed."""
    if "seed" not in settable(registry.find(text.partition(":")[0])):
        return [(one, text) for one in made]
    return [(made[seed % len(made)], f"{text}:seed={seed}") for seed in range(seeds)]


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises `_OutOfTime` in what takes longer, again and again until it unwinds."""

    def over(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
