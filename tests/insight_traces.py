"""Made-up traces whose drivers are known, for what measures drivers."""

from __future__ import annotations

import numpy as np

from dovetail.core.model import Job, JobId, Node
from dovetail.models.workload import Arrival

WEEK_S = 604_800.0
CLUSTER = tuple(Node(f"n{i}", 4) for i in range(4))


def only_the_user_matters(jobs: int = 1500, users: int = 12, weeks: float = 6.0) -> list[Arrival]:
    """A user's jobs all take the same; sizes, tenants and times say nothing."""
    chance = np.random.default_rng(3)
    at = np.sort(chance.random(jobs)) * weeks * WEEK_S
    who = chance.integers(users, size=jobs)
    sizes, tenants = chance.choice([1, 2, 4], jobs), chance.integers(3, size=jobs)
    length = 60.0 * 1.9 ** np.arange(users)
    return [
        Arrival(
            float(at[i]),
            Job(JobId(str(i)), int(sizes[i]), user=f"u{who[i]}", tenant=f"t{tenants[i]}"),
            float(length[who[i]]),
        )
        for i in range(jobs)
    ]


def busy(jobs: int = 400, users: int = 6, load: float = 1.0) -> list[Arrival]:
    """Users differ in how long their jobs take, and the jobs have to wait for each other."""
    chance = np.random.default_rng(5)
    who = chance.integers(users, size=jobs)
    length = 300.0 * 3.0**who * np.exp(0.3 * chance.standard_normal(jobs))
    sizes = chance.choice([1, 2, 4], jobs)
    gap = float((length * sizes).mean()) / (16 * load)
    at = np.cumsum(chance.exponential(gap, jobs))
    return [
        Arrival(
            float(at[i]), Job(JobId(str(i)), int(sizes[i]), user=f"u{who[i]}"), float(length[i])
        )
        for i in range(jobs)
    ]
