"""Where the genetic search begins: at what runs now, and at states that were packed by hand.

A job that needs many GPUs at once would hardly come about by mutations, which change one entry.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from dovetail.policies.goodput.genetic import LITTLE, Sharing, States


def seeds(sharing: Sharing) -> States:
    """As it is; that with whoever waits; all of them packed anew, with the least they need; and the
    last two with what is left shared out."""
    as_it_is = sharing.held
    least = [packed(sharing, as_it_is), packed(sharing, np.zeros_like(as_it_is))]
    return np.stack([as_it_is, *least, *[grown(sharing, state) for state in least]])


def packed(sharing: Sharing, begin: States) -> States:
    """With the least that each job without GPUs needs, on one node where that is possible."""
    state = begin.copy()
    free = sharing.room - state.sum(axis=0)
    spanned = (state * (np.count_nonzero(state, axis=1) > 1)[:, None] > 0).any(axis=0)
    for job in np.nonzero(state.sum(axis=1) == 0)[0]:
        if not free.any():
            break
        row = _row(sharing, int(job), free, spanned)
        if row is not None:
            state[job] = row
            free -= row
            spanned |= (row > 0) & (np.count_nonzero(row) > 1)
    return state


def _row(
    sharing: Sharing, job: int, free: States, spanned: np.typing.NDArray[np.bool_]
) -> States | None:
    """On the tightest node that has so many, else over the emptiest of one kind; None: nowhere."""
    needs = max(int(sharing.least[job]), 1)
    usable = free * sharing.legal[job]
    row = np.zeros_like(free)
    fits = np.nonzero(usable >= needs)[0]
    if len(fits):
        row[fits[np.argmin(usable[fits])]] = needs
        return row
    for kind in np.unique(sharing.kinds):
        there = np.where((sharing.kinds == kind) & ~spanned, usable, 0)
        if there.sum() >= needs:
            order = np.argsort(-there, kind="stable")
            upto = np.minimum(np.cumsum(there[order]), needs)
            row[order] = np.diff(upto, prepend=0)
            return row
    return None


class _Growth(NamedTuple):
    """More GPUs for a job on one node; the largest is the best."""

    gain: float  # for each of them
    job: int
    node: int
    gpus: int


def grown(sharing: Sharing, begin: States) -> States:
    """Free GPUs go, step by step, to the job that makes most of each on a node where it is."""
    state = begin.copy()
    free = sharing.room - state.sum(axis=0)
    best = [_growth(sharing, state, free, job) for job in range(len(state))]
    heap = [(-one.gain, one) for one in best if one is not None]
    heapify(heap)
    while heap:
        _, step = heappop(heap)
        now = _growth(sharing, state, free, step.job)
        if now is not None and now == step:
            state[now.job, now.node] += now.gpus
            free[now.node] -= now.gpus
            now = _growth(sharing, state, free, now.job)
        if now is not None:
            heappush(heap, (-now.gain, now))
    return state


def _growth(sharing: Sharing, state: States, free: States, job: int) -> _Growth | None:
    """The best step of a job that has GPUs: of one, two, four... or all that are free on its node."""
    row = state[job]
    there = np.nonzero(row)[0]
    if not len(there):
        return None
    node, has = int(there[np.argmax(free[there])]), int(row.sum())
    most = min(int(free[node]), int(sharing.most[job]) - has)
    if most <= 0:
        return None
    counts = [2**k for k in range(most.bit_length()) if 2**k < most] + [most]
    alone = sharing.speedup[job, int(len(there) > 1)]
    changed = (row != sharing.held[job]).any()
    now = _term(alone[has] * (sharing.kept[job] if changed else 1.0), sharing.power)
    gains = [
        (_term(alone[has + gpus] * sharing.kept[job], sharing.power) - now) / gpus
        for gpus in counts
    ]
    at = int(np.argmax(gains))
    return _Growth(float(gains[at]), job, node, counts[at]) if gains[at] > 0 else None


def _term(speedup: float, power: float) -> float:
    """What a job adds to the sum that the mean grows with."""
    return float((speedup + LITTLE) ** power) * (1.0 if power > 0 else -1.0)
