"""The forecast is the policy itself, run ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from dovetail.api.wire import plain
from dovetail.core import snapshot, still
from dovetail.core.entries import Finished, Held, NodeJoined, Occupied, Pinned, Start, Submitted
from dovetail.core.loop import run
from dovetail.core.model import Estimate, Interruption, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.daemon.active_policy import said
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight import forecast as forecasts
from dovetail.daemon.foresight.copy import Likeness
from dovetail.daemon.foresight.forecast import QueueForecast, made_of
from dovetail.daemon.foresight.lookahead import StartsAndEnds
from dovetail.daemon.holds import ARRAY_FULL
from dovetail.models.workload import Arrival
from dovetail.predict.intervals import Belief, exactly
from dovetail.testing import Paused, World, arrival, job, nodes, placement, policy_for
from live_state import EPOCH, PAST, FakeService, lasting, live, start


def starts(found: QueueForecast) -> dict[str, float]:
    return {job_id: span.expected - EPOCH for job_id, span in found.starts.items()}


def ends(found: QueueForecast) -> dict[str, float]:
    return {job_id: span.expected - EPOCH for job_id, span in found.ends.items()}


# ----------------------------------------------------------------------------------- worked examples


def test_two_slots_and_three_jobs_under_fifo() -> None:
    state = live(lasting("1", 100), lasting("2", 60), lasting("3", 30), lasting("4", 10))
    start(state, "1", 1)
    start(state, "2", 2)
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert starts(found) == {"1": 3.0, "2": 3.0, "3": 63.0, "4": 93.0}
    assert ends(found) == {"1": 103.0, "2": 63.0, "3": 93.0, "4": 103.0}
    assert found.releases[JobId("3")].job_id == "2"
    assert found.limited == ""


def test_two_slots_and_three_jobs_under_srtf() -> None:
    state = live(lasting("1", 100), lasting("2", 60), lasting("3", 30))
    start(state, "1", 1)
    start(state, "2", 2)
    found = forecasts.forecast(FakeService(state, "srtf:predictor=user-estimate"))
    # The shortest goes first at once, in the place of the longest, which goes on when it has ended.
    assert starts(found)["3"] == 2.0
    assert ends(found) == {"1": 132.0, "2": 62.0, "3": 32.0}
    assert found.gives_way == {"1": (EPOCH + 2.0, "3")}


def test_under_a_policy_that_learns_the_forecast_rests_on_what_it_learned() -> None:
    state = live(lasting("1", 100), lasting("2", 60), lasting("3", 30))
    start(state, "1", 1)
    start(state, "2", 2)
    found = forecasts.forecast(FakeService(state, "qssf:predictor=recent-mean"))
    assert {belief.source for belief in found.beliefs.values()} == {"its user's estimate"}
    assert found.beliefs[JobId("3")].seconds == pytest.approx(30.0)
    assert found.beliefs[JobId("3")].high > 30 * 4  # no job has ended that could confirm it
    assert starts(found)["3"] == pytest.approx(62.0, abs=1.5)


def test_time_that_has_passed_since_the_last_event_counts() -> None:
    state = live(lasting("1", 100), lasting("2", 100), lasting("3", 30))
    start(state, "1", 1)
    start(state, "2", 2)
    found = forecasts.forecast(FakeService(state, "fifo", now=50.0))
    assert starts(found)["3"] == 102.0


def test_a_gang_waits_until_all_its_gpus_are_free() -> None:
    state = live(lasting("1", 100), lasting("2", 60), lasting("wide", 10, 2), lasting("small", 5))
    start(state, "1", 1)
    start(state, "2", 2)
    assert starts(forecasts.forecast(FakeService(state, "fifo")))["wide"] == 103.0
    skipping = forecasts.forecast(FakeService(state, "fifo-skip"))
    assert (starts(skipping)["wide"], starts(skipping)["small"]) == (103.0, 63.0)


def test_who_waits_for_another_job_starts_after_its_end() -> None:
    state = live(lasting("1", 100), lasting("2", 10, after=(JobId("1"),)))
    start(state, "1", 1)
    assert starts(forecasts.forecast(FakeService(state, "fifo")))["2"] == 101.0


def test_what_rests_on_jobs_unlike_it_is_marked_as_a_guess() -> None:
    jobs = [job(str(i), user="ann", name="old.py") for i in range(5)]
    new = [job(own, user="ann", name=f"{own}.py") for own in ("odd", "after")]
    state = live(*jobs, *new, lasting("said", 50), cluster=[Node("box", 1)])
    for i in range(5):
        start(state, str(i), 1)
        state.record(Finished(state.now + 100.0, JobId(str(i))))
    start(state, "odd", 1)
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert {job_id for job_id, span in found.starts.items() if span.guess} == {"after", "said"}
    assert {job_id for job_id, span in found.ends.items() if span.guess} == {"odd", "after", "said"}
    assert found.beliefs[JobId("odd")].source == "5 jobs by ann, none like it"


def test_paused_jobs_are_left_out_and_delay_nobody() -> None:
    state = live(lasting("1", 100), lasting("2", 60), lasting("3", 30), lasting("4", 10))
    start(state, "1", 1)
    start(state, "2", 2)
    state.record(Held(3.0, JobId("3"), "paused by its user"))
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert found.start("3") is None
    assert starts(found)["4"] == 63.0


def test_an_array_lets_its_next_member_go_when_one_has_ended() -> None:
    state = live(lasting("7.0", 20), lasting("7.1", 10), lasting("7.2", 10))
    start(state, "7.0", 1)
    for member in ("7.1", "7.2"):
        state.record(Held(2.0, JobId(member), ARRAY_FULL))
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert starts(found) == {"7.0": 2.0, "7.1": 22.0, "7.2": 32.0}


def test_gpus_of_strangers_are_not_counted_on_and_it_is_said() -> None:
    state = live(lasting("1", 100), lasting("2", 10))
    state.record(Occupied(1.0, "box", 2))
    start(state, "1", 1)
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert starts(found)["2"] == 101.0
    assert "1 GPU used by processes that are not ours" in found.limited


def test_who_is_pinned_is_not_expected_to_give_way() -> None:
    state = live(lasting("1", 100), lasting("2", 10), cluster=[Node("box", 1)])
    start(state, "1", 1)
    policy = "srtf:predictor=user-estimate"
    assert starts(forecasts.forecast(FakeService(state, policy)))["2"] == 1.0
    state.record(Pinned(1.0, JobId("1"), "it holds memory that cannot be saved"))
    assert starts(forecasts.forecast(FakeService(state, policy)))["2"] == 101.0


def test_what_giving_way_took_before_is_expected_again() -> None:
    slow = Interruption(save_s=3.0, restore_s=4.0)
    state = live(lasting("1", 100, interruption=slow), lasting("2", 10), cluster=[Node("box", 1)])
    start(state, "1", 1)
    found = forecasts.forecast(FakeService(state, "srtf:predictor=user-estimate"))
    assert ends(found) == {"2": 14.0, "1": 118.0}


def test_a_job_being_started_is_believed_to_be_at_work_at_once() -> None:
    state = live(lasting("1", 100))
    state.record(Start(JobId("1"), placement((0, 1))))
    assert ends(forecasts.forecast(FakeService(state, "fifo"))) == {"1": 100.0}


def test_who_waits_for_a_job_of_which_nothing_is_known_has_no_time() -> None:
    state = live(job("1"), lasting("2", 60), lasting("3", 30), lasting("4", 10), job("5"))
    start(state, "1", 1)
    start(state, "2", 2)
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert found.unknown == {"1", "5"}
    assert starts(found) == {"1": 4.0, "2": 4.0, "3": 64.0, "4": 94.0, "5": 104.0}
    assert found.starts[JobId("3")].low == EPOCH + 4.0  # if the one in its way ended at once
    assert found.end("1") is None
    rows = plain(found.told(["1", "3"]))
    assert rows["ends"]["1"] is None
    assert rows["ends"]["3"]["expected"] == EPOCH + 94.0
    assert "how long 2 jobs (job 1, …) will take is unknown" in found.limited
    state = live(job("1"), lasting("2", 60), cluster=[Node("box", 1)])
    start(state, "1", 1)
    found = forecasts.forecast(FakeService(state, "fifo"))
    assert found.start("2") is None
    assert found.told(["2"]).starts == {"2": None}


def test_a_time_limit_ends_what_would_take_longer() -> None:
    state = live(lasting("1", 100, time_limit_s=50.0), lasting("2", 10), cluster=[Node("box", 1)])
    start(state, "1", 1)
    assert starts(forecasts.forecast(FakeService(state, "fifo")))["2"] == 51.0


# ---------------------------------------------------------------------------------------- intervals


def test_the_interval_of_a_start_is_that_of_the_end_it_waits_for() -> None:
    state = live(job("1"), job("2"), cluster=[Node("box", 1)])
    start(state, "1", 1)
    likeness = likenesses.take(FakeService(state, "fifo"))
    beliefs = {JobId("1"): Belief(100.0, 50.0, 300.0, "x"), JobId("2"): exactly(10.0)}
    span = made_of(likeness, lambda at: at, beliefs).start("2")
    assert span is not None
    assert span.expected == 101.0
    assert 45 <= span.low <= 60
    assert span.high is not None
    assert 240 <= span.high <= 340


def test_ten_jobs_in_a_row_are_surer_than_each_of_them_but_not_by_much_if_they_are_alike() -> None:
    def width(sources: Sequence[str]) -> float:
        state = live(*(job(str(i)) for i in range(11)), cluster=[Node("box", 1)])
        likeness = likenesses.take(FakeService(state, "fifo"))
        beliefs = {JobId(str(i)): Belief(100.0, 50.0, 200.0, sources[i]) for i in range(11)}
        span = made_of(likeness, lambda at: at, beliefs).start("10")
        assert span is not None
        assert span.high is not None
        return (span.high - span.low) / span.expected

    alike, apart = width(["x"] * 11), width([str(i) for i in range(11)])
    assert apart < 0.75 * alike
    assert alike < 1.5  # that of one job


def test_the_same_question_has_the_same_answer() -> None:
    state = live(*(job(str(i)) for i in range(5)))
    likeness = likenesses.take(FakeService(state, "fifo"))
    assert made_of(likeness, lambda at: at) == made_of(likeness, lambda at: at)


# --------------------------------------------------------------------------- the same as the simulator

POLICIES = (
    *("fifo", "fifo-skip", "sjf", "sjf-skip", "psjf", "srtf", "srsf", "qssf", "priority", "edf"),
    *("easy", "conservative", "las:quantum=16", "round-robin:slice_s=8", "drf", "fair-share"),
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_with_exact_beliefs_the_forecast_is_what_comes_to_pass(policy: str, seed: int) -> None:
    world = _world(Random(seed))
    durations = world.durations()
    halted, state = policy_for(world, policy), State(PAST)
    cluster = world.cluster()
    _run_a_while(cluster, halted, state, 6 + seed)
    likeness = _likeness_of(state, halted, lambda: policy_for(world, policy))
    beliefs = {k: exactly(_left(t, durations[k], state.now)) for k, t in state.tracks.items()}
    found = made_of(likeness, lambda at: at, beliefs)
    before, waiting = set(state.tracks), set(state.tracks) - set(state.running)
    watch = StartsAndEnds()
    state.index(watch)
    run(cluster, [halted], state)
    assert set(watch.ended) == before
    assert {k: span.expected for k, span in found.ends.items()} == pytest.approx(watch.ended)
    starts = {k: span.expected for k, span in found.starts.items() if k in waiting}
    assert starts == pytest.approx({k: watch.started[k] for k in waiting})


def _run_a_while(cluster: Any, policy: Any, state: State, turns: int) -> None:
    """Up to a moment at which nobody waits for GPUs on which another is still being saved: which
    these are, nobody but the world knows."""
    run(Paused(cluster, turns), [policy], state)
    while any(track.phase is Phase.STARTING for track in state.running.values()):
        run(Paused(cluster, 1), [policy], state)


def _left(track: Any, duration: Seconds, now: Seconds) -> Seconds:
    return duration - float(track.executed_by(now))


def _world(chance: Random) -> World:
    """All jobs come at the beginning; gangs; whole seconds, so that sums of them are exact."""
    costs = Interruption(*chance.choice([(0.0, 0.0), (2.0, 1.0)]))
    arrivals: list[Arrival] = [
        arrival(
            f"j{i}",
            0.0,
            float(chance.choice([8, 16, 24, 40, 64, 96])),
            chance.choice([1, 1, 2, 4]),
            user=chance.choice("uvw"),
            priority=float(chance.randrange(3)),
            deadline=chance.choice([None, 100.0, 300.0]),
            interruption=costs,
        )
        for i in range(16)
    ]
    return World(arrivals, nodes(2, 4))


def _likeness_of(state: State, policy: Any, again: Any) -> Likeness:
    taken = still.take(state, state.now, state.tracks.values())
    return Likeness(taken, lambda _: again(), "test", remembered=said(policy, "remembered", state))


# ------------------------------------------------------------------------------- asking changes nothing


def test_asking_leaves_the_state_as_it_is() -> None:
    state = live(*(lasting(str(i), 900 + i, 1 + i % 2) for i in range(9)))
    start(state, "0", 1)
    before = snapshot.take(state)
    for policy in ("fifo", "srtf", "fair-share", "easy", "gandiva", "tiresias"):
        forecasts.forecast(FakeService(state, policy))
    assert snapshot.take(state) == before


def test_a_forecast_serves_all_who_ask_at_the_same_time() -> None:
    state = live(lasting("1", 10), lasting("2", 10), cluster=[Node("box", 1)])
    service = FakeService(state, "fifo")
    assert forecasts.forecast(service) is forecasts.forecast(service)
    service.chosen.set("srtf", state)
    assert forecasts.forecast(service).limited == ""


def test_a_policy_that_breaks_spoils_nothing_but_the_forecast() -> None:
    class Broken:
        def decide(self, view: Any) -> Any:
            raise RuntimeError("no idea")

    state = live(lasting("1", 10))
    taken = still.take(state, 0.0, state.tracks.values())
    found = made_of(Likeness(taken, lambda _: Broken(), "broken"), lambda at: at)
    assert found.start("1") is None
    assert "no idea" in found.limited


# --------------------------------------------------------------------------------------------- speed


def _crowd(number: int, cluster: Sequence[Node] = (Node("box", 8),)) -> State:
    chance = Random(1)
    state = State(PAST)
    for node in cluster:
        state.record(NodeJoined(0.0, node))
    for i in range(number):
        size = chance.choice([1, 1, 1, 2, 4])
        told = Estimate(60.0 + i % 50)
        one = job(str(i), size, user=f"u{i % 7}", name=f"n{i % 5}", estimate=told)
        state.record(Submitted(float(i), one))
    return state


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "srtf", "fair-share", "priority"])
def test_ten_thousand_waiting_jobs_do_not_hold_up_the_loop(policy: str) -> None:
    service = FakeService(_crowd(10_000), policy)
    list(service.chosen.decide(service.state))
    service.state.settle()
    service.looks.clear()
    found = forecasts.forecast(service)
    assert "waiting jobs further behind are left out" in found.limited
    assert len(found.starts) >= likenesses.MOST_WAITING
    assert max(service.looks) < 0.02  # measured: 4 ms


def test_of_a_long_queue_those_are_taken_who_come_first_under_the_policy() -> None:
    state = _crowd(3_000)
    state.record(Submitted(5000.0, job("urgent", priority=9.0)))
    service = FakeService(state, "priority")
    list(service.chosen.decide(state))
    state.settle()
    assert forecasts.forecast(service).start("urgent") is not None
    assert JobId("2999") not in likenesses.take(service).state().tracks
    assert likenesses.take(service, JobId("2999")).line.index(JobId("2999")) == 3_000
    assert "2999" in likenesses.take(service, JobId("2999")).state().tracks
