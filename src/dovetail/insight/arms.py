"""One simulation among many on the same jobs: a policy, an error of its predictions, a shuffled
column."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.insight.scene import Scene, completion_times, opened
from dovetail.models.workload import Arrival

SIZE, USER, TENANT, TIME = "size", "user and name", "tenant", "time of submission"


@dataclass(frozen=True)
class Arm:
    scene: bytes
    policy: str
    sigma: float = 0.0  # of the logarithm of the factor between prediction and truth
    shuffle: str = ""
    seed: int = 0  # of the error and of the shuffle: equal seeds are common random numbers


def times_of(arm: Arm) -> np.ndarray:
    """Completion times by job."""
    scene = opened(arm.scene)
    if arm.shuffle:
        scene = shuffled(scene, arm.shuffle, arm.seed)
    truth = np.array([arrival.work_s for arrival in scene.arrivals])
    return completion_times(scene, arm.policy, noisy(truth, arm.sigma, arm.seed))


def noisy(truth: np.ndarray, sigma: float, seed: int) -> np.ndarray:
    """The truth times a lognormal factor of median 1."""
    if not sigma:
        return truth
    factor = np.exp(sigma * np.random.default_rng(seed).standard_normal(len(truth)))
    missed: np.ndarray = truth * factor
    return missed


def shuffles_of(scene: Scene) -> dict[str, str]:
    """The columns, each with the reason why it cannot be shuffled ("": it can)."""
    jobs = [arrival.job for arrival in scene.arrivals]
    return {
        SIZE: "" if len({job.gpus for job in jobs}) > 1 else "all jobs have one size",
        USER: "" if len({(job.user, job.name) for job in jobs}) > 1 else "one user, one name",
        TENANT: "" if len({job.tenant for job in jobs}) > 1 else "one tenant",
        TIME: "",
    }


def shuffled(scene: Scene, column: str, seed: int) -> Scene:
    """The same jobs with one column permuted. Sizes stay within their tenant and tenants within
    their size, so that no job asks for more than its tenant has."""
    arrivals, chance = scene.arrivals, np.random.default_rng(seed)
    if column == TIME:
        order = chance.permutation(len(arrivals))
        dealt = [replace(arrivals[int(i)], at=a.at) for a, i in zip(arrivals, order, strict=True)]
        return replace(scene, arrivals=[_without_past(arrival) for arrival in dealt])
    kept = {SIZE: "tenant", TENANT: "gpus"}.get(column)
    classes: dict[object, list[int]] = {}
    for number, arrival in enumerate(arrivals):
        classes.setdefault(kept and getattr(arrival.job, kept), []).append(number)
    giver = np.arange(len(arrivals))
    for members in classes.values():
        giver[members] = chance.permutation(members)
    pairs = zip(arrivals, giver, strict=True)
    return replace(scene, arrivals=[_given(a, arrivals[int(i)], column) for a, i in pairs])


def _without_past(arrival: Arrival) -> Arrival:
    """Without the job's own dates: they would lie before its new submission."""
    job = replace(arrival.job, deadline=None, after=())
    return replace(arrival, job=job, cancel_at=None, cancel_after_s=None)


def _given(own: Arrival, other: Arrival, column: str) -> Arrival:
    job = other.job
    if column == SIZE:
        new = replace(
            own.job,
            gpus=job.gpus,
            share=job.share,
            nodes=job.nodes,
            min_gpus=None,
            max_gpus=None,
        )
    elif column == USER:
        new = replace(own.job, user=job.user, name=job.name)
    else:
        new = replace(own.job, tenant=job.tenant)
    return replace(own, job=new)
