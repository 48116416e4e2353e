"""The rule `continuous` in a whole simulation: several replicas, results, refusals."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.jobfiles.served_models import read_services
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.language.step_costs import DecodeCost, PrefillCost, StepCosts
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from dovetail.serving.summary_table import table
from dovetail.serving.traffic.catalogue import make as traffic
from language_replaying import replayed
from language_step_by_step import StepByStep, Told

EXAMPLES = Path(__file__).parents[2] / "examples/services"
COSTS = StepCosts(PrefillCost(0.010, 0.0001), DecodeCost(0.020, 0.001, 1e-6))
MODEL = LanguageModel(COSTS, KvSize(300))
REQUESTS = list(
    traffic("poisson:rate=2:seconds=200:prompt_tokens=300:output_tokens=60").requests(
        "chat", 8.0, 1
    )
)


def scene(model: LanguageModel = MODEL, replicas: int = 1, slo_s: float = 8.0) -> ServingScene:
    service = ServedModel("chat", model, slo_s, 16, replicas, replicas)
    return ServingScene({"chat": service}, [Node("n", 8)])


@pytest.mark.parametrize("prefill", ["alone", "mixed", "chunked"])
def test_a_simulation_says_what_the_step_by_step_loop_says(prefill: str) -> None:
    own = scene()
    row = simulate(own, f"continuous:prefill={prefill}", REQUESTS).summary()
    told = [Told(i, one.at, one.prompt_tokens, one.output_tokens) for i, one in enumerate(REQUESTS)]
    StepByStep(MODEL, StepRule(16, prefill), told).run()
    mean = sum(one.finished - one.arrived for one in told) / len(told)
    assert row["mean_latency_s"] == pytest.approx(mean, rel=1e-9)
    in_time = sum(one.finished - one.arrived <= 8.0 for one in told) / len(told)
    assert row["slo_attainment"] == pytest.approx(in_time)
    first = sorted(one.first - one.arrived for one in told)
    assert row["p50_first_token_s"] == pytest.approx(first[len(first) // 2], rel=0.02)
    last = max(one.finished for one in told)
    tokens = sum(one.output for one in told)
    assert row["tokens_per_s"] == pytest.approx(tokens / (last - REQUESTS[0].at))


def test_time_between_tokens_is_that_of_a_step() -> None:
    row = simulate(scene(), "continuous", [Request(0.0, "chat", inf, 100, 101)]).summary()
    reading = 1e-6 * 149.5  # 100 tokens are held at first, 199 at the end
    assert row["p99_between_tokens_s"] == pytest.approx(0.021 + reading, rel=1e-3)


def test_requests_go_to_the_replica_with_the_fewest() -> None:
    both = [Request(0.0, "chat", inf, 50, 200), Request(0.001, "chat", inf, 50, 200)]
    two = simulate(scene(replicas=2), "continuous", both).summary()
    _, (alone, _) = replayed(MODEL, StepRule(), [both[0], both[1]._replace(at=500.0)])
    assert two["p99_latency_s"] == pytest.approx(alone.finished_s, rel=1e-3)


def test_replicas_follow_the_requests_in_work_and_not_the_steps() -> None:
    """10 a second of some 2 s each are 20 in work; a replica with 16 at once is to be 70 % busy: two, or
    three in a busy moment."""
    model = ServedModel("chat", MODEL, inf, 16, 1, 6, idle_s=20.0, start_s=1.0)
    text = "poisson:rate=10:seconds=100:prompt_tokens=300:output_tokens=60"
    found = simulate(
        ServingScene({"chat": model}, [Node("n", 8)]),
        "continuous",
        traffic(text).requests("chat", inf, 1),
    )
    awake = [own for at, _, own, _ in found.fleet.changes if at < 100.0]
    assert 2 <= max(awake) <= 4


def test_a_request_that_never_fits_is_dropped_and_the_others_are_served() -> None:
    huge = Request(1.0, "chat", inf, 6000, 10)
    small = Request(2.0, "chat", inf, 10, 10)
    row = simulate(scene(), "continuous", [huge, small]).summary()
    assert (row["served"], row["dropped"], row["too_long"]) == (1, 1, 1)
    assert "1 dropped: with their answers they are longer than the KV memory" in table([row])


def test_a_request_without_tokens_is_refused() -> None:
    with pytest.raises(BadInput, match="has no tokens; give prompt_tokens and output_tokens"):
        simulate(scene(), "continuous", [Request(0.0, "chat")])


def test_models_and_policies_must_suit_each_other() -> None:
    with pytest.raises(BadInput, match=r"is a language model.*take the policy continuous"):
        simulate(scene(), "static", REQUESTS)
    plain = ServedModel("image", AffineLatency(0.004, 0.002))
    with pytest.raises(BadInput, match="'image' is no language model"):
        simulate(ServingScene({"image": plain}, [Node("n", 1)]), "continuous", [])


def test_a_parameter_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="prefill=whole: it is one of alone, mixed, chunked"):
        simulate(scene(), "continuous:prefill=whole", [])


def test_the_example_with_a_measured_profile_runs() -> None:
    services = read_services(str(EXAMPLES / "chat.yaml"))
    requests = traffic("poisson:rate=4:seconds=60:prompt_tokens=1000:output_tokens=200")
    own = ServingScene(services, [Node("n", 4)])
    row = simulate(own, "continuous", requests.requests("chat", 20.0, 1)).summary()
    assert row["served"] == row["requests"] > 200
    assert 0.030 < row["p50_between_tokens_s"] < 0.050  # of eight H100: 30 ms alone, 50 at 64
