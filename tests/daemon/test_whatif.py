"""What would become of a job that nobody has submitted, and what would change that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dovetail.api.forecast_row import Span
from dovetail.api.wire import plain
from dovetail.core import snapshot
from dovetail.core.entries import Finished, Held, Submitted, TenantSet
from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Job, JobId, Node, Option, Tenant
from dovetail.core.state import State
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight import forecast as forecasts
from dovetail.daemon.foresight.alternatives import whatif
from dovetail.daemon.foresight.forecast_record import END, Record
from dovetail.jobfiles.job_model import read
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.policies.registry import BUILTIN
from dovetail.testing import job
from live_box import ME, Box
from live_state import EPOCH, FakeService, lasting, live, start

COSTS = Costs({"gpu": NodeRates((0.0, 1000.0, 1500.0))}, Hourly([0.2], "price"))


def new(seconds: float, gpus: int = 1, **rest: Any) -> Job:
    return lasting("0", seconds, gpus, name="new", user="eve", **rest)


def asked(
    state: State, one: Job, by: float | None = None, policy: str = "fifo", costs: Costs = COSTS
) -> dict[str, Any]:
    service = FakeService(state, policy)
    service.chosen.costs = costs
    before = snapshot.take(state)
    found: dict[str, Any] = plain(whatif(service, one, by))
    assert snapshot.take(state) == before  # nothing is submitted
    return found


def times(row: dict[str, Any]) -> tuple[float, float]:
    return row["start"]["expected"] - EPOCH, row["end"]["expected"] - EPOCH


def change(found: dict[str, Any], field: str) -> dict[str, Any]:
    row: dict[str, Any]
    (row,) = [row for row in found["alternatives"] if row["field"] == field]
    return row


def busy(*waiting: Job, policy_user: str = "bob") -> State:
    """Two GPUs, both in use: job 1 for 100 s, job 2 for 60 s."""
    state = live(lasting("1", 100, user=policy_user), lasting("2", 60, user="ann"), *waiting)
    start(state, "1", 1)
    start(state, "2", 2)
    return state


# ------------------------------------------------------------------------------------- as asked for


def test_a_job_that_would_be_last_starts_when_the_first_place_is_free() -> None:
    state = busy(lasting("3", 30))
    found = asked(state, new(50))
    assert times(found["as_asked"]) == (92.0, 142.0)
    assert found["as_asked"]["others"] == {"later": 0, "most_s": 0.0, "job": None}
    assert (found["policy"], found["limited"]) == ("fifo", "")


@pytest.mark.parametrize("policy", sorted(BUILTIN))
def test_what_is_said_is_what_the_queue_says_once_it_is_submitted(policy: str) -> None:
    chance = Random(policy)
    waiting = [
        lasting(str(n), chance.randint(10, 200), chance.choice([1, 2]), user=chance.choice("ab"))
        for n in range(3, 9)
    ]
    state = busy(*waiting)
    one = new(77, deadline=500.0)
    found = asked(state, one, policy=policy)
    state.record(Submitted(state.now, one))
    service = FakeService(state, policy)
    service.chosen.costs = COSTS  # as for the question
    queue = forecasts.forecast(service)
    for told, spans in (("start", queue.starts), ("end", queue.ends)):
        span = spans.get(
            JobId("0")
        )  # none: it would be refused, as its deadline cannot be promised
        assert found["as_asked"][told] == (None if span is None else plain(span))


def test_an_uncertain_duration_has_an_interval() -> None:
    found = asked(busy(), job("0", estimate=Estimate(600.0), user="eve", name="new"))
    end = found["as_asked"]["end"]
    assert end["low"] < end["expected"] < end["high"]
    assert found["as_asked"]["rests_on"] == "its user's estimate"


def test_nothing_is_said_to_end_before_it_starts() -> None:
    start = Span(100.0, 50.0, 300.0)
    assert Span(90.0, 20.0, 200.0).not_before(start) == start
    assert Span(150.0, 60.0, 400.0).not_before(start) == Span(150.0, 60.0, 400.0)
    assert Span(150.0, 60.0, 400.0).not_before(Span(100.0, 70.0, None)) == Span(150.0, 70.0, None)


def test_an_end_whose_interval_was_stretched_stays_behind_the_start() -> None:
    """A record of ends that came far sooner than said stretches them to earlier times."""
    record = Record()
    for _ in range(50):
        record._off[END, False].judge(-60.0)
    state = busy(new(100.0))
    likeness = replace(likenesses.take(FakeService(state, "fifo")), record=record)
    found = forecasts.made_of(likeness, float)
    start, end = found.starts[JobId("0")], found.ends[JobId("0")]
    assert end.low == start.low > likeness.now


def test_past_runs_of_the_same_name_are_what_it_rests_on() -> None:
    state = live(job("1", name="new", user="eve"))
    start(state, "1", 1)
    state.record(Finished(300.0, JobId("1")))
    found = asked(state, job("0", name="new", user="eve"))
    assert found["as_asked"]["rests_on"] == "1 run of new by eve"
    assert times(found["as_asked"])[1] == pytest.approx(600.0)


def test_holds_quotas_and_dependencies_are_heeded() -> None:
    state = busy(lasting("3", 30), lasting("4", 20))
    state.record(Held(4.0, JobId("3"), "paused by its user"))
    assert times(asked(state, new(10))["as_asked"])[0] == 83.0  # after 4, not after 3
    assert times(asked(state, new(10, after=(JobId("1"),)))["as_asked"])[0] == 103.0
    state = live(lasting("1", 100, tenant="lab"))
    state.record(TenantSet(0.0, Tenant("lab", gpu_quota=1.0)))
    start(state, "1", 1)
    assert times(asked(state, new(10))["as_asked"])[0] == 0.0
    assert times(asked(state, new(10, tenant="lab"))["as_asked"])[0] == 100.0


def test_a_job_that_could_never_run_is_told_so_in_one_line() -> None:
    for one, says in (
        (new(10, 3), "it needs 3 GPUs, and the largest possible placement is 2 GPUs"),
        (new(10, kinds=("H100",)), "it needs 1 GPU of kind H100, and there is none of that kind"),
    ):
        with pytest.raises(BadInput, match="job 'new' could never run here: ") as caught:
            asked(busy(), one)
        assert says in str(caught.value)


# ------------------------------------------------------------------------------ lateness and money


def test_lateness_is_counted_from_the_deadline_and_in_time_from_the_time_asked_about() -> None:
    row = asked(busy(), new(50, deadline=90.0), by=120.0)["as_asked"]
    assert times(row) == (61.0, 111.0)
    assert (row["late_s"], row["in_time"]) == (21.0, "yes")
    assert asked(busy(), new(50), by=100.0)["as_asked"]["late_s"] == 11.0


def test_the_cost_is_what_is_spent_because_of_the_job_and_would_not_be_without_it() -> None:
    """Until 101 s somebody else keeps the node on, and the job adds 500 W; then it has it alone."""
    cost = asked(busy(), new(50))["as_asked"]["cost"]
    watt_seconds = 500 * 40 + 1000 * 10
    assert cost["energy"] == pytest.approx(watt_seconds / 3.6e6 * 0.2)
    assert (cost["lateness"], cost["others"]) == (0.0, 0.0)
    assert cost["total"] == cost["energy"]


def test_being_late_costs_and_so_does_making_others_late() -> None:
    state = busy(lasting("3", 30, priority=1.0, deadline=95.0, late_cost_per_s=2.0))
    one = new(50, deadline=100.0, late_cost_per_s=3.0, priority=9.0)
    row = asked(state, one, policy="priority:preempt=false")["as_asked"]
    # It has the place that 3 would have had from 62 s on, which gets that of 1 at 102 s.
    assert times(row) == (62.0, 112.0)
    assert row["others"] == {"later": 1, "most_s": 40.0, "job": "3"}
    assert row["cost"]["lateness"] == pytest.approx(12 * 3.0)
    assert row["cost"]["others"] == pytest.approx((132.0 - 95.0) * 2.0)


def test_what_the_daemon_was_not_told_of_costs_is_said_and_times_are_told_all_the_same() -> None:
    found = asked(busy(), new(50), costs=Costs())
    assert found["uncosted"] == (
        "the daemon was not told what power GPUs of kind gpu draw and what electricity costs "
        "(dovetail up --costs FILE)"
    )
    assert found["as_asked"]["cost"] is None
    assert times(found["as_asked"]) == (61.0, 111.0)
    unpriced = asked(busy(), new(50), costs=Costs(COSTS.rates))
    assert unpriced["uncosted"].startswith("the daemon was not told what electricity costs")


def test_a_price_table_that_is_too_short_is_said_and_times_are_told_all_the_same() -> None:
    costs = Costs(COSTS.rates, Hourly([0.1, 0.2], "price table"))
    found = asked(busy(), new(9000), costs=costs)
    assert found["uncosted"].startswith("node 'box' is in use until hour 2, and the price table")
    assert times(found["as_asked"]) == (61.0, 9061.0)
    assert found["as_asked"]["cost"] is None


# ------------------------------------------------------------------------------------ alternatives


def test_fewer_gpus_may_be_there_sooner() -> None:
    state = busy(lasting("3", 400))
    found = asked(state, new(50, 2), by=200.0)
    assert found["as_asked"]["in_time"] == "no"
    row = change(found, "gpus")
    assert (row["change"], row["value"]) == ("with 1 GPU instead of 2", 1)
    assert times(row) == (102.0, 202.0)  # twice as long
    assert row["rests_on"] == "its user's estimate, taken 2 times as long"


def test_a_job_that_was_timed_in_other_ways_is_offered_them() -> None:
    timed = (Option("gpu", 1, 50.0), Option("gpu", 2, 30.0))
    one = new(50, kinds=("gpu",), options=timed)
    state = live(lasting("1", 10))
    row = change(asked(state, one), "gpus")
    assert (row["value"], times(row)) == (2, (10.0, 40.0))


def test_where_no_one_change_is_enough_two_are_tried_together() -> None:
    timed = (Option("gpu", 1, 50.0), Option("gpu", 2, 30.0))
    one = new(50, kinds=("gpu",), options=timed)
    found = asked(busy(lasting("3", 100, 2)), one, by=40.0, policy="priority")
    (best, *_) = found["alternatives"]
    assert best["change"] == "with 2 GPUs, at priority 1"
    assert (best["field"], best["value"]) == ("gpus,priority", [2, 1.0])
    assert (best["in_time"], times(best)) == ("yes", (2.0, 32.0))


def test_another_kind_of_gpu_may_be_free() -> None:
    state = live(
        lasting("1", 100, kinds=("A",)), cluster=[Node("new", 1, "A"), Node("old", 1, "B")]
    )
    start(state, "1", 1)
    row = change(asked(state, new(50, kinds=("A",)), by=60.0), "kinds")
    assert (row["change"], row["in_time"], times(row)) == (
        "with GPUs of kind B",
        "yes",
        (0.0, 50.0),
    )


def test_the_least_priority_that_is_enough_is_found() -> None:
    waiting = [lasting(str(n), 100, priority=float(n)) for n in (3, 4, 5, 6)]
    state = busy(*waiting)
    policy = "priority:preempt=false"
    found = asked(state, new(10, priority=3.0), by=190.0, policy=policy)
    row = change(found, "priority")
    assert (row["change"], row["in_time"]) == ("at priority 5", "yes")
    worse = asked(state, new(10, priority=3.0), by=80.0, policy=policy)
    assert change(worse, "priority")["value"] == 7.0


def test_a_deadline_of_its_own_helps_where_the_policy_heeds_deadlines() -> None:
    state = busy(lasting("3", 100), lasting("4", 100))
    row = change(asked(state, new(10), by=110.0, policy="edf"), "deadline")
    assert (row["value"], row["in_time"]) == (EPOCH + 110.0, "yes")
    assert "deadline" not in {
        own["field"] for own in asked(state, new(10), by=110.0)["alternatives"]
    }


def test_a_pause_of_another_job_is_offered_with_what_it_costs_that_job() -> None:
    found = asked(busy(), new(30), by=40.0)
    row = change(found, "pause")
    assert (row["change"], times(row)) == ("if job 2 (ann) were paused", (1.0, 31.0))
    assert row["others"] == {"later": 1, "most_s": 30.0, "job": "2"}


def test_who_holds_others_up_may_come_later() -> None:
    state = busy(lasting("3", 30))
    found = asked(state, new(50, priority=1.0), by=400.0, policy="priority:preempt=false")
    assert found["as_asked"]["others"]["later"] == 1
    row = change(found, "at")
    assert times(row) == (102.0, 152.0)
    assert row["others"]["later"] == 0


def test_a_cheaper_hour_is_found_if_it_is_in_time() -> None:
    prices = Hourly([0.4, 0.4, 0.4, 0.1, *[0.4] * 20], "price")
    costs = Costs(COSTS.rates, prices)
    state = live(lasting("1", 5.0))
    found = asked(state, new(3600), by=6 * 3600.0, costs=costs)
    row = change(found, "at")
    assert times(row) == (3 * 3600.0, 4 * 3600.0)
    assert row["cost"]["total"] < found["as_asked"]["cost"]["total"] / 3
    assert not asked(state, new(3600), by=3 * 3600.0, costs=costs)["alternatives"]


def test_those_that_make_it_come_first_and_the_cheapest_of_them() -> None:
    state = busy(lasting("3", 400), lasting("4", 10, 2))
    found = asked(state, new(50, 2), by=250.0, policy="priority")
    order = [row["in_time"] for row in found["alternatives"]]
    assert order == sorted(order, key=["yes", "likely", "perhaps", "no"].index)
    costs = [row["cost"]["total"] for row in found["alternatives"] if row["in_time"] == "yes"]
    assert costs == sorted(costs)


def test_where_nothing_helps_nothing_is_offered() -> None:
    found = asked(live(lasting("1", 10)), new(50), by=10.0)
    assert found["alternatives"] == []
    assert found["tried"] > 0


# ------------------------------------------------------------------------------------ a real daemon


@pytest.fixture
def here(tmp_path: Path) -> Any:
    box = Box(tmp_path / "home", policy="priority")
    yield box
    box.close()


def test_a_real_queue_is_asked_and_left_as_it_is(here: Box) -> None:
    here.daemon.chosen.costs = Costs({"cpu": NodeRates((0.0, 60.0, 90.0))}, Hourly([0.3]))
    running = here.submit("sleep 60", name="first", resources={"gpus": 2}, estimate="60s")
    here.wait_until(running, "running")
    spec = read({"run": "true", "name": "mine", "estimate": "30s", "deadline": "+50s"})
    found = plain(whatif(here.service, here.service.proposed(spec, ME)))
    row = found["as_asked"]
    assert 30 < row["start"]["expected"] - found["now"] <= 60.5
    assert 20 < row["late_s"] < 45
    assert row["cost"]["energy"] == pytest.approx(60 * 30 / 3.6e6 * 0.3, rel=0.01)
    assert change(found, "priority")["in_time"] == "likely"  # nothing has confirmed the estimate
    assert here.service.jobs().total == 1
    second = here.submit("sleep 1", name="mine", estimate="30s")
    expected = forecasts.forecast(here.service).ends[JobId(second)].expected
    assert expected == pytest.approx(row["end"]["expected"], abs=5)


def test_one_run_of_another_command_does_not_beat_the_users_estimate(here: Box) -> None:
    here.wait(here.submit("sleep 0.1 # train.py --smoke", name="train.py"))
    told = {"name": "train.py", "run": "python train.py --epochs 500"}
    spec = read({**told, "estimate": "10h"})
    found = plain(
        whatif(here.service, here.service.proposed(spec, ME), here.service.clock() + 3600)
    )
    row = found["as_asked"]
    assert row["in_time"] == "no"
    assert row["end"]["expected"] - found["now"] > 8 * 3600
    assert row["rests_on"].startswith("its user's estimate, and 1 run of train.py")
    unsaid = plain(
        whatif(here.service, here.service.proposed(read(told), ME), here.service.clock() + 3600)
    )
    assert unsaid["as_asked"]["in_time"] in ("likely", "unknown")  # never yes, from one run


def test_a_job_of_which_nothing_is_known_is_told_so(here: Box) -> None:
    found = plain(whatif(here.service, here.service.proposed(read({"run": "true"}), ME), 1e9))
    row = found["as_asked"]
    assert row["start"]["expected"] == pytest.approx(found["now"], abs=1.0)
    assert (row["end"], row["in_time"]) == (None, "unknown")
    assert row["rests_on"].startswith("nothing: no job like it has finished")
