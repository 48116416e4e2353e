"""Power limits: tables by model and GPU kind, and what a run under a limit is charged."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import NodeJoined, Resize, Start, Submitted
from dovetail.core.errors import BadInput
from dovetail.core.journal import encode, placement_from, read
from dovetail.core.model import JobId, Node, Placement, Slice
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates, rates_of
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import Limited, PowerTable
from dovetail.models.workload import Arrival
from dovetail.testing import arrival
from dovetail.traces.clusters.power_tables import read_power_tables

# Half the energy at 100 W for a quarter more time; 150 W is no slower than 250; 50 W saves nothing.
STEPS = (
    Limited(0, 1.0, 250.0),
    Limited(150, 1.0, 150.0),
    Limited(100, 1.25, 100.0),
    Limited(50, 2.6, 50.0),
)
POWER = PowerTable({("net", "gpu"): STEPS})
NODE = Node("n0", 1, idle_watts=40.0, gpu_watts=300.0)
COSTS = Costs(rates_of([NODE]), price=Hourly([0.2]), pue=1.5, power=POWER)


def charged(jobs: list[Arrival], policy: str, costs: Costs = COSTS) -> dict[str, Any]:
    return dict(simulate(Experiment(jobs, [NODE], costs=costs), policy).summary)


def net(seconds: float = HOUR_S, **wishes: Any) -> Arrival:
    return arrival("a", 0.0, seconds, model="net", **wishes)


# ------------------------------------------------------------------------------------------ tables


def test_only_limits_that_save_energy_for_their_time_are_worth_choosing() -> None:
    assert [step.limit for step in POWER.choices("net", "gpu")] == [0, 150, 100]
    assert POWER.choices("other", "gpu") == (Limited(0, 1.0, None),)


def test_who_is_in_haste_gives_less_time_for_energy() -> None:
    assert [s.limit for s in POWER.choices_in_haste("net", "gpu", 0.0)] == [0, 150, 100]
    assert [s.limit for s in POWER.choices_in_haste("net", "gpu", 1.0)] == [0, 150]


def test_a_table_of_zeus_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "zeus.csv"
    path.write_text(
        "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
        "cifar100,shufflenetv2,1024,adam,100,12.0,90.0\n"
        "cifar100,shufflenetv2,1024,adam,250,10.0,200.0\n"
    )
    table = read_power_tables([f"V100={path}"], ["V100"])
    model = "cifar100/shufflenetv2/1024/adam"
    assert table.models == {model}
    assert table.at(model, "V100", 0) == (0, 1.0, 200.0)
    assert table.at(model, "V100", 100) == (100, 1.2, 90.0)


def test_one_file_may_be_for_several_kinds(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("kind,model,power_limit,time,watts\nA40,net,300,1,250\nV100,net,250,1,200\n")
    table = read_power_tables([str(path)], ["A40", "V100"])
    assert table.at("net", "A40", 0).watts == 250.0
    assert table.at("net", "V100", 0).watts == 200.0


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("", "has no rows below its header"),
        ("net,250,10,-5", "3: column 'watts': '-5' is negative"),
        ("net,250,10,0", "column 'watts': '0' is not more than 0"),
        ("net,250,-1,90", "column 'time': '-1' is negative"),
        ("net,0,10,90", "column 'power_limit': '0' is not more than 0"),
        (",250,10,90", "column 'model': is empty"),
        (
            "net,250,10,90\nnet,250,11,90",
            "4: model 'net' has two rows for 250 W on 'A40'; keep one",
        ),
    ],
)
def test_a_bad_table_is_told_in_one_line(tmp_path: Path, rows: str, why: str) -> None:
    path = tmp_path / "power.csv"
    path.write_text(f"# measured in May\nmodel,power_limit,time,watts\n{rows}\n")
    with pytest.raises(BadInput) as caught:
        read_power_tables([f"A40={path}"], ["A40"])
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kind_that_no_node_has_is_told(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("model,power_limit,time,watts\nnet,250,10,90\n")
    with pytest.raises(BadInput, match="no node has GPUs of kind 'a40'; there is A40, V100"):
        read_power_tables([f"a40={path}"], ["A40", "V100"])
    with pytest.raises(BadInput, match=f"no column 'kind' .*KIND={path}"):
        read_power_tables([str(path)], ["A40"])


# ----------------------------------------------------------------------------------------- charges


def test_a_job_draws_what_its_model_draws_beside_the_idle_node() -> None:
    run = charged([net()], "fifo")
    assert run["energy_kwh"] == pytest.approx((0.04 + 0.25) * 1.5)
    assert run["energy_cost"] == pytest.approx((0.04 + 0.25) * 1.5 * 0.2)


def test_under_a_limit_it_takes_longer_and_draws_less() -> None:
    run = charged([net(deadline=9 * HOUR_S)], "andreas-greedy")
    assert run["mean_jct_s"] == pytest.approx(1.25 * HOUR_S)
    assert run["energy_kwh"] == pytest.approx(1.25 * (0.04 + 0.1) * 1.5)


def test_models_that_no_table_has_are_charged_as_the_node_says() -> None:
    run = charged([arrival("a", 0.0, HOUR_S, model="other")], "frugal")
    assert run["energy_kwh"] == pytest.approx(0.34 * 1.5)


def test_where_nodes_tell_no_power_the_table_is_all_there_is() -> None:
    costs = Costs(power=POWER)
    assert charged([net()], "fifo", costs)["energy_kwh"] == pytest.approx(0.25)


def test_where_only_money_is_known_a_limit_saves_the_price_of_its_watts() -> None:
    rates = {"gpu": NodeRates(per_hour=(0.0, 1.0))}
    costs = Costs(rates, price=Hourly([0.2]), power=POWER)
    assert charged([net()], "fifo", costs)["energy_cost"] == pytest.approx(1.0)
    run = charged([net()], "frugal", costs)
    assert run["energy_cost"] == pytest.approx(1.0 - 0.1 * 0.2)


# ---------------------------------------------------------------------------------------- journals


def test_a_limit_is_part_of_a_placement_in_the_journal() -> None:
    slices = (Slice(0, 3), Slice(1, 1))
    for placement in (Placement(slices), Placement(slices, limit=150), Placement((), 500)):
        assert placement_from(json.loads(placement.text)) == placement
    assert Placement(slices).text == "[1000,[0,3],[1,1]]"  # as before there were limits
    assert Placement(slices) != Placement(slices, limit=150)


def test_journal_and_snapshot_remember_the_limit() -> None:
    state, lines = State(), []
    for entry in (
        NodeJoined(0.0, NODE),
        Submitted(0.0, net().job),
        Start(JobId("a"), Placement((Slice(0, 1),), limit=150)),
        Resize(JobId("a"), Placement((Slice(0, 1),), limit=100)),
    ):
        state.record(entry)
        lines.append(encode(entry, 0.0))
    replayed = State()
    for told in read(lines):
        replayed.record(told)
    for known in (state, replayed, restore(take(state), past=0)):
        placement = known.tracks[JobId("a")].placement
        assert placement is not None
        assert placement.limit == 100


def test_costs_can_be_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(COSTS))
    assert (sent.rates, sent.pue) == (COSTS.rates, COSTS.pue)
    assert sent.price.total(0.0, 7200.0) == COSTS.price.total(0.0, 7200.0)
