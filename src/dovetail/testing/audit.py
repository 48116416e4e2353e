"""The auditor: reads a journal and believes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeGuard, final

from dovetail.core.entries import (
    Branch,
    Cancelled,
    Displaced,
    Failed,
    Finished,
    GpusClosed,
    GpusOpened,
    Interrupted,
    JournalEntry,
    NodeDown,
    NodeDraining,
    NodeJoined,
    NodeLeft,
    NodeUp,
    Preempt,
    Refuse,
    Resize,
    Start,
    Stayed,
    Stop,
    Submitted,
    TenantSet,
)
from dovetail.core.journal import decode
from dovetail.core.model import (
    WHOLE_GPU,
    Job,
    JobId,
    Node,
    Placement,
    Seconds,
    Slice,
)
from dovetail.testing.audit_work import WorkBook

_ROUNDING = 1e-6  # sums of floats in another order may differ by that much


@final
class Audit:
    """Reads a journal and believes nothing: its own book of who holds which GPUs, from the entries
    alone. Raises AssertionError at the first entry that breaks a law of the cluster."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.busy_gpu_s = 0.0
        self.ended: dict[JobId, str] = {}
        self._jobs: dict[JobId, Job] = {}
        self._nodes: list[Node] = []
        self._open: set[int] = set()
        self._held: dict[JobId, Placement] = {}
        self._away: set[JobId] = set()  # preempted, and not started again
        self._quota: dict[str, float] = {}
        self._deaths: dict[JobId, int] = {}
        self._gone: set[int] = set()
        self._closed: set[tuple[int, int]] = set()  # by (node, GPU)
        self._in_use_s: dict[tuple[int, int], Seconds] = {}  # by node and number of busy GPUs
        self.work = WorkBook()

    def read(self, entries: Iterable[tuple[Seconds, JournalEntry]]) -> Audit:
        for at, entry in entries:
            self._pass_to(at)
            try:
                self._read(entry)
                self.work.read(at, entry)
            except AssertionError as error:
                raise AssertionError(f"t={at:g}, {entry!r}: {error}") from None
        left = set(self._jobs) - set(self.ended)
        assert not left, f"jobs that never ended: {sorted(left)}"
        assert not self._held, f"jobs that ended with GPUs in hand: {sorted(self._held)}"
        return self

    def read_text(self, lines: Iterable[str]) -> Audit:
        """Reads the journal's text, with the times in it."""
        return self.read([(json.loads(line)["at"], decode(line)) for line in lines])

    def _pass_to(self, at: Seconds) -> None:
        assert at >= self.now or not self._jobs, f"time runs backwards from {self.now} to {at}"
        busy = sum(p.gpus * p.share / WHOLE_GPU for p in self._held.values())
        self.busy_gpu_s += busy * (at - self.now)
        for n, used in self._masks().items():
            kept = (n, used.bit_count())  # none of them: as good as off, for what it is charged
            self._in_use_s[kept] = self._in_use_s.get(kept, 0.0) + at - self.now
        self.now = at

    def _masks(self) -> dict[int, int]:
        """The used GPUs of every node that has jobs."""
        used: dict[int, int] = {}
        for placement in self._held.values():
            for n, mask in placement.slices:
                used[n] = used.get(n, 0) | mask
        return used

    def joules(self, watts: Callable[[Node], tuple[float, float]]) -> float:
        """What nodes with jobs drew, if that is so much without any GPU busy and for each that is."""
        return sum(
            seconds * (watts(self._nodes[n])[0] + busy * watts(self._nodes[n])[1])
            for (n, busy), seconds in self._in_use_s.items()
            if busy
        )

    def _read(self, entry: JournalEntry) -> None:
        at = getattr(entry, "at", self.now)
        assert at == self.now, f"written at t={self.now}, happened at t={at}"
        if isinstance(entry, Submitted):
            assert entry.job.id not in self._jobs, "submitted twice"
            self._jobs[entry.job.id] = entry.job
        elif isinstance(entry, Start | Resize | Stayed):
            self._given(entry)
        elif isinstance(entry, Preempt | Interrupted | Displaced) or self._is_tried_again(entry):
            self._gives_back(entry)
        elif isinstance(entry, Finished | Failed | Cancelled | Refuse | Stop | Branch):
            self._over(entry)
        elif isinstance(entry, NodeJoined | NodeUp | NodeDown | NodeDraining | NodeLeft):
            self._node(entry)
        elif isinstance(entry, GpusClosed | GpusOpened):
            self._close(entry)
        elif isinstance(entry, TenantSet):
            self._quota[entry.tenant.name] = entry.tenant.gpu_quota

    def _gives_back(self, entry: Preempt | Interrupted | Displaced | Failed) -> None:
        """Who has given way may die meanwhile, but cannot give back what it no longer has."""
        held = self._held.pop(entry.job_id, None)
        can_be_away = isinstance(entry, Interrupted | Failed) and entry.job_id in self._away
        assert held is not None or can_be_away, "gives back what it does not have"
        if isinstance(entry, Preempt):
            self._away.add(entry.job_id)

    def _is_tried_again(self, entry: JournalEntry) -> TypeGuard[Failed]:
        if not isinstance(entry, Failed):
            return False
        self._deaths[entry.job_id] = self._deaths.get(entry.job_id, 0) + 1
        return self._deaths[entry.job_id] <= self._jobs[entry.job_id].retries

    def _over(self, entry: Finished | Failed | Cancelled | Refuse | Stop | Branch) -> None:
        assert entry.job_id not in self.ended, "ends twice"
        held = self._held.pop(entry.job_id, None)
        if isinstance(entry, Finished | Failed):
            assert held is not None or entry.job_id in self._away, "ends without GPUs"
        if isinstance(entry, Refuse | Stop):
            assert entry.reason, "is refused without a reason"
        self.ended[entry.job_id] = entry.tag

    def _node(self, entry: NodeJoined | NodeUp | NodeDown | NodeDraining | NodeLeft) -> None:
        if isinstance(entry, NodeJoined):
            same = {n for n, node in enumerate(self._nodes) if node.id == entry.node.id}
            assert same <= self._gone, "there is a node of that name"
            self._nodes.append(entry.node)
            self._open.add(len(self._nodes) - 1)
            return
        number = max(n for n, node in enumerate(self._nodes) if node.id == entry.node_id)
        assert number not in self._gone, "it has left"
        (self._open.add if isinstance(entry, NodeUp) else self._open.discard)(number)
        if isinstance(entry, NodeLeft):
            self._gone.add(number)
        if isinstance(entry, NodeDown | NodeLeft):
            here = [id for id, p in self._held.items() if any(s.node == number for s in p.slices)]
            assert not here, f"the node goes with {here} on it"

    def _close(self, entry: GpusClosed | GpusOpened) -> None:
        number = max(n for n, node in enumerate(self._nodes) if node.id == entry.node_id)
        gpus = {(number, gpu) for gpu in _bits(entry.mask)}
        (self._closed.update if isinstance(entry, GpusClosed) else self._closed.difference_update)(
            gpus
        )

    def _given(self, entry: Start | Resize | Stayed) -> None:
        asked, given = self._jobs[entry.job_id], entry.placement
        assert entry.job_id not in self.ended, "starts after its end"
        if not isinstance(entry, Resize):
            assert entry.job_id not in self._held or isinstance(entry, Stayed), "starts twice"
            self._away.discard(entry.job_id)
        had = self._held.get(entry.job_id)
        kept = {} if had is None else dict(had.slices)
        new = [s.node for s in given.slices if s.mask & ~kept.get(s.node, 0) or not s.mask]
        shut = [self._nodes[n].id for n in new if n not in self._open]
        assert not shut, f"starts on {shut}, down, draining or gone"
        if not isinstance(entry, Stayed):
            fresh = {
                (s.node, g) for s in given.slices for g in _bits(s.mask & ~kept.get(s.node, 0))
            }
            assert not fresh & self._closed, f"starts on closed GPUs {fresh & self._closed}"
        self._held[entry.job_id] = given
        self._check_gang(asked, given)
        self._check_gpus(given)
        self._check_hosts(given)
        self._check_quota(asked.tenant)

    def _check_gang(self, asked: Job, given: Placement) -> None:
        pieces = [(s.node, gpu) for s in given.slices for gpu in _bits(s.mask)]
        assert len(set(pieces)) == len(pieces), "names a GPU twice"
        used = [self._nodes[s.node] for s in given.slices]
        assert used, "is nowhere"
        if asked.nodes or not asked.gpus:
            assert len({s.node for s in given.slices}) == max(asked.nodes, 1), "on other nodes"
            assert len({s.mask.bit_count() for s in given.slices}) == 1, "is split unevenly"
        assert len({node.kind for node in used}) == 1, "is split over GPU kinds"
        assert 1 <= given.share <= WHOLE_GPU, f"has {given.share}/1000 of a GPU"
        assert given.share <= asked.share, "has more of a GPU than it asked for"
        memory_gb = min(node.gpu_memory_gb for node in used)
        assert asked.gpu_memory_gb <= memory_gb * asked.share / WHOLE_GPU, "lacks GPU memory"
        if asked.options:
            assert asked.option(used[0].kind, len(pieces)), f"its options are {asked.options}"
        else:
            low, high = asked.min_gpus or asked.gpus, asked.max_gpus or asked.gpus
            if asked.share != WHOLE_GPU:
                low = high = asked.gpus
            assert low <= len(pieces) <= high, f"asked for {asked.gpus} GPUs, {low} to {high}"
            assert not asked.kinds or used[0].kind in asked.kinds, f"asked for {asked.kinds}"
        strange = [node.id for node in used if node.tenant not in ("", asked.tenant)]
        assert not strange, f"{strange} belong to another tenant"

    def _check_gpus(self, given: Placement) -> None:
        for piece in given.slices:
            assert not piece.mask >> self._nodes[piece.node].gpus, "there is no such GPU"
            for gpu in _bits(piece.mask):
                used = sum(
                    p.share
                    for p in self._held.values()
                    for s in p.slices
                    if s.node == piece.node and s.mask >> gpu & 1
                )
                assert used <= WHOLE_GPU, f"GPU {gpu} of node {piece.node} is oversold: {used}/1000"

    def _check_hosts(self, given: Placement) -> None:
        for n in {piece.node for piece in given.slices}:
            parts = [
                (self._jobs[job_id], _part(self._jobs[job_id], p, s))
                for job_id, p in self._held.items()
                for s in p.slices
                if s.node == n
            ]
            cpus = sum(asked.cpus * part for asked, part in parts)
            memory_gb = sum(asked.memory_gb * part for asked, part in parts)
            node = self._nodes[n]
            assert cpus <= node.cpus + _ROUNDING, f"{node.id} has {node.cpus} CPUs, not {cpus}"
            assert memory_gb <= node.memory_gb + _ROUNDING, f"{node.id} lacks memory"

    def _check_quota(self, tenant: str) -> None:
        held = sum(
            p.gpus * p.share / WHOLE_GPU
            for job_id, p in self._held.items()
            if self._jobs[job_id].tenant == tenant
        )
        quota = self._quota.get(tenant, inf)
        assert held <= quota + _ROUNDING, f"tenant {tenant!r} holds {held} GPUs, quota {quota}"


def _part(asked: Job, given: Placement, piece: Slice) -> float:
    """Of what it asked for beside its GPUs: in proportion to those on the node."""
    return piece.mask.bit_count() / asked.gpus if asked.gpus else 1 / len(given.slices)


def _bits(mask: int) -> Iterator[int]:
    return (i for i in range(mask.bit_length()) if mask >> i & 1)
