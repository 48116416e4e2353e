"""A decision that would start hundreds of jobs is taken in parts, one after the other at one instant."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.entries import Action, Preempt, Start
from dovetail.core.loop import Policy
from dovetail.core.view import View
from dovetail.models.speed import same_for_all_pairs
from dovetail.models.workload import Arrival
from dovetail.policies.keys import ByPriority, ByService, BySubmission, Queues
from dovetail.policies.listing import AT_ONCE, ListScheduler
from dovetail.policies.placement import consolidated
from dovetail.testing import PolicyRun, World, arrival, nodes, policy_for, run_world


class Counted:
    """A policy, and how many jobs each of its decisions starts."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.starts: list[int] = []

    def decide(self, view: View) -> Iterable[Action]:
        actions = list(self._policy.decide(view))
        self.starts.append(len([one for one in actions if isinstance(one, Start)]))
        return actions


def arrivals_of(number: int, work_s: float) -> list[Arrival]:
    return [arrival(f"j{i}", 0.0, work_s) for i in range(number)]


def at(run: PolicyRun, when: float, kind: type[Start] | type[Preempt]) -> list[str]:
    return [one.job_id for then, one in run.entries if then == when and isinstance(one, kind)]


@pytest.mark.parametrize("preemptive", [False, True])
def test_a_decision_starts_so_many_jobs_at_most_and_the_rest_follows_at_once(
    preemptive: bool,
) -> None:
    counted = Counted(ListScheduler(BySubmission(), consolidated, preemptive=preemptive, at_once=4))
    run = run_world(World(arrivals_of(10, 10.0), nodes(1, 8)), counted)
    assert counted.starts[:3] == [4, 4, 0]
    assert at(run, 0.0, Start) == [f"j{i}" for i in range(8)]
    assert at(run, 10.0, Start) == ["j8", "j9"]


def test_slices_that_end_together_change_hands_in_parts_at_one_instant() -> None:
    turns = ByService(Queues(()), rotate_s=10.0, by_turn=True)
    counted = Counted(
        ListScheduler(turns, consolidated, preemptive=True, running_first=True, at_once=3)
    )
    run = run_world(World(arrivals_of(16, 100.0), nodes(1, 8)), counted)
    assert max(counted.starts) == 3
    assert sorted(at(run, 10.0, Preempt)) == sorted(f"j{i}" for i in range(8))
    assert at(run, 10.0, Start) == [f"j{i}" for i in range(8, 16)]


@pytest.mark.parametrize("running_first", [False, True])
def test_who_is_stopped_and_not_needed_after_all_stays_where_it_is(running_first: bool) -> None:
    """Both small jobs must go for the large one; then the urgent small one fits beside it."""
    arrivals = [
        arrival("left", 0.0, 100.0, gpus=2),
        arrival("right", 0.0, 100.0, gpus=2, priority=1.0),
        arrival("large", 1.0, 5.0, gpus=2, priority=2.0),
        arrival("next", 1.0, 5.0, gpus=2, priority=3.0),
    ]
    policy = ListScheduler(
        ByPriority(), consolidated, preemptive=True, running_first=running_first, at_once=1
    )
    run = run_world(World(arrivals, nodes(1, 4)), policy)
    assert at(run, 1.0, Start) == ["next", "large"]
    assert at(run, 1.0, Preempt) == ["left", "right"]
    assert all(track.preemptions <= 1 for track in run.ended.values())


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=14
    )
)
def test_where_nobody_gives_way_parts_end_as_the_whole_does(
    jobs: Sequence[tuple[int, int, int]],
) -> None:
    coming = [arrival(f"j{i}", float(t), float(s), g) for i, (t, s, g) in enumerate(sorted(jobs))]
    ends = []
    for at_once in (1, 1000):
        policy = ListScheduler(BySubmission(), consolidated, at_once=at_once)
        ends.append(run_world(World(coming, nodes(2, 4)), policy).ends_at)
    assert ends[0] == ends[1]


def test_many_pairs_are_made_and_parted_at_one_instant_though_not_in_one_decision() -> None:
    number = 2 * AT_ONCE
    for speed, after in ((0.7, 0), (0.3, number)):
        world = World(
            arrivals_of(2 * number, 10.0),
            nodes(number // 8, 8),
            interference=same_for_all_pairs(speed),
        )
        policy = Counted(policy_for(world, "gandiva:quantum_s=1000", "consolidated"))
        run = run_world(world, policy)
        assert max(policy.starts) <= AT_ONCE
        assert len(at(run, 0.0, Start)) == 2 * number
        assert len(at(run, 0.0, Preempt)) == after
