"""Give nodes to jobs in a given order, each in its best way that fits, on the tightest node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from dovetail.policies.andreas.problem import Assignment, NodePool, Problem, Spot, Way


@final
class FreeNodes:
    """By pool, the nodes with exactly k free GPUs as a stack: the node used last is on top."""

    __slots__ = ("free", "stacks")

    def __init__(self, stacks: list[list[list[int]]], free: int) -> None:
        self.stacks: Final = stacks
        self.free = free

    @classmethod
    def of(cls, pools: Sequence[NodePool]) -> FreeNodes:
        return cls([_stacks(pool) for pool in pools], sum([sum(pool.free) for pool in pools]))

    def copy(self) -> FreeNodes:
        return FreeNodes([[stack[:] for stack in stacks] for stacks in self.stacks], self.free)

    def take(self, pool: int, gpus: int) -> int:
        """The node with the fewest free GPUs that are enough; -1 if there is none."""
        stacks = self.stacks[pool]
        for k in range(gpus, len(stacks)):
            stack = stacks[k]
            if stack:
                node = stack.pop()
                stacks[k - gpus].append(node)
                self.free -= gpus
                return node
        return -1


def _stacks(pool: NodePool) -> list[list[int]]:
    stacks: list[list[int]] = [[] for _ in range(max(pool.free, default=0) + 1)]
    for node, free in zip(reversed(pool.nodes), reversed(pool.free), strict=True):
        stacks[free].append(node)
    return stacks


def filled(
    problem: Problem, order: Iterable[int], ranked: Sequence[Sequence[Way]] | None = None
) -> Assignment:
    """The assignment that results from this order of jobs."""
    demands, now = problem.demands, problem.now
    nodes = FreeNodes.of(problem.pools)
    spots: dict[int, Spot] = {}
    for i in order:
        if not nodes.free:
            break
        for way in demands[i].ranked(now) if ranked is None else ranked[i]:
            node = nodes.take(way.pool, way.gpus)
            if node >= 0:
                spots[i] = Spot(way, node)
                break
    return spots


def greedy(problem: Problem) -> Assignment:
    """The most pressing jobs first."""
    return filled(problem, problem.by_pressure())
