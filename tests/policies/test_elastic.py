"""Optimus and AFS: the worked examples of the papers, and what becomes of jobs that grow and shrink."""

from collections.abc import Callable, Sequence

import pytest

from dovetail.core.entries import NodeJoined, Preempt, Resize, Start, Started, Submitted
from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.core.plan import Plan
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.models.speed import by_kind_and_placement
from dovetail.policies import registry
from dovetail.policies.elastic.afs import prefers_later, share_by_tournament
from dovetail.policies.elastic.claims import CountClaim, shared
from dovetail.policies.elastic.optimus import share_out
from dovetail.policies.placement import consolidated
from dovetail.predict.duration import Oracle
from dovetail.predict.speed import SameEverywhere
from dovetail.testing import arrival, job, nodes, placement, run_trace


def claim(speed: Callable[[int], float], most: int = 64) -> CountClaim:
    own = job("j", 1, max_gpus=most)
    return CountClaim(Track(own, Shape(0, own, ""), 0, 0.0, 0), range(1, most + 1), speed)


def test_optimus_gives_each_gpu_to_the_largest_gain() -> None:
    """Steps of a/w + b·w: 1000 of (1, .02), 200 of (2, .05); gains 480, 190, 146.7, 63.3."""
    first = claim(lambda w: 1.0 / (1.0 / w + 0.02 * w))
    second = claim(lambda w: 1.0 / (2.0 / w + 0.05 * w))
    for gpus, expected in ((2, [1, 1]), (3, [2, 1]), (4, [2, 2]), (5, [3, 2]), (6, [4, 2])):
        assert share_out(gpus, [first, second], [1000.0, 200.0]) == expected


def test_optimus_stops_where_more_gpus_help_nobody() -> None:
    worse = claim(lambda w: 1.0 / (1.0 + 0.5 * (w - 2) ** 2))
    assert share_out(64, [worse, worse], [10.0, 20.0]) == [2, 2]
    assert share_out(1, [worse, worse], [10.0, 20.0]) == [1, None]


def table(*speeds: float) -> CountClaim:
    return claim(lambda w: speeds[w - 1], len(speeds))


def test_afs_gives_the_gpu_where_both_are_done_sooner_together() -> None:
    """Works of 10 and 30: the sums are 31.48 against 35.0, then 29.19 against 25.79."""
    scales, hardly = table(1.0, 1.8), table(1.0, 1.2)
    assert share_by_tournament(3, [scales, hardly], [10.0, 30.0]) == [2, 1]
    assert share_by_tournament(3, [table(1.0, 1.1), table(1.0, 1.9)], [10.0, 30.0]) == [1, 2]


@pytest.mark.parametrize("later", [1.1, 1.3, 1.6, 1.95])
@pytest.mark.parametrize("first", [1.05, 1.2, 1.5, 1.9])
def test_the_rule_of_afs_is_the_smaller_sum_of_completion_times(first: float, later: float) -> None:
    end = 10.0 / first
    to_first = end + end + (30.0 - end) / later
    to_later = 10.0 + 30.0 / later
    assert prefers_later(1.0, first, 1.0, later) == (to_later < to_first)


def test_where_all_scale_in_proportion_afs_gives_the_shortest_all_that_is_left() -> None:
    equal = [claim(float) for _ in range(3)]
    assert share_by_tournament(12, equal, [30.0, 10.0, 20.0]) == [1, 10, 1]
    assert share_by_tournament(2, equal, [30.0, 10.0, 20.0]) == [None, 1, 1]


def test_afs_without_lengths_takes_all_for_equally_long() -> None:
    arrivals = [
        arrival("long", 0.0, 1000.0, max_gpus=4, interruption=Interruption(0.0, 1.0)),
        arrival("short", 0.0, 50.0, max_gpus=4),
    ]
    linear = by_kind_and_placement({}, scaling=1.0)
    told = {
        text: run_trace(text, arrivals, nodes(1, 4), speed=linear).ends_at
        for text in ("afs:speeds=none/scaling=1", "afs:lengths=false:speeds=none/scaling=1")
    }
    assert told["afs:speeds=none/scaling=1"]["short"] == pytest.approx(50.0 / 3.0)
    assert told["afs:lengths=false:speeds=none/scaling=1"]["short"] > 20.0


