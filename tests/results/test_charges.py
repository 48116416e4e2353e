"""What a run is charged for, against sums made by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Interruption, Node, Option
from dovetail.experiments.experiment import Experiment, simulate, with_time_error
from dovetail.models.cost import LATE_BY_PRIORITY, Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.testing import arrival
from dovetail.traces.clusters.hourly_tables import read_hourly

RATES = NodeRates(watts=(0.0, 500.0, 600.0, 700.0, 800.0))
COSTS = Costs({"gpu": RATES}, price=Hourly([0.2]), pue=1.5, carbon=Hourly([400.0]))
FOUR = [Node("n0", 4)]


def charged(
    arrivals: list[Any], costs: Costs = COSTS, nodes: list[Node] = FOUR, policy: str = "fifo"
) -> dict[str, Any]:
    return dict(simulate(Experiment(arrivals, nodes, costs=costs), policy).summary)


def test_a_node_is_charged_by_its_busy_gpus_while_it_has_any() -> None:
    run = charged([arrival("a", 0.0, 3600.0, 2), arrival("b", 1800.0, 3600.0, 1)])
    kwh = (0.6 * 0.5 + 0.7 * 0.5 + 0.5 * 0.5) * 1.5
    assert run["energy_kwh"] == pytest.approx(kwh)
    assert run["energy_cost"] == run["total_cost"] == pytest.approx(kwh * 0.2)
    assert run["co2_kg"] == pytest.approx(kwh * 0.4)
    assert run["switch_ons"] == 1


def test_money_per_hour_goes_before_watts() -> None:
    dear = replace(COSTS, rates={"gpu": NodeRates(RATES.watts, (0.0, 1.0, 1.5, 2.0, 2.5))})
    assert charged([arrival("a", 0.0, 7200.0, 2)], dear)["energy_cost"] == pytest.approx(3.0)


def test_the_price_of_the_hour_counts() -> None:
    hourly = replace(COSTS, price=Hourly([0.1, 0.3, 0.2]))
    run = charged([arrival("a", 1800.0, 3600.0, 1)], hourly)
    assert run["energy_cost"] == pytest.approx(0.5 * 1.5 * (0.5 * 0.1 + 0.5 * 0.3))


def test_a_node_that_was_off_costs_to_switch_on() -> None:
    costs = Costs(switch_on=2.0)
    run = charged([arrival("a", 0.0, 10.0), arrival("b", 50.0, 10.0)], costs)
    assert (run["switch_ons"], run["energy_cost"]) == (2, 4.0)
    run = charged([arrival("a", 0.0, 10.0, 4), arrival("b", 0.0, 10.0, 4)], costs)
    assert run["switch_ons"] == 1  # one job gives the node to the next


def test_lateness_costs_what_the_job_says_or_its_priority() -> None:
    run = charged(
        [
            arrival("own", 0.0, 100.0, deadline=40.0, late_cost_per_s=0.5),
            arrival("third", 0.0, 100.0, deadline=90.0, priority=3.0),
            arrival("on time", 0.0, 100.0, deadline=100.0, priority=5.0),
            arrival("unsaid", 0.0, 100.0, deadline=1.0),
        ],
        Costs(),
    )
    assert run["tardiness_s"] == pytest.approx(60 + 10 + 99)
    assert run["deadline_misses"] == 3
    assert run["tardiness_cost"] == pytest.approx(60 * 0.5 + 10 * LATE_BY_PRIORITY[2])


def test_moving_to_another_node_is_counted_and_charged() -> None:
    jobs = [
        arrival("long", 0.0, 100.0, 1, kinds=("old", "gpu")),
        arrival("short", 10.0, 10.0, 2, kinds=("old",)),
    ]
    two = [Node("n0", 2, "old"), Node("n1", 2)]
    run = charged(jobs, Costs(move=3.0), two, "srtf")
    assert (run["preemptions"], run["migrations"], run["move_cost"]) == (1, 1, 3.0)


def test_two_jobs_on_one_gpu_make_one_busy_gpu() -> None:
    jobs = [arrival("a", 0.0, 3600.0, share=500), arrival("b", 0.0, 3600.0, share=500)]
    assert charged(jobs)["energy_kwh"] == pytest.approx(0.5 * 1.5)


def test_gpus_are_charged_while_a_job_is_restored() -> None:
    slow = Interruption(save_s=0.0, restore_s=600.0)
    run = charged(
        [arrival("a", 0.0, 3600.0, 4, interruption=slow), arrival("b", 600.0, 600.0, 4)],
        policy="srtf",
    )
    assert run["energy_kwh"] == pytest.approx(0.8 * 1.5 * (3600 + 600 + 600) / 3600)


def test_nodes_that_say_what_they_draw_are_charged_by_it() -> None:
    nodes = [Node("n0", 4, idle_watts=300.0, gpu_watts=100.0)]
    run = dict(simulate(Experiment([arrival("a", 0.0, 3600.0, 2)], nodes), "fifo").summary)
    assert (run["energy_kwh"], run["total_cost"]) == (0.5, 0.0)


def test_jobs_may_really_take_longer_than_their_options_say() -> None:
    timed = arrival("a", 0.0, 100.0, kinds=("gpu",), options=(Option("gpu", 1, 100.0),))
    (wrong,) = with_time_error([timed], 0.2, seed=1)
    assert 80 <= wrong.work_s <= 120
    assert wrong.work_s != 100
    run = simulate(Experiment([wrong], FOUR), "fifo").summary
    assert run["makespan_s"] == pytest.approx(wrong.work_s)


def test_tables_by_the_hour_are_read_with_and_without_times(tmp_path: Path) -> None:
    bare, dated = tmp_path / "bare.csv", tmp_path / "dated.csv"
    bare.write_text("price\n0.1\n0.2\n")
    dated.write_text("datetime,carbon\n2021-01-01 00:00,300\n2021-01-01 01:00,200\n")
    assert read_hourly(str(bare), "price").values == (0.1, 0.2)
    assert read_hourly(str(dated), "carbon").values == (300.0, 200.0)
    assert read_hourly("0.17", "price").values == (0.17,)
    dated.write_text("datetime,carbon\n2021-01-01 00:00,300\n2021-01-01 02:00,200\n")
    with pytest.raises(BadInput, match="no value for hour 1"):
        read_hourly(str(dated), "carbon")
    dated.write_text("hour,carbon\n0,300\n1,\n")
    with pytest.raises(BadInput, match=r"dated.csv:3: the hour has no value; give one for every"):
        read_hourly(str(dated), "carbon")
