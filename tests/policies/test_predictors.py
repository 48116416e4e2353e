"""What policies are told about durations, and where it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail import traces
from dovetail.core.entries import (
    Failed,
    Finished,
    NodeJoined,
    Start,
    Started,
    Submitted,
)
from dovetail.core.model import Estimate, Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.predict.duration import HistoryMean, NoisyOracle, Oracle, UserEstimate
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.entries import StudyOpened

ON_THE_GPU = Placement((Slice(0, 1),))


def job(name: str, user: str = "", called: str = "", estimate: float | None = None) -> Job:
    said = None if estimate is None else Estimate(estimate)
    return Job(JobId(name), user=user, name=called, estimate=said)


def run_one(state: State, one: Job, seconds: float, ends: str = "finished") -> None:
    at = state.now
    state.record(Submitted(at, one))
    state.record(Start(one.id, ON_THE_GPU))
    state.record(Started(at, one.id))
    if ends == "finished":
        state.record(Finished(at + seconds, one.id))
    else:
        state.record(Failed(at + seconds, one.id, "died"))


def one_gpu() -> State:
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 1)))
    return state


def test_the_oracle_knows() -> None:
    assert Oracle({JobId("a"): 7.0}).duration_s(job("a"), one_gpu()) == 7


def test_a_user_is_believed_and_silence_is_a_guess() -> None:
    predictor = UserEstimate(guess_s=50)
    assert predictor.duration_s(job("a", estimate=9), one_gpu()) == 9
    assert predictor.duration_s(job("a"), one_gpu()) == 50


def test_history_prefers_the_same_name_then_the_same_user_then_everybody() -> None:
    state, predictor = one_gpu(), HistoryMean(guess_s=99)
    assert predictor.duration_s(job("x", "ann", "train"), state) == 99
    run_one(state, job("1", "ann", "train"), 10)
    run_one(state, job("2", "ann", "train"), 20)
    run_one(state, job("3", "ann", "test"), 60)
    run_one(state, job("4", "bob", "test"), 110)
    assert predictor.duration_s(job("x", "ann", "train"), state) == 15
    assert predictor.duration_s(job("x", "ann", "other"), state) == 30
    assert predictor.duration_s(job("x", "eve", "train"), state) == 50


def test_history_learns_only_from_jobs_that_finished() -> None:
    state, predictor = one_gpu(), HistoryMean(guess_s=99)
    predictor.duration_s(job("x"), state)
    run_one(state, job("1"), 10, ends="failed")
    assert predictor.duration_s(job("x", estimate=33), state) == 33


def test_trials_are_as_long_as_others_of_their_study_whatever_else_their_user_ran() -> None:
    state, predictor = one_gpu(), HistoryMean(guess_s=99)
    state.record(StudyOpened(0.0, Design("s1", "digits", "loss", 10, 3, user="ann")))
    first, second = (
        replace(job(f"digits-{number}", "ann", f"digits-{number}"), group="s1", member=number)
        for number in (0, 1)
    )
    predictor.duration_s(first, state)  # from now on it learns
    run_one(state, job("1", "ann", "tiny"), 1)
    assert predictor.duration_s(first, state) == 99
    run_one(state, first, 40)
    assert predictor.duration_s(second, state) == 40
    assert predictor.duration_s(job("x", "ann", "tiny"), state) == 1


def test_noise_is_the_same_whenever_one_asks_and_another_for_another_seed() -> None:
    durations = {JobId(str(i)): 100.0 for i in range(50)}
    view = one_gpu()

    def told(seed: int, names: list[JobId]) -> dict[JobId, float]:
        noisy = NoisyOracle(durations, seed)
        return {name: noisy.duration_s(job(name), view) for name in names}

    names = list(durations)
    assert told(1, names) == told(1, names[::-1])
    assert told(1, names) != told(2, names)


def test_noise_has_the_spread_of_helios_predictions() -> None:
    """Within 10 %, 50 %, a factor of 2 and of 10: a tenth, half, 70 % and 90 % of the jobs."""
    durations = {JobId(str(i)): 100.0 for i in range(20_000)}
    noisy, view = NoisyOracle(durations), one_gpu()
    factors = []
    for name in durations:
        told = noisy.duration_s(job(name), view)
        factors.append(max(told / 100, 100 / told))
    for within, part in ((1.1, 0.1), (1.5, 0.5), (2.0, 0.7), (10.0, 0.9), (100.0, 1.0)):
        found = sum(factor <= within * (1 + 1e-12) for factor in factors) / len(factors)
        assert found == pytest.approx(part, abs=0.01)


@pytest.mark.parametrize("predictor", ["history-mean", "user-estimate"])
def test_what_a_policy_cannot_know_does_not_change_its_first_decision(predictor: str) -> None:
    """Two jobs alike to the eye: the truth about them must not decide who goes first."""

    def first(durations: tuple[float, float]) -> str:
        arrivals = [
            Arrival(0.0, Job(JobId(name)), work) for name, work in zip("ab", durations, strict=True)
        ]
        experiment = Experiment(arrivals, [Node("n0", 1)], predictor=predictor)
        rows = simulate(experiment, "srtf", rows=True).jobs
        return min(rows, key=lambda row: row.start_s or 0).job_id

    assert first((1.0, 100.0)) == first((100.0, 1.0)) == "a"


def test_history_helps_where_users_repeat_themselves() -> None:
    """Users differ, their own jobs hardly do: the mean of the past beats knowing nothing."""
    arrivals = traces.generate(
        traces.Recipe(
            jobs=1500, gpus=8, load=0.9, c2=1.5, user_spread=1.5, gangs=((1, 1.0),), seed=1
        )
    )

    def mean(policy: str) -> float:
        return float(simulate(Experiment(arrivals, [Node("n0", 8)]), policy).summary["mean_jct_s"])

    assert mean("srtf") < mean("srtf:predictor=history-mean") < mean("fifo")