@pytest.mark.parametrize("text", ["optimus", "afs"])
def test_a_job_grows_when_others_end_and_shrinks_when_they_come(text: str) -> None:
    cost = Interruption(0.0, 1.0)
    arrivals = [
        arrival("first", 0.0, 900.0, 2, min_gpus=1, max_gpus=8, interruption=cost),
        *[arrival(f"next{i}", 130.0, 60.0, 1, max_gpus=4, interruption=cost) for i in range(3)],
    ]
    run = run_trace(text, arrivals, nodes(2, 4), speed=by_kind_and_placement({}))
    counts = [
        entry.placement.gpus
        for _, entry in run.entries
        if isinstance(entry, Start | Resize) and entry.job_id == "first"
    ]
    assert counts[0] == 8
    assert min(counts) < 8
    assert counts[-1] == 8
    assert not run.of(Preempt)


def test_jobs_that_stand_in_each_others_way_are_moved_all_the_same() -> None:
    state = State()
    state.record(NodeJoined(0.0, Node("n", 4)))
    for name, mask in (("a", 0b0011), ("b", 0b1100)):
        state.record(Submitted(0.0, job(name, 2, min_gpus=1)))
        state.record(Start(JobId(name), placement((0, mask))))
    a, b = (state.tracks[JobId(name)] for name in "ab")
    plan = Plan(state, consolidated)
    plan.rearrange([(a, placement((0, 0b1100))), (b, placement((0, 0b0011)))])
    assert [type(action) for action in plan.actions] == [Preempt, Resize, Start]
    for action in plan.actions:
        state.record(action)
    held: Sequence[object] = [a.placement, b.placement]
    assert held == [placement((0, 0b1100)), placement((0, 0b0011))]


class _MeasuredUpTo8:
    def speed(self, own: Job, kind: str, gpus: int, nodes: int) -> float:
        assert gpus <= 8
        return float(gpus)


@pytest.mark.parametrize("name", ["elasticflow", "genie", "powercap", "flex"])
def test_no_policy_asks_how_fast_a_job_is_on_more_gpus_than_there_are(name: str) -> None:
    state = State()
    for name_of in ("n0", "n1"):
        state.record(NodeJoined(0.0, Node(name_of, 4)))
    own = job("a", 2, min_gpus=1, max_gpus=320, deadline=1e5)
    state.record(Submitted(0.0, own))
    policy = registry.find(name)(speeds=_MeasuredUpTo8(), predictor=Oracle({own.id: 100.0}))
    assert any(isinstance(action, Start) for action in policy.decide(state))


def test_work_left_is_told_by_the_predictor_that_a_text_names() -> None:
    jobs = [arrival(f"j{i}", 0.0, 50.0 * (i + 1), 1, max_gpus=4) for i in range(3)]
    done = run_trace("afs:left=predicted/predictor=history-mean", jobs, nodes(1, 4))
    assert len(done.ends_at) == 3


@pytest.mark.parametrize("policy", ["afs", "optimus", "lyra", "pop", "flex"])
def test_what_is_known_of_lengths_is_told_wherever_a_policy_asks_for_it(policy: str) -> None:
    assert registry.sources(policy, "oracle") == ["oracle"]
    predicted = registry.with_predictor(policy, "history-mean")
    assert registry.sources(predicted, "oracle") == ["history-mean"]


def test_a_policy_that_takes_all_jobs_for_equally_long_is_told_no_lengths() -> None:
    assert registry.sources("afs:lengths=false", "oracle") == []
    assert registry.with_predictor("afs:lengths=false", "history-mean") == "afs:lengths=false"


@pytest.mark.parametrize("first", [None, lambda track: -float(track.sequence)])
def test_only_those_for_whom_there_are_gpus_are_looked_at(
    first: Callable[[Track], float] | None,
) -> None:
    """Also a running one, whose GPUs are shared out, and one that asks for CPUs alone."""
    state = State()
    state.record(NodeJoined(0.0, Node("n0", 4)))
    state.record(Submitted(0.0, job("runs", 3)))
    state.record(Start(JobId("runs"), placement((0, 0b111))))
    state.record(Started(0.0, JobId("runs")))
    for name, gpus in (("large", 3), ("a", 1), ("b", 2)):
        state.record(Submitted(0.0, job(name, gpus)))
    state.record(Submitted(0.0, job("cpus", 0, cpus=1.0)))
    state.record(Submitted(0.0, job("none left", 4)))
    among = shared(state, SameEverywhere(), 60.0, first)
    names = [str(claim.track.job.id) for claim in among.claims]
    in_order = ["runs", "large", "a", "cpus"]
    assert (among.gpus, names) == (4, in_order if first is None else ["runs", "cpus", "none left"])
