"""One service as the journal tells it: its replicas, how many are wanted, how they failed, its load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from dovetail.core.groups import Group
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.entries import KIND

SICK: Final = "it is not healthy"  # how the reason begins for which a replica is ended
WELL_S: Final = 60.0  # a replica that ran that long has not failed at its start


class LiveReplica(NamedTuple):
    """A replica whose job has not ended."""

    number: int
    job: JobId
    port: int
    variant: str = ""  # empty: the service itself


@final
class ServiceTrack:
    def __init__(self, design: ServiceDesign, at: Seconds) -> None:
        self.design: Final = design
        self.declared_at: Final = at
        self.least = design.least
        self.most = design.most
        self.wanted = max(design.least, 1)  # one is started, so that it can sleep
        self.reason = "it has just been declared"
        self.variant = ""  # of those that are wanted
        self.paused_at = -1.0
        self.replicas: Final[dict[int, LiveReplica]] = {}
        self.next_number = 0
        self.failures = 0  # one after the other
        self.failed_at = -1.0
        self.failure = ""  # the last one
        self.failed_job = ""
        self.load: Mapping[str, float] = {}
        self.answered = 0.0  # requests, as the summaries say
        self.ended_gpu_s = 0.0  # GPU-seconds of the replicas that have ended
        self.group: Final = Group(design.id, KIND, f"service {design.name!r}")

    @property
    def id(self) -> str:
        return self.design.id

    @property
    def is_paused(self) -> bool:
        return self.paused_at >= 0

    def join(self, track: Track) -> None:
        job = track.job
        assert job.member is not None
        told = dict(job.settings)
        port = told.get("port", 0)
        assert isinstance(port, int)
        variant = str(told.get("variant", ""))
        self.replicas[job.member] = LiveReplica(job.member, job.id, port, variant)
        self.next_number = max(self.next_number, job.member + 1)

    def end_job(self, track: Track) -> None:
        self.group.line.discard(track.job.id)
        self.group.bench.pop(track.job.id, None)
        assert track.job.member is not None
        self.replicas.pop(track.job.member, None)
        self.ended_gpu_s += track.held_gpu_s
        wanted_it = track.phase is Phase.CANCELLED and not track.reason.startswith(SICK)
        if wanted_it:
            return
        self.failures = self.failures + 1 if track.held_s < WELL_S else 1
        self.failed_at = track.ended_at
        why = track.reason or "it ended by itself"
        self.failed_job = str(track.job.id)
        self.failure = f"replica {track.job.member} (job {track.job.id}): {why}"

    def hear(self, load: Mapping[str, float]) -> None:
        self.load = load
        self.answered += load.get("answered", 0.0)

    def stays_well(self) -> None:
        """A replica is healthy for long."""
        self.failures, self.failure = 0, ""
