"""Which job has how many GPUs of which node: Pollux' genetic search (OSDI 2021).

A state is a table of GPUs by job and node. Its value is the power mean of the jobs' speed-ups; a job
whose row changes counts for less, since restarting costs. States are crossed by rows of jobs,
mutated by entries, and repaired: no node is oversold, no job has more than it may, at most one job
that spans nodes is on any node, and none spans GPU kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dovetail.models.goodput import Floats, power_mean

States: TypeAlias = NDArray[np.int64]  # [state, job, node], or one of them: [job, node]

LITTLE: Final = 1e-3  # what a job without GPUs counts for, so that its share in the mean is finite
_RESET: Final = 0.1  # of rows go back to what runs now
_CELLS: Final = 400_000  # of all states together, so that a generation takes milliseconds
_FEWEST: Final = 4
_ZEROED: Final = 0.1  # of rows lose entries, a tenth of them


@dataclass(frozen=True, eq=False)
class Sharing:
    """What is to be shared out, among whom, and what each makes of it."""

    speedup: Floats  # [job, 0: one node or 1: several, GPUs], of all it has
    held: States  # [job, node]: as it is now
    kept: Floats  # [job]: what a change of its row leaves of a speed-up
    least: States  # [job]: GPUs it needs
    most: States  # [job]: and the most it may have
    room: States  # [node]: GPUs there are to share out
    legal: States  # [job, node]: 1 where it may be
    kinds: States  # [node]: number of the node's GPU kind
    power: float = -1.0  # of the mean; the smaller, the fairer


class SearchEffort(NamedTuple):
    """How long to search: so many states and generations, or until nothing got better for so many
    of them, or so many seconds of the processor: then a run is the same on a busy machine."""

    states: int = 100
    generations: int = 100
    patience: int = 100
    seconds: float = 1.0


class BestState(NamedTuple):
    """The best state, its value, and how the search ended."""

    state: States  # [job, node]
    value: float
    generations: int
    out_of_time: bool


def value(sharing: Sharing, states: States) -> Floats:
    """The mean speed-up of each state, with what restarts cost."""
    return _mean(sharing, _speedups(sharing, states))


def _speedups(sharing: Sharing, states: States) -> Floats:
    gpus = states.sum(axis=2)
    spread = (np.count_nonzero(states, axis=2) > 1).astype(np.int64)
    alone = sharing.speedup[np.arange(gpus.shape[1]), spread, gpus]
    changed = (states != sharing.held).any(axis=2)
    worth: Floats = np.where(changed, alone * sharing.kept, alone)
    return worth


def _mean(sharing: Sharing, speedups: Floats) -> Floats:
    return power_mean(speedups + LITTLE, sharing.power)


def search(sharing: Sharing, seeds: States, effort: SearchEffort, seed: int) -> BestState:
    """The best state found; the seeds are where it begins."""
    chance = np.random.default_rng(seed)
    ends = thread_time() + effort.seconds
    number = min(effort.states, max(_CELLS // sharing.held.size, _FEWEST))
    states = repaired(sharing, seeds, chance)
    worth = value(sharing, states)
    best, since, made = float(worth.max()), 0, 0
    while made < effort.generations and since < effort.patience and thread_time() < ends:
        children = _children(sharing, states, worth, number, chance)
        states = np.concatenate((states, children))
        worth = np.concatenate((worth, value(sharing, children)))
        order = np.argsort(-worth, kind="stable")[:number]
        states, worth = states[order], worth[order]
        made += 1
        since = 0 if worth[0] > best else since + 1
        best = float(worth[0])
    return BestState(states[int(np.argmax(worth))], best, made, thread_time() >= ends)


def _children(
    sharing: Sharing, states: States, worth: Floats, number: int, chance: np.random.Generator
) -> States:
    """Crossed, mutated and repaired. A parent is the better of two drawn by chance."""
    drawn = chance.integers(len(states), size=(2, 2, number))
    first, second = np.where(worth[drawn[0]] >= worth[drawn[1]], drawn[0], drawn[1])
    jobs = states.shape[1]
    cut = chance.integers(jobs, size=(number, 1))
    mine = (np.arange(jobs) < cut)[:, :, None]
    return repaired(
        sharing, _mutated(sharing, np.where(mine, states[first], states[second]), chance), chance
    )


def _mutated(sharing: Sharing, states: States, chance: np.random.Generator) -> States:
    """Rows go back to what runs now or lose entries; entries grow where GPUs are free."""
    shape = states.shape
    states = np.where((chance.random(shape[:2]) < _RESET)[:, :, None], sharing.held, states)
    loses = np.where(chance.random(shape[:2]) < _ZEROED, 0.1, 0.0)[:, :, None]
    states[chance.random(shape) < loses] = 0
    free = (sharing.room - states.sum(axis=1) > 0)[:, None, :] & (sharing.legal > 0)
    anywhere = free / np.maximum(free.sum(axis=1, keepdims=True), 1)
    grows = free & (states > 0)
    where_it_is = grows / np.maximum(grows.sum(axis=1, keepdims=True), 1)
    odds = anywhere + where_it_is - anywhere * where_it_is
    hit = np.nonzero(chance.random(shape) < odds)
    states[hit] = chance.integers(states[hit], sharing.room[hit[2]] + 1)
    return states


def repaired(sharing: Sharing, states: States, chance: np.random.Generator) -> States:
    """Made legal."""
    states = states * sharing.legal
    if sharing.kinds.any():
        states = _on_one_kind(sharing, states)
    spans = (np.count_nonzero(states, axis=2) > 1)[:, :, None] & (states > 0)
    states[spans & (spans.cumsum(axis=1) > 1)] = 0
    too_many = np.nonzero(states.sum(axis=2) > sharing.most)
    if len(too_many[0]):
        states[too_many] = _cut(states[too_many], sharing.most[too_many[1]], chance)
    states = np.diff(np.minimum(np.cumsum(states, axis=1), sharing.room), axis=1, prepend=0)
    states[states.sum(axis=2) < sharing.least] = 0
    return states


def _cut(rows: States, most: States, chance: np.random.Generator) -> States:
    """As many as the job may have, from its nodes in an order drawn by chance."""
    order = np.argsort(chance.random(rows.shape), axis=1)
    kept = np.minimum(np.cumsum(np.take_along_axis(rows, order, 1), axis=1), most[:, None])
    cut = np.empty_like(rows)
    np.put_along_axis(cut, order, np.diff(kept, axis=1, prepend=0), 1)
    return cut


def _on_one_kind(sharing: Sharing, states: States) -> States:
    """Only those on the kind of which the job has most."""
    member = np.eye(int(sharing.kinds.max()) + 1, dtype=np.int64)[sharing.kinds]
    main = (states @ member).argmax(axis=2)
    kept: States = states * (main[:, :, None] == sharing.kinds)
    return kept
