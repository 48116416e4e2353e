"""Which nodes: jobs that keep their count keep their nodes, the others are placed from the largest down.

A job of whole nodes gets whole ones, a smaller one the tightest. Where there is no such node left,
smaller jobs make room and are placed again, which is a restart for them.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    pending = {job_id: gpus for job_id, gpus in wanted.items() if gpus and job_id not in nodes.rows}
    while pending:
        job_id = max(pending, key=pending.__getitem__)  # of equals the first
        pending |= nodes.place(job_id, pending.pop(job_id))
    return {job_id: nodes.rows.get(job_id, ()) for job_id in wanted}


@final
class _Nodes:
    """What is free on each node, and who has what."""

    def __init__(self, free: dict[int, int]) -> None:
        self.free: Final = free
        self.rows: Final[dict[JobId, Row]] = {}
        self._whole: Final = max(free.values(), default=0)

    def put(self, job_id: JobId, row: Row) -> None:
        self.rows[job_id] = row
        for n, gpus in row:
            self.free[n] -= gpus

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
        full = [n for n, free in self.free.items() if free == self._whole][:whole]
        if len(full) < whole:
            return None
        row = [(n, self._whole) for n in full]
        if rest:
            fits = [n for n, free in self.free.items() if free >= rest and n not in full]
            if not fits:
                return None
            row.append((min(fits, key=self.free.__getitem__), rest))
        return tuple(sorted(row))

    def _in_the_way(self, needed: int) -> list[JobId]:
        """On the node that needs the fewest to leave: smaller jobs, until so many GPUs are free."""
        found: list[list[JobId]] = []
        for n, free in self.free.items():
            leaving, gets = [], free
            for gpus, job_id in self._smaller_on(n, needed):
                if gets >= needed:
                    break
                leaving.append(job_id)
                gets += gpus
            if leaving and gets >= needed:
                found.append(leaving)
        return min(found, key=len, default=[])

    def _smaller_on(self, n: int, needed: int) -> list[tuple[int, JobId]]:
        """The largest of them first."""
        there = [
            (row[0][1], job_id)
            for job_id, row in self.rows.items()
            if len(row) == 1 and row[0][0] == n
        ]
        return sorted([one for one in there if one[0] < needed], key=lambda one: -one[0])

    def _remove(self, job_id: JobId) -> None:
        for n, gpus in self.rows.pop(job_id):
            self.free[n] += gpus

    def _anywhere(self, gpus: int) -> Row:
        """Over nodes, the emptiest first; () if there are too few in all."""
        row = []
        for n in sorted(self.free, key=lambda n: -self.free[n]):
            taken = min(gpus, self.free[n])
            if taken:
                row.append((n, taken))
                gpus -= taken
        return () if gpus else tuple(sorted(row))
