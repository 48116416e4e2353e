"""Changes that would let a waiting job start now, found by trying them on a copy of the state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import thread_time
from typing import Final, final

from dovetail.api.forecast_row import Change
from dovetail.core.entries import Held, Preempt, Released, Start
from dovetail.core.model import WHOLE_GPU, Job, JobId
from dovetail.core.room import Room
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.foresight.copy import Likeness
from dovetail.daemon.foresight.wording import shortened
from dovetail.daemon.users.limits import ALL, Allowed
from dovetail.text.counting import counted

_MOST_FOUND = 4
_MOST_SECONDS = 0.4  # of processor time
_MOST_PAUSED = 6  # running jobs that are tried
_MOST_PRIORITIES = 5


@final
class ChangeTrial:
    """Tries changes on copies. `track` belongs to the state that was made of the unchanged copy."""

    def __init__(
        self, likeness: Likeness, state: State, track: Track, allowed: Allowed = ALL
    ) -> None:
        self._allowed: Final = allowed
        self._likeness: Final = likeness
        self._state: Final = state
        self._job: Final = track.job
        self._track: Final = track
        self._until: Final = thread_time() + _MOST_SECONDS

    def found(self) -> list[Change]:
        """The first few changes that each by itself let the job start at once."""
        found: list[Change] = []
        for kind in (
            *(self._fewer_nodes, self._fewer_gpus, self._other_kinds, self._host),
            *(self._priority, self._paused),
        ):
            for change in kind():
                found.append(change)
                break  # of each kind the least
            if len(found) == _MOST_FOUND or thread_time() > self._until:
                break
        return found

    def starts(
        self, job: Job | None = None, paused: JobId | None = None, released: bool = False
    ) -> bool:
        """Does the policy start the job, if that is so?"""
        own = self._job.id
        state = self._likeness.state({own: job} if job is not None else {})
        if own in state.unplaceable:
            return False
        if released:
            state.record(Released(state.now, own))
        if paused is not None:
            state.record(Held(state.now, paused, "to see what happens"))
            if paused in state.running:
                state.record(Preempt(paused))
        policy = self._likeness.policy_on(state)
        decided = list(policy.decide(state))
        return any(isinstance(a, Start) and a.job_id == own for a in decided)

    # ---------------------------------------------------------------------------- what it asks for

    def _fewer_nodes(self) -> Iterator[Change]:
        job = self._job
        for nodes in range(job.nodes - 1, 0, -1):
            part = nodes / job.nodes
            less = replace(
                job,
                nodes=nodes,
                gpus=job.gpus // job.nodes * nodes,
                cpus=job.cpus * part,
                memory_gb=job.memory_gb * part,
            )
            if self.starts(less):
                text = f"on {counted(nodes, 'node')} instead of {job.nodes}"
                yield Change(text, "nodes", nodes)

    def _fewer_gpus(self) -> Iterator[Change]:
        job = self._job
        for gpus in sizes_below(job, self._state.room):
            part = gpus / job.gpus
            less = replace(
                job,
                gpus=gpus,
                min_gpus=None,
                max_gpus=None,
                cpus=job.cpus * part,
                memory_gb=job.memory_gb * part,
            )
            if self.starts(less):
                yield Change(f"with {counted(gpus, 'GPU')} instead of {job.gpus}", "gpus", gpus)
        if job.gpus == 1:
            for share in (500, 250):
                if share < job.share and self.starts(replace(job, share=share)):
                    part = share / WHOLE_GPU
                    yield Change(f"with a share of {part:g} of a GPU", "share", part)

    def _other_kinds(self) -> Iterator[Change]:
        job = self._job
        pools = self._state.room.pools
        if job.kinds:
            for kind in dict.fromkeys(pool.kind for pool in pools if pool.kind not in job.kinds):
                if self.starts(replace(job, kinds=(*job.kinds, kind))):
                    yield Change(f"with GPUs of kind {kind} allowed", "kinds", [*job.kinds, kind])
        smaller = sorted({p.gpu_memory_gb for p in pools if p.gpu_memory_gb < job.gpu_memory_gb})
        for memory in reversed(smaller):
            if self.starts(replace(job, gpu_memory_gb=memory)):
                text = f"with GPUs of {memory:g} GB allowed"
                yield Change(text, "gpu_memory_gb", memory)

    def _host(self) -> Iterator[Change]:
        job = self._job
        for part in (0.5, 0.25):
            if job.memory_gb and self.starts(replace(job, memory_gb=job.memory_gb * part)):
                text = f"with {job.memory_gb * part:g} GB of memory"
                yield Change(text, "memory_gb", job.memory_gb * part)
            if job.cpus and job.gpus and self.starts(replace(job, cpus=job.cpus * part)):
                yield Change(f"with {job.cpus * part:g} CPUs", "cpus", job.cpus * part)

    # ------------------------------------------------------------------------------- who goes first

    def _priority(self) -> Iterator[Change]:
        """The least priority that is enough, among those that pass somebody."""
        steps = self._allowed.passing(self._state, self._job.priority)
        if not steps or not self._at_priority(steps[-1]):
            return
        least, enough = 0, len(steps) - 1
        for _ in range(_MOST_PRIORITIES):
            if least >= enough:
                break
            middle = (least + enough) // 2
            if self._at_priority(steps[middle]):
                enough = middle
            else:
                least = middle + 1
        yield Change(f"at priority {steps[enough]:g}", "priority", steps[enough])

    def _at_priority(self, priority: float) -> bool:
        return self.starts(replace(self._job, priority=priority))

    def _paused(self) -> Iterator[Change]:
        """If one other job were paused: the smallest that is enough, the latest of them first."""
        for other in might_give_way(self._state, self._track):
            if thread_time() > self._until:
                return
            if self._allowed.pauses(other.job) and self.starts(paused=other.job.id):
                text = f"if job {other.job.id}{names_of(other.job)} were paused"
                yield Change(text, "pause", other.job.id)


def names_of(job: Job) -> str:
    known = ", ".join(shortened(name, 24) for name in (job.name, job.user) if name)
    return f" ({known})" if known else ""


def sizes_below(job: Job, room: Room) -> Sequence[int]:
    """Fewer GPUs that are worth a try: one less, as many as are free, and one."""
    free = room.most_free()
    sizes = {job.gpus - 1, min(free, job.gpus - 1), 1} if job.gpus > 1 else set()
    return sorted((n for n in sizes if n >= 1 and n % max(job.nodes, 1) == 0), reverse=True)


def might_give_way(state: State, track: Track) -> list[Track]:
    """Running jobs whose GPUs would be enough, the smallest and latest first; then the head of line."""
    lacking = track.shape.gpus * track.shape.share / WHOLE_GPU
    if track.shape.share == WHOLE_GPU:
        lacking -= max([pool.free for pool in state.room.eligible(track.shape)], default=0)
    running = [t for t in state.running.values() if not t.pinned and t is not track]
    running.sort(key=lambda t: (t.holds, -t.started_at, t.sequence))
    enough = [t for t in running if t.holds >= lacking]
    waiting = [t for t in state.tracks.values() if t.placement is None and not t.barred]
    first = [t for t in waiting[:2] if t is not track]
    return [*enough[:_MOST_PAUSED], *first]
