"""Each job where it should end first: mixed GPU kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from random import Random
from statistics import mean
from typing import Any

import pytest
from hypothesis import given

from chances import CHANCES
from dovetail.core.errors import BadInput
from dovetail.core.model import Interruption, Job, Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.models.workload import Arrival
from dovetail.policies.mixed.similar import ModelSimilarity
from dovetail.policies.registry import BUILTIN
from dovetail.predict.duration import UserEstimate
from dovetail.testing import arrival, check_policy, policy_for, random_world, run_world
from speed_samples import made_up_table

# `picky` is ten times as fast on the large GPU, `easy` hardly.
TABLE = SpeedTable(
    {
        ModelType("picky"): {Hardware("small"): 1.0, Hardware("large"): 10.0},
        ModelType("easy"): {Hardware("small"): 9.0, Hardware("large"): 10.0},
    }
)
NODES = (Node("s", 1, kind="small"), Node("l", 1, kind="large"))


def ends(
    arrivals: Sequence[Arrival], policy: str, table: SpeedTable = TABLE, predictor: str = "oracle"
) -> Mapping[str, float]:
    experiment = Experiment(arrivals, NODES, speed_table=table, predictor=predictor)
    record = simulate(experiment, policy, rows=True)
    return {row.job_id: row.end_s for row in record.jobs}


def test_a_job_goes_to_the_free_kind_on_which_it_is_fastest() -> None:
    assert ends([arrival("a", model="picky")], "model-similarity:speeds=oracle") == {"a": 10.0}
    assert ends([arrival("a", model="picky")], "model-similarity:speeds=none") == {"a": 100.0}


def test_it_waits_for_a_faster_kind_exactly_if_that_pays() -> None:
    jobs = [arrival("first", model="picky"), arrival("second", model="picky")]
    assert ends(jobs, "model-similarity:speeds=oracle") == {"first": 10.0, "second": 20.0}
    jobs = [arrival("first", work_s=100.0, model="picky"), arrival("second", model="picky")]
    assert ends(jobs, "model-similarity:speeds=oracle") == {"first": 100.0, "second": 100.0}


def test_one_that_waits_lets_those_pass_that_want_the_other_kind() -> None:
    jobs = [
        arrival("first", model="picky"),
        arrival("second", model="picky"),
        arrival("third", model="easy"),
    ]
    found = ends(jobs, "model-similarity:speeds=oracle")
    assert found == {"first": 10.0, "second": 20.0, "third": pytest.approx(100 / 9)}


def test_who_outstays_the_estimate_is_not_waited_for_for_ever() -> None:
    """The first was to be short, so the second waits for its GPU; then it takes the other one."""
    jobs = [
        arrival("first", 0.0, 100_000.0, model="picky"),
        arrival("second", 1.0, 3600.0, model="picky"),
    ]
    found = ends(jobs, "model-similarity:speeds=oracle", predictor="history-mean")
    assert found["second"] < found["first"] == 100_000.0


def test_a_running_job_moves_to_a_faster_kind_that_nobody_waits_for_if_that_pays() -> None:
    given_up = arrival("first", work_s=100.0, model="picky", cancel_at=20.0)
    second = arrival("second", model="picky")
    found = ends([given_up, second], "model-similarity:speeds=oracle")
    assert found == {"first": 20.0, "second": pytest.approx(20.0 + 8.0)}
    stays = ends([given_up, second], "model-similarity:speeds=oracle:move_gain=1")
    assert stays["second"] == 100.0
    dear = arrival("second", model="picky", interruption=Interruption(20.0, 60.0))
    assert ends([given_up, dear], "model-similarity:speeds=oracle")["second"] == 100.0


def test_moving_needs_a_gain_between_0_and_1() -> None:
    with pytest.raises(BadInput, match="move_gain is 0; give more than 0, at most 1"):
        ends([arrival("a")], "model-similarity:move_gain=0")


def test_a_model_never_measured_goes_by_those_that_are_like_it() -> None:
    nodes = (Node("k", 1, kind="K80"), Node("v", 1, kind="V100"))
    experiment = Experiment([arrival("a", model="vgg16")], nodes, speed_table=made_up_table())
    record = simulate(experiment, "model-similarity", rows=True)
    assert [record.nodes[stint.placement.slices[0].node].id for stint in record.stints] == ["v"]


@given(chance=CHANCES)
def test_where_all_kinds_are_equally_fast_it_is_fifo_skip(chance: Random) -> None:
    world = random_world(chance)
    ours = run_world(world, policy_for(world, "model-similarity"))
    base = run_world(world, policy_for(world, "fifo-skip"))
    assert ours.ends_at == base.ends_at
    assert ours.first_starts == base.first_starts


class OldIsSlow:
    """A belief about the kinds of `random_world`, true or not."""

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return (0.2 if kind == "old" else 1.0) / nodes


@pytest.mark.parametrize("move_gain", [0.1, 1.0])
def test_the_contract_holds_whatever_is_believed_of_speeds(move_gain: float) -> None:
    beliefs: dict[str, Any] = {"predictor": UserEstimate(10.0), "speeds": OldIsSlow()}
    check_policy(lambda: ModelSimilarity(**beliefs, move_gain=move_gain), worlds=150)


def drawn(table: SpeedTable, seed: int, jobs: int = 50) -> list[Arrival]:
    chance = Random(seed)
    models = sorted(table.speeds)
    return [
        arrival(
            f"j{i}",
            0.0,
            60.0 * 10.0 ** chance.uniform(1.0, 2.5),
            chance.choices((1, 2, 4), (7, 2, 1))[0],
            model=str(chance.choice(models)),
        )
        for i in range(jobs)
    ]


def test_on_mixed_gpus_similar_models_shorten_the_makespan_nearly_as_much_as_the_truth() -> None:
    table = made_up_table()
    nodes = [Node(kind, 4, kind=kind) for kind in ("v100", "p100", "k80")]
    gains: dict[str, list[float]] = {"strangers": [], "similar": [], "oracle": []}
    for seed in range(6):
        experiment = Experiment(drawn(table, seed), nodes, speed_table=table)
        spans = {
            name: float(
                simulate(experiment, f"model-similarity:speeds={name}").summary["makespan_s"]
            )
            for name in ("none", *gains)
        }
        for name in gains:
            gains[name].append(log(spans[name] / spans["none"]))
    middle = {name: exp(mean(values)) for name, values in gains.items()}
    assert middle["similar"] < 0.95, middle
    assert middle["strangers"] < 1.0, middle
    assert middle["oracle"] < middle["similar"] * 1.1, middle


def test_it_is_one_of_the_policies() -> None:
    assert "model-similarity" in BUILTIN
