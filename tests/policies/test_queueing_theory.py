"""One server, known formulas: what theory says a policy's mean must be, it is.

A single GPU, Poisson arrivals at half load, and hyper-exponential durations with mean 1 and a squared
coefficient of variation (C²) of 10: much more uneven than exponential, as training jobs are. Theory
gives the mean time from submission to end for each policy. They run on the same 100,000 jobs; the two
that share the GPU in slices, and so depend less on a few long jobs, on the first 40,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dovetail import traces
from dovetail.core.model import Job, JobId, Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.experiments.parallel import simulate_all
from dovetail.models.workload import Arrival

JOBS, SLICED = 100_000, 40_000
C2 = 10.0
LOAD = 0.5
SEED = 0  # the first one; its own C² and load are checked below
# Processor sharing is the limit of ever shorter slices; a tenth of the mean duration is near enough.
IN_THEORY: Mapping[str, float] = {
    "fifo": 6.500,
    "sjf": 4.308,
    "round-robin:quantum_s=0.1": 2.000,
    "las:quantum=0.1": 1.715,
    "psjf": 1.467,
    "srtf": 1.401,
}
ONE_GPU = [Node("n0", 1)]


def arrivals(jobs: int, c2: float = C2, seed: int = SEED) -> list[Arrival]:
    return traces.generate(
        traces.Recipe(
            jobs=jobs,
            gpus=1,
            load=LOAD,
            mean_duration_s=1.0,
            c2=c2,
            gangs=((1, 1.0),),
            users=0,
            seed=seed,
        )
    )


def moments(sample: list[Arrival]) -> tuple[float, float, float]:
    """Mean, mean square and load of the jobs as they were drawn."""
    works = [arrival.work_s for arrival in sample]
    mean = sum(works) / len(works)
    return mean, sum(work * work for work in works) / len(works), sum(works) / sample[-1].at


@pytest.fixture(scope="module")
def sample() -> list[Arrival]:
    return arrivals(JOBS)


@pytest.fixture(scope="module")
def mean_response(sample: list[Arrival]) -> Mapping[str, float]:
    """The mean completion time of every policy, each in a process of its own."""
    in_slices = [policy for policy in IN_THEORY if ":" in policy]
    at_length = [policy for policy in IN_THEORY if ":" not in policy]
    return means(sample[:SLICED], in_slices) | means(sample, at_length)


def means(jobs: list[Arrival], policies: list[str]) -> dict[str, float]:
    experiment = Experiment(jobs, ONE_GPU, placement="count")
    records = simulate_all(experiment, policies, [None] * len(policies), quiet=True).good
    assert all(record.summary["finished"] == len(jobs) for record in records)
    return {record.policy: float(record.summary["mean_jct_s"]) for record in records}


def test_the_sample_is_as_uneven_and_as_heavy_as_it_is_meant_to_be(sample: list[Arrival]) -> None:
    mean, square, load = moments(sample)
    assert mean == pytest.approx(1.0, rel=0.02)
    assert square / mean**2 - 1 == pytest.approx(C2, rel=0.05)
    assert load == pytest.approx(LOAD, rel=0.02)


@pytest.mark.parametrize("policy", IN_THEORY)
def test_the_mean_completion_time_is_what_theory_says(
    policy: str, mean_response: Mapping[str, float]
) -> None:
    assert mean_response[policy] == pytest.approx(IN_THEORY[policy], rel=0.10)


def test_the_policies_stand_in_the_order_that_theory_says(
    mean_response: Mapping[str, float],
) -> None:
    in_order = sorted(mean_response, key=mean_response.__getitem__)
    assert in_order == sorted(IN_THEORY, key=IN_THEORY.__getitem__)


def test_fifo_obeys_pollaczek_and_khinchine_for_the_very_jobs_drawn(
    sample: list[Arrival], mean_response: Mapping[str, float]
) -> None:
    """With the sample's own moments chance matters less, and the formula can be held to 3 %."""
    mean, square, load = moments(sample)
    waiting = load / mean * square / (2 * (1 - load))
    assert mean_response["fifo"] == pytest.approx(mean + waiting, rel=0.03)


def test_on_exponential_jobs_no_policy_that_is_blind_to_size_beats_another() -> None:
    """Without memory, attained service tells nothing: FIFO, LAS and Gittins all have mean 2."""
    jobs = arrivals(20_000, c2=1.0)
    means = [
        float(simulate(Experiment(jobs, ONE_GPU), policy).summary["mean_jct_s"])
        for policy in ("fifo", "las:quantum=0.25", "gittins:quantum=0.25")
    ]
    assert means == [pytest.approx(2.0, rel=0.10)] * 3


def test_gittins_is_as_good_as_least_service_or_better_on_uneven_jobs() -> None:
    jobs = arrivals(20_000)
    least, gittins = (
        float(simulate(Experiment(jobs, ONE_GPU), policy).summary["mean_jct_s"])
        for policy in ("las:quantum=0.25", "gittins:quantum=0.25")
    )
    assert gittins <= least * 1.02


def test_on_equal_jobs_least_service_loses_to_fifo() -> None:
    """Three jobs of 4 s: the order of the table turns round when no job is shorter than another."""
    jobs = [Arrival(0.0, Job(JobId(name)), 4.0) for name in "abc"]
    means = [
        simulate(Experiment(jobs, ONE_GPU), policy).summary["mean_jct_s"]
        for policy in ("fifo", "las:quantum=1")
    ]
    assert means == [pytest.approx(8), pytest.approx(11)]


def test_a_wake_up_that_comes_when_nobody_is_left_does_not_turn_time_back() -> None:
    """The server empties before the wake-up that was asked for, and the next job comes after it."""
    jobs = [
        Arrival(at, Job(JobId(name)), work_s)
        for name, at, work_s in (("a", 0, 0.2), ("b", 0, 0.1), ("c", 5, 1), ("d", 5.5, 1))
    ]
    for policy in ("las:quantum=1", "round-robin:quantum_s=1", "tiresias:queues=2:limits=1"):
        record = simulate(Experiment(jobs, ONE_GPU), policy)
        assert record.summary["finished"] == 4
