"""`python -m tools.study_prior`: three rounds of replay and fit; then how well the result does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.tune.extrapolation import Prior
from dovetail.tune.recorded import Task, read_curves

from . import networks
from .fitting import at_first, averaged, fitted, written
from .states import States, View, met, share

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "dovetail" / "tune" / "prior.json"
RECORDED_VIEWS = (
    View(1.3),
    View(0.4, trials=27, slots=2, first=1, every=2),
    View(0.3, first=1),
    View(0.2, trials=16, slots=2, first=2, every=4),
    View(0.2, steps=26),
)
NETWORK_VIEWS = (
    View(0.5),
    View(0.5, trials=27, slots=2, steps=27),
    View(0.5, trials=27, slots=2, first=1, every=2),
)
FIRST_SEEDS = (1000, 1500, 2000)  # of each round; the shares are of seeds from 0
JUDGED = {"lcbench": 30, "taskset": 80}  # draws of each task


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    tasks: Sequence[Task]
    views: Sequence[View]
    draws: float  # of each task in a round


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    draws: float = 1.0  # times those of the families
    epochs: tuple[int, int, int] = (20, 20, 40)
    members: int = 2  # of the last fit, averaged
    tasks: int = len(networks.TASKS)
    settings: int = networks.SETTINGS


QUICK = Size(draws=0.15, epochs=(10, 10, 30), members=1, tasks=2, settings=36)


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    try:
        with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
            _run(options, QUICK if options.quick else Size(), pool)
    except (BadInput, OSError) as error:
        print(f"study_prior: {error}", file=sys.stderr)
        return 2
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.study_prior", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the recorded curves")
    add("--networks", type=Path, help="curves of small networks; made there if absent")
    add("--hold-out", choices=("even", "odd", "none"), default="none",
        help="tasks at these places of each set are not learned from, only judged")  # fmt: skip
    add("--out", type=Path, default=ROOT / "build" / "prior.json")
    add("--judge", type=Path, metavar="PRIOR", help="fit nothing; tell how well this one does")
    add("--quick", action="store_true", help="few draws and networks: some minutes")
    add("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(words)


def _run(options: argparse.Namespace, size: Size, pool: Executor) -> None:
    recorded = _recorded(options.data)
    judged = [replace(own, tasks=_half(own.tasks, options.hold_out)) for own in recorded]
    if options.judge:
        _tell_shares(str(options.judge), _read(options.judge), judged, pool)
        return
    made = "small-networks-quick.csv" if options.quick else "small-networks.csv"
    path = options.networks or ROOT / ".benchmarks" / made
    for line in networks.make_curves(path, size.tasks, size.settings, pool):
        _say(line)
    learned = {"even": "odd", "odd": "even", "none": "none"}[options.hold_out]
    families = [
        replace(own, tasks=_half(own.tasks, learned)) for own in [*recorded, *_networks(path)]
    ]
    every = 12 if options.hold_out == "none" else 8  # half as many tasks: more of each
    prior = _trained(families, size, every, pool)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(written(prior))
    _say(f"written: {options.out}")
    _tell_shares("this one", _read(options.out), judged, pool)
    _tell_shares("the shipped, fitted to all tasks", _read(SHIPPED), judged, pool)


def _read(path: Path) -> Prior:
    try:
        return Prior(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{path}: is no prior for the signs of today ({error}); fit one") from None


def _recorded(data: Path) -> list[Family]:
    lcbench = data / "hpo_lcbench_surrogate" / "curves_200cfg.parquet"
    taskset = data / "hpo_taskset" / "curves.parquet"
    for path in (lcbench, taskset):
        if not path.exists():
            raise BadInput(f"{path} is not here; name the folder of both sets of curves: --data")
    return [
        Family("lcbench", read_curves(lcbench), RECORDED_VIEWS, draws=24),
        Family("taskset", read_curves(taskset), RECORDED_VIEWS, draws=72),
    ]


def _networks(path: Path) -> list[Family]:
    return [
        Family(f"networks by {metric}", read_curves(path, metric), NETWORK_VIEWS, draws=24)
        for metric in networks.METRICS
    ]


def _half(tasks: Sequence[Task], which: str) -> Sequence[Task]:
    return {"even": tasks[::2], "odd": tasks[1::2], "none": tasks}[which]


def _trained(
    families: Sequence[Family], size: Size, every: int, pool: Executor
) -> Mapping[str, Any]:
    """Each round replays with the prior of the one before; the last learns from two of them."""
    prior = at_first()
    before: list[States] = []
    for number, first_seed in enumerate(FIRST_SEEDS):
        draws = size.draws * (0.5 if number == 0 else 1.0)
        states = States.joined(list(_all_met(prior, families, draws, first_seed, every, pool)))
        last = number == len(FIRST_SEEDS) - 1
        learned = States.joined([*before, states]) if last else states
        before = [states]
        _say(f"round {number + 1} of {len(FIRST_SEEDS)}: {len(learned)} states")
        members = range(size.members if last else 1)
        fits = [pool.submit(fitted, learned, size.epochs[number], member) for member in members]
        prior = averaged([fit.result() for fit in fits])
    return prior


def _all_met(
    prior: Mapping[str, Any],
    families: Sequence[Family],
    draws: float,
    first_seed: int,
    every: int,
    pool: Executor,
) -> Iterator[States]:
    asked = []
    for family in families:
        for view in family.views:
            seeds = range(first_seed, first_seed + max(2, int(family.draws * view.often * draws)))
            for task in family.tasks:
                asked.append(pool.submit(met, Prior(prior), task, view, seeds, every))
    for number, one in enumerate(asked):
        if number % 50 == 0:
            _say(f"replaying: {number} of {len(asked)} parts")
        yield one.result()


def _tell_shares(name: str, prior: Prior, judged: Sequence[Family], pool: Executor) -> None:
    for family in judged:
        seeds = range(JUDGED[family.name])
        found = pool.map(partial(share, prior, seeds=seeds), family.tasks)
        mean = exp(fmean(map(log, found)))
        print(
            f"{name}: {mean:.3f} of the clairvoyant on {len(family.tasks)} tasks of {family.name}"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # As many processes as processors work: more threads would be in each other's way.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.exit(main())
