"""How much faster a job is on another GPU kind: by what was profiled with a single GPU of each."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import Job
from dovetail.models.epochs import Training


@dataclass(frozen=True)
class OneGpuProfiles:
    """Samples a second of one GPU with the largest batch that fits on it, times the number of GPUs:
    what Sia asks of a job before it runs."""

    training: Training

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        application = self.training.on(job.model.partition("@")[0], kind)
        steps = None if application is None else application.measured.get("1")
        if steps is None:
            return 0.0
        return gpus * steps.locals[-1] / max([time.step_s for time in steps.times])
