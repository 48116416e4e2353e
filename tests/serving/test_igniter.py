"""iGniter: the closed form of a model alone, and shares that grow with the neighbours."""

from math import ceil

import pytest

from dovetail.serving.planners.igniter import (
    FittedTime,
    Resident,
    SharedGpu,
    SharingModel,
    beside,
    gpu_time_s,
    latency_s,
    least_share,
    share_gpus,
    smallest_batch,
    throughput,
)

TIME = FittedTime(1e-6, 2e-3, 3e-3, 0.1, 1e-4)
GPU = SharedGpu(
    bytes_per_s=10e9,
    launch_slope_s=1e-6,
    launch_base_s=2e-6,
    watts=250.0,
    idle_watts=50.0,
    clock=1500.0,
    clock_per_watt=1.0,
)


def model(name: str, rate: float = 200.0, slo_s: float = 0.05, cache: float = 0.2) -> SharingModel:
    return SharingModel(
        name, rate, slo_s, TIME, 64, 100, 5e-6, 600e3, 4e3, cache, cache_slope=0.5, power_watts=60.0
    )


def test_batch_and_share_of_a_model_alone_are_the_closed_forms() -> None:
    own = model("a")
    batch = smallest_batch(own, GPU)
    assert batch == ceil(0.05 * 200.0 * 10e9 / (2.0 * (10e9 + 200.0 * 600e3)))
    rest = 0.025 - 604e3 * batch / 10e9 - 100 * 5e-6 - TIME.k5
    exact = (TIME.k1 * batch**2 + TIME.k2 * batch + TIME.k3) / rest - TIME.k4
    share = least_share(own, batch, GPU)
    assert share == ceil(exact / 0.025) * 25


def test_the_parts_of_a_latency_are_loading_launching_running_and_bringing_back() -> None:
    own, other = Resident(model("a"), 4, 500), Resident(model("b"), 4, 500)
    launch = (5e-6 + 1e-6 * 2 + 2e-6) * 100
    active = (1e-6 * 16 + 2e-3 * 4 + 3e-3) / 0.6 + 1e-4
    assert gpu_time_s(own, [other], GPU) == pytest.approx(launch + active * 1.1)
    assert latency_s(own, [other], GPU) == pytest.approx(launch + active * 1.1 + 4 * 604e3 / 10e9)
    assert throughput(own, [], GPU) == pytest.approx(4 / (100 * 5e-6 + active + 4 * 4e3 / 10e9))


def test_the_clock_falls_with_the_watts_above_the_limit() -> None:
    assert GPU.slowdown(200.0) == 1.0
    assert GPU.slowdown(500.0) == pytest.approx(1500.0 / 1200.0)


def test_a_new_neighbour_makes_nobodys_share_smaller() -> None:
    alone = []
    for name in "abc":
        share = least_share(model(name), 5, GPU)
        assert share is not None
        alone.append(Resident(model(name, rate=20.0), 5, share))
    there = beside(alone[:1], alone[1], GPU)
    if there is not None:
        assert all(now.share >= before.share for now, before in zip(there, alone, strict=False))


def test_a_second_gpu_is_used_only_where_one_is_not_enough() -> None:
    small = [model(name, rate=10.0, slo_s=0.2) for name in "abc"]
    plan = share_gpus(small, GPU, 4)
    assert plan is not None
    assert len(plan) == 1
    large = [model(name, rate=250.0, slo_s=0.03) for name in "abc"]
    plan = share_gpus(large, GPU, 4)
    assert plan is not None
    assert len(plan) > 1
    assert share_gpus(large, GPU, 1) is None


def test_every_model_of_a_plan_is_in_time_beside_its_neighbours() -> None:
    models = [model(f"m{i}", rate=20.0 + 30.0 * i, slo_s=0.04 + 0.02 * i) for i in range(6)]
    plan = share_gpus(models, GPU, 8)
    assert plan is not None
    for residents in plan:
        assert sum(one.share for one in residents) <= 1000
        for i, one in enumerate(residents):
            others = [*residents[:i], *residents[i + 1 :]]
            assert latency_s(one, others, GPU) <= one.model.slo_s / 2 + 1e-9
            assert throughput(one, others, GPU) >= one.model.rate * (1 - 1e-9)
