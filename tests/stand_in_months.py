"""A made-up log with what the Philly months have: only times, GPUs and virtual clusters; kinds of jobs
that come in bursts, levels that drift, and a heavy tail."""

from __future__ import annotations

from math import exp
from random import Random

from dovetail.core.model import Job, JobId
from dovetail.models.workload import Arrival

DAY_S = 86_400.0


def months(jobs: int, days: float, seed: int = 0) -> list[Arrival]:
    chance = Random(seed)
    levels = {tenant: chance.uniform(5.0, 9.0) for tenant in ("a", "b", "c", "d")}
    found: list[Arrival] = []
    at = 0.0
    while len(found) < jobs:
        at += chance.expovariate(jobs / 6 / (days * DAY_S))
        tenant = chance.choice(list(levels))
        levels[tenant] += chance.gauss(0.0, 0.15) - 0.02 * (levels[tenant] - 7.0)
        gpus = chance.choice((1, 1, 1, 2, 4))
        many = chance.choice((1, 1, 2, 6, 20))  # what comes in larger bursts is shorter
        level = levels[tenant] + 0.4 * gpus**0.5 - 0.5 * many**0.5 / 2
        for number in range(many):
            seconds = exp(level + chance.gauss(0.0, 0.7) + (3.0 if chance.random() < 0.03 else 0.0))
            job = Job(JobId(f"{len(found)}"), gpus, tenant=tenant)
            found.append(Arrival(at + 10.0 * number, job, max(seconds, 1.0)))
    return sorted(found[:jobs], key=lambda arrival: arrival.at)
