"""Replicas that come, sleep, wake and go, and the training that has their GPUs meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.models.workload import Arrival
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingOutcome, ServingScene, simulate
from dovetail.serving.traffic.catalogue import make
from dovetail.workloads.service.ahead import ByForecast, WakeAhead, rate_ahead
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.scaling import SeenLoad, Wish
from dovetail.workloads.service.steady import SteadyWish

DAY = "daily:rate=30:seconds=3600:day_s=1800:peak=1.9"
DESIGN = ServiceDesign("v", "v", least=0, most=20, at_once=1, slo_s=0.2)


def service(**more: Any) -> ServedModel:
    given: dict[str, Any] = {"slo_s": 0.2, "max_batch": 8, "least": 1, "most": 4, "idle_s": 20.0}
    return ServedModel("m", AffineLatency(0.04, 0.02), **{**given, **more})


def run(
    model: ServedModel, requests: Iterator[Request], *jobs: Arrival, gpus: int = 4
) -> ServingOutcome:
    return simulate(
        ServingScene({"m": model}, [Node("n", gpus)], training=jobs), "static", requests
    )


def burst(*times: float) -> Iterator[Request]:
    return iter([Request(at, "m", at + 1.0) for at in times])


def job(gpus: int = 1, work_s: float = 1e6, name: str = "t", cost_s: float = 1.0) -> Arrival:
    return Arrival(0.0, Job(JobId(name), gpus, interruption=Interruption(cost_s, cost_s)), work_s)


def held(found: ServingOutcome) -> float:
    return sum(found.fleet.gpu_seconds.values())


# ------------------------------------------------------------------------------------------- replicas


def test_a_service_at_rest_gives_its_gpu_away_and_a_request_wakes_it() -> None:
    model = service(least=0, most=1, wake_s=2.0, start_s=50.0, slo_s=1.0)
    found = run(model, burst(0.0, 200.0))
    whole = found.tally.whole()
    assert whole.served == 2
    # The second waits for the next look of its scaling rule, for the replica, and for its answer.
    assert 2.0 <= whole.latency.most <= 2.0 + 1.0 + 0.06 + 1e-6
    assert held(found) < 40.0
    assert [(awake, asleep) for _, _, awake, asleep in found.fleet.changes[-3:]][-1] == (1, 0)


def test_one_that_cannot_sleep_starts_cold() -> None:
    model = service(least=0, most=1, idle_s=None, wake_s=2.0, start_s=50.0, slo_s=1.0)
    assert 50.0 <= run(model, burst(0.0, 200.0)).tally.whole().latency.most <= 51.1


def test_replicas_follow_the_day_and_keep_the_slo() -> None:
    requests = make(DAY).requests("m", 0.2, 1)
    found = run(service(), requests)
    assert {awake for _, _, awake, _ in found.fleet.changes} >= {1, 2, 3}
    assert found.summary()["slo_attainment"] > 0.99
    assert held(found) < 0.8 * 4 * (found.ended - found.began)


# ------------------------------------------------------------------------------------------- training


def test_training_has_every_idle_gpu_and_gives_way() -> None:
    alone = run(service(), make(DAY).requests("m", 0.2, 1))
    jobs = [job(name=f"t{number}") for number in range(4)]
    found = run(service(), make(DAY).requests("m", 0.2, 1), *jobs)
    row = found.summary()
    assert row["training_of_idle"] > 0.95
    assert row["training_gave_way"] > 0
    assert row["slo_attainment"] > alone.summary()["slo_attainment"] - 0.01
    assert found.floor is not None
    span = 4 * (found.ended - found.began)
    assert held(found) + found.floor.trained_s + found.floor.lost_s <= span + 1e-6


def test_who_loses_least_gives_way() -> None:
    model = service(least=0, most=1, idle_s=5.0, wake_s=1.0, slo_s=1.0)
    dear, cheap = job(name="dear", cost_s=30.0), job(name="cheap", cost_s=2.0)
    found = run(model, burst(0.0, 100.0, 101.0), dear, cheap, gpus=2)
    assert found.floor is not None
    assert found.floor.gave_way == 1
    assert found.floor.lost_s == pytest.approx(2.0, abs=2.1)  # of the cheap one


def test_a_job_that_may_not_be_preempted_keeps_its_gpu() -> None:
    fixed = Arrival(0.0, Job(JobId("fixed"), 1, preemptible=False), 300.0)
    model = service(least=0, most=1, idle_s=5.0, wake_s=1.0, slo_s=1.0)
    found = run(model, burst(0.0, 100.0), fixed, gpus=1)
    assert found.floor is not None
    assert found.floor.gave_way == 0
    assert found.floor.done == 1
    assert found.tally.whole().latency.most > 200.0


def test_suspended_work_is_done_once() -> None:
    """A job of 100 s that gave way once ends later by what that cost, and not by work done twice."""
    model = service(least=0, most=1, idle_s=5.0, wake_s=1.0, slo_s=1.0)
    times = (*[0.0], 50.0, *[float(second) for second in range(51, 400)])
    found = run(model, burst(*times), job(work_s=30.0), gpus=2)
    assert found.floor is not None
    assert found.floor.done == 1
    assert found.floor.trained_s == pytest.approx(30.0)


# ------------------------------------------------------------------------------------- looking ahead


def test_without_a_yesterday_the_trend_goes_on() -> None:
    assert rate_ahead([10.0, 20.0, 30.0, 40.0, 50.0], 10.0, 20.0, 86_400.0) > 55.0
    assert rate_ahead([50.0] * 9, 10.0, 20.0, 86_400.0) == pytest.approx(50.0)
    assert rate_ahead([], 10.0, 20.0, 86_400.0) == 0.0


def test_with_a_yesterday_it_is_repeated_in_proportion() -> None:
    day = [float(step) for step in range(60)]
    history = [*day, *[2.0 * rate for rate in day[:30]]]
    assert rate_ahead(history, 1.0, 5.0, 60.0) == pytest.approx(2 * 34.0, rel=0.02)


def load(rate: float, **more: Any) -> SeenLoad:
    return SeenLoad(rate, 0.1, 0.0, 0.0, 0.0, 1, **more)


def test_a_forecast_never_wants_less_than_now() -> None:
    falling = load(10.0, history=[50.0, 40.0, 30.0, 20.0, 10.0], ready_in_s=60.0)
    assert ByForecast().wanted(falling, DESIGN).replicas == 2
    rising = load(50.0, history=[10.0, 20.0, 30.0, 40.0, 50.0], ready_in_s=120.0)
    assert ByForecast().wanted(rising, DESIGN).replicas > 8


def test_wake_ahead_keeps_less_in_reserve_where_waking_is_quick_or_training_would_lose() -> None:
    swings = [500.0, 700.0] * 15
    slow = WakeAhead().wanted(load(600.0, history=swings, ready_in_s=60.0), DESIGN)
    quick = WakeAhead().wanted(load(600.0, history=swings, ready_in_s=1.0), DESIGN)
    dear = WakeAhead().wanted(load(600.0, history=swings, ready_in_s=1.0, displaced=9.0), DESIGN)
    assert slow.replicas > quick.replicas > dear.replicas
    assert dear.patience_s == pytest.approx(10.0)  # to wake, and what training would lose again
    assert "costs training 9 GPU-seconds" in dear.reason


def test_less_is_wanted_only_after_a_while_and_more_at_once() -> None:
    class AsTold:
        def wanted(self, load: SeenLoad, design: ServiceDesign) -> Wish:
            return Wish(int(load.rate), "")

    steady = SteadyWish(AsTold(), 10.0, Wish(1, ""))
    wanted = [steady.at(at, load(rate), DESIGN, 0, 9).replicas for at, rate in WISHES]
    assert wanted == [3, 3, 3, 2, 5]


WISHES = ((1.0, 3.0), (2.0, 1.0), (9.0, 2.0), (12.0, 1.0), (13.0, 5.0))


def test_a_rule_that_sees_training_leaves_it_more() -> None:
    jobs = [job(name=f"t{number}") for number in range(4)]
    found = {
        rule: run(
            replace(service(), scaling=rule), make(DAY).requests("m", 0.2, 1), *jobs
        ).summary()
        for rule in ("reactive", "wake-ahead:day_s=1800")
    }
    ours, other = found["wake-ahead:day_s=1800"], found["reactive"]
    assert ours["training_gpu_hours"] > other["training_gpu_hours"]
    assert ours["slo_attainment"] > 0.99
