"""Which nodes: jobs that keep their count keep their nodes, the others are placed from the largest down.

A job of whole nodes gets whole ones, a smaller one the tightest. Where there is no such node left,
smaller jobs make room and are placed again, which is a restart for them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, final

from dovetail.core.model import JobId
from dovetail.policies.goodput.taking import Row


def packed_rows(
    wanted: Mapping[JobId, int], held: Mapping[JobId, Row], room: Mapping[int, int]
) -> dict[JobId, Row]:
    """Nodes for so many GPUs of each job, on nodes that have so many to share out; () for those that
    there was no place for."""
    nodes = _Nodes(dict(room))
    for job_id, gpus in wanted.items():
        row = held.get(job_id, ())
        if gpus and sum([count for _, count in row]) == gpus:
            nodes.put(job_id, row)
    order = count()
    pending = [
        (-gpus, next(order), job_id)  # of equals the first
        for job_id, gpus in wanted.items()
        if gpus and job_id not in nodes.rows
    ]
    heapify(pending)
    while pending:
        gpus, _, job_id = heappop(pending)
        for other, lost in nodes.place(job_id, -gpus).items():
            heappush(pending, (-lost, next(order), other))
    return {job_id: nodes.rows.get(job_id, ()) for job_id in wanted}


@final
class _Nodes:
    """What is free on each node, and who has what."""

    def __init__(self, free: dict[int, int]) -> None:
        self.rows: Final[dict[JobId, Row]] = {}
        self._free: Final = free
        self._whole: Final = max(free.values(), default=0)
        self._with: Final[list[list[int]]] = [[] for _ in range(self._whole + 1)]  # by free GPUs
        self._alone_on: Final[dict[int, dict[JobId, int]]] = {n: {} for n in free}  # on that only
        for n in sorted(free):
            self._with[free[n]].append(n)

    def put(self, job_id: JobId, row: Row) -> None:
        self.rows[job_id] = row
        for n, gpus in row:
            self._change(n, -gpus)
        if len(row) == 1:
            self._alone_on[row[0][0]][job_id] = row[0][1]

    def _remove(self, job_id: JobId) -> None:
        row = self.rows.pop(job_id)
        for n, gpus in row:
            self._change(n, gpus)
        if len(row) == 1:
            del self._alone_on[row[0][0]][job_id]

    def _change(self, n: int, by: int) -> None:
        before = self._with[self._free[n]]
        del before[bisect_left(before, n)]
        self._free[n] += by
        insort(self._with[self._free[n]], n)

    def place(self, job_id: JobId, gpus: int) -> dict[JobId, int]:
        """Finds a place; who had to leave it, with their counts."""
        evicted: dict[JobId, int] = {}
        while (row := self._row(gpus)) is None:
            leaving = self._in_the_way(min(gpus, self._whole))
            if not leaving:
                row = self._anywhere(gpus)
                break
            for other in leaving:
                evicted[other] = sum([count for _, count in self.rows[other]])
                self._remove(other)
        if row:
            self.put(job_id, row)
        return evicted

    def _row(self, gpus: int) -> Row | None:
        whole, rest = divmod(gpus, self._whole) if self._whole else (0, gpus)
        full = self._with[self._whole][:whole]
        if len(full) < whole:
            return None
        row = [(n, self._whole) for n in full]
        if rest:
            tightest = self._tightest(rest, whole)
            if tightest is None:
                return None
            row.append((tightest, rest))
        return tuple(sorted(row))

    def _tightest(self, gpus: int, full: int) -> int | None:
        """The node with the fewest free that has so many; the first whole ones are taken."""
        for free in range(gpus, self._whole):
            if self._with[free]:
                return self._with[free][0]
        return next(iter(self._with[self._whole][full:]), None)

    def _in_the_way(self, needed: int) -> list[JobId]:
        """On the node that needs the fewest to leave: smaller jobs, until so many GPUs are free."""
        best: list[JobId] = []
        for n, free in self._free.items():
            leaving, gets = list[JobId](), free
            for gpus, job_id in self._smaller_on(n, needed):
                if gets >= needed or (best and len(leaving) + 1 >= len(best)):
                    break
                leaving.append(job_id)
                gets += gpus
            if leaving and gets >= needed:
                best = leaving
            if len(best) == 1:
                break
        return best

    def _smaller_on(self, n: int, needed: int) -> list[tuple[int, JobId]]:
        """The largest of them first."""
        there = [(gpus, job_id) for job_id, gpus in self._alone_on[n].items() if gpus < needed]
        return sorted(there, key=lambda one: -one[0])

    def _anywhere(self, gpus: int) -> Row:
        """Over nodes, the emptiest first; () if there are too few in all."""
        row = []
        for n in sorted(self._free, key=lambda n: -self._free[n]):
            taken = min(gpus, self._free[n])
            if taken:
                row.append((n, taken))
                gpus -= taken
        return () if gpus else tuple(sorted(row))
