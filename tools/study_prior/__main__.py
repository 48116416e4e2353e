"""`python -m tools.study_prior`: two rounds of replay and fit; then how well the result does."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from dovetail.core.errors import BadInput
from dovetail.tune.extrapolation import Prior

from .families import NAMES, Family, to_judge_by, to_learn_from
from .fitting import at_first, averaged, fitted, written
from .states import States, View, met, share

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "dovetail" / "tune" / "prior.json"
VIEWS = (View(0.6), View(0.25, trials=27, slots=2, first=1, every=2), View(0.15, steps=26))
FIRST_SEEDS = (1000, 2000)  # of each round; shares are of seeds from 0
_EVERY = 20  # choices of the rule, one is learned from
_FOLDS = 3
Told: TypeAlias = Mapping[str, Any]
ByFamily: TypeAlias = Mapping[str, States]


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    try:
        with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
            _run(options, pool)
    except (BadInput, OSError) as error:
        print(f"study_prior: {error}", file=sys.stderr)
        return 2
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.study_prior", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the recorded curves")
    add("--leave-out-each", action="store_true",
        help="a prior for every family, fitted without it, in one file")  # fmt: skip
    add("--out", type=Path, default=ROOT / "build" / "prior.json")
    add("--judge", type=Path, metavar="PRIOR", help="fit nothing; tell how well this one does")
    add("--draws", type=float, default=1.0, help="times as many replays to learn from")
    add("--epochs", type=int, default=20, help="of the last fit")
    add("--members", type=int, default=2, help="fits that are averaged")
    add("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(words)


def _run(options: argparse.Namespace, pool: Executor) -> None:
    if options.judge:
        _tell_shares(_read(options.judge), options, pool)
        return
    families = to_learn_from(options.data)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.leave_out_each:
        options.out.write_text(json.dumps(_each_left_out(families, options, pool)))
        return
    first = _met_by(at_first(), families, options, 0, pool)
    second = _met_by(_fit(first, options, pool), families, options, 1, pool)
    options.out.write_text(written(_fit(_both(first, second), options, pool)))
    _say(f"written: {options.out}")
    _tell_shares(_read(options.out), options, pool)


def _each_left_out(
    families: Sequence[Family], options: argparse.Namespace, pool: Executor
) -> dict[str, Told]:
    """Neither the prior of a family nor the one that the replays were made with has seen it."""
    first = _met_by(at_first(), families, options, 0, pool)
    found: dict[str, Told] = {}
    for fold in range(_FOLDS):
        left_out = NAMES[fold::_FOLDS]
        acting = _fit(_without(left_out, first), options, pool)
        both = _both(first, _met_by(acting, families, options, 1, pool))
        for name in left_out:
            found[name] = json.loads(written(_fit(_without([name], both), options, pool)))
            _say(f"fitted without {name}")
    return found


def _read(path: Path) -> Prior:
    try:
        return Prior(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{path}: is no prior for the signs of today ({error}); fit one") from None


def _fit(states: ByFamily, options: argparse.Namespace, pool: Executor) -> Told:
    learned = States.joined(list(states.values()))
    fits = [pool.submit(fitted, learned, options.epochs, own) for own in range(options.members)]
    return averaged([fit.result() for fit in fits])


def _without(names: Sequence[str], states: ByFamily) -> ByFamily:
    return {name: own for name, own in states.items() if name not in names}


def _both(first: ByFamily, second: ByFamily) -> ByFamily:
    return {name: States.joined([own, second[name]]) for name, own in first.items()}


def _met_by(
    prior: Told,
    families: Sequence[Family],
    options: argparse.Namespace,
    number: int,
    pool: Executor,
) -> ByFamily:
    asked = {
        family.name: list(_asked(Prior(prior), family, options.draws, FIRST_SEEDS[number], pool))
        for family in families
    }
    found = {}
    for name, parts in asked.items():
        found[name] = States.joined([part.result() for part in parts])
        _say(f"round {number + 1}: {len(found[name])} states of {name}")
    return found


def _asked(
    prior: Prior, family: Family, draws: float, first_seed: int, pool: Executor
) -> Iterator[Any]:
    for view in VIEWS:
        seeds = range(first_seed, first_seed + max(1, round(family.draws * view.often * draws)))
        for task in family.tasks:
            yield pool.submit(met, prior, task, view, seeds, _EVERY)


def _tell_shares(prior: Prior, options: argparse.Namespace, pool: Executor) -> None:
    for name in NAMES:
        family = to_judge_by(name, options.data)
        seeds = range(max(2, 48 // len(family.tasks)))
        found = pool.map(partial(share, prior, seeds=seeds), family.tasks)
        print(f"{exp(fmean(map(log, found))):.3f} of the clairvoyant on {name}", flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # As many processes as processors work: more threads would be in each other's way.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.exit(main())
