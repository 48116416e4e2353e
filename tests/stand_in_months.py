"""A made-up log with what the Philly months have: only times, GPUs and virtual clusters; kinds of jobs
that come in bursts, levels that drift, and a heavy tail."""

from __future__ import annotations

from heapq import heappop, heappush
from math import exp
from random import Random

from dovetail.core.entries import Finished, JournalEntry, NodeJoined, Start, Started, Submitted
from dovetail.core.model import Job, JobId, Node, Placement, Slice
from dovetail.models.workload import Arrival

DAY_S = 86_400.0
WIDE = 512


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


def lived(arrivals: list[Arrival], until: float) -> list[JournalEntry]:
    """The journal of a machine so wide that every job starts at once."""
    entries: list[JournalEntry] = [NodeJoined(0.0, Node("n0", WIDE))]
    free, running = list(range(WIDE)), list[tuple[float, str, Placement]]()
    for arrival in arrivals:
        while running and running[0][0] <= min(arrival.at, until):
            end, job_id, placement = heappop(running)
            entries.append(Finished(end, JobId(job_id)))
            free += [g for g in range(WIDE) if placement.slices[0].mask >> g & 1]
        if arrival.at > until:
            break
        mask = sum(1 << free.pop() for _ in range(arrival.job.gpus))
        placement = Placement((Slice(0, mask),))
        entries.append(Submitted(arrival.at, arrival.job))
        entries.append(Start(arrival.job.id, placement))
        entries.append(Started(arrival.at, arrival.job.id))
        heappush(running, (arrival.at + arrival.work_s, arrival.job.id, placement))
    return entries
