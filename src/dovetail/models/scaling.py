"""How much faster a job runs on more GPUs, where nobody has measured it."""

from __future__ import annotations

from typing import Final

from dovetail.core.model import Job

# Of n GPUs a job makes as much use as of n ** 0.8 that lose nothing: twice as many are 1.74 times as
# fast. A power is the law of the theory of elastic jobs (heSRPT); no trace tells the exponent.
USUAL_SCALING: Final = 0.8


def sped_up(job: Job, gpus: int, exponent: float = USUAL_SCALING) -> float:
    """How many times as fast it runs on so many GPUs as on those it asked for."""
    if gpus == job.gpus or not job.gpus or not gpus:
        return 1.0
    return float((gpus / job.gpus) ** exponent)
