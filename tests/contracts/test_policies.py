"""What every registered policy must keep, on worlds made by chance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chances import CHANCES
from contracts_texts import TEXTS, in_rounds
from dovetail.core.entries import Action, NodeLeft, Start
from dovetail.core.errors import DovetailError
from dovetail.core.model import Job, Node
from dovetail.core.plan import Plan
from dovetail.core.track import Phase
from dovetail.core.view import View
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.queueing import FifoSkip
from dovetail.policies.registry import BUILTIN, Knowledge, describe, make
from dovetail.testing import (
    PolicyRun,
    World,
    arrival,
    check_ends_and_laws,
    check_policy,
    check_purity,
    check_replay,
    check_restart,
    check_same_again,
    check_snapshot,
    crowded_world,
    nodes,
    over_nodes,
    policy_for,
    random_world,
    run_trace,
    run_world,
    with_elastic_jobs,
    world_of_options,
)

WORLDS = CHANCES.map(random_world)
TURNS = st.integers(0, 30)
FEW = settings(max_examples=12)  # for each of so many policies; `make fuzz` tries thousands
every_policy = pytest.mark.parametrize("text", TEXTS)


@every_policy
@FEW
@given(world=WORLDS)
def test_every_job_ends_once_and_no_law_of_the_cluster_is_broken(text: str, world: World) -> None:
    check_ends_and_laws(world, lambda: policy_for(world, text))


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith("tiresias")])
@FEW
@given(world=WORLDS)
def test_deciding_is_pure(text: str, world: World) -> None:
    check_purity(world, lambda: policy_for(world, text))


@pytest.mark.parametrize("text", [text for text in TEXTS if text.startswith("tiresias")])
def test_deciding_is_pure_where_jobs_queue(text: str) -> None:
    for number in range(20):
        world = random_world(Random(f"0/{number}"))
        check_purity(world, partial(policy_for, world, text))


@every_policy
@FEW
@given(world=WORLDS, turns=TURNS)
def test_replaying_the_journal_rebuilds_the_state(text: str, world: World, turns: int) -> None:
    check_replay(world, lambda: policy_for(world, text), turns)


@every_policy
@FEW
@given(world=WORLDS, turns=TURNS)
def test_a_crash_at_any_turn_loses_no_job(text: str, world: World, turns: int) -> None:
    check_restart(world, lambda: policy_for(world, text), turns)


# What `history-mean` believes of a job is what it had learnt when the job began to wait: after a restart
# it knows more. That is the predictor's; the policies are judged by others.
LEARNS_ON = "predictor=history-mean"


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.endswith(LEARNS_ON)])
def test_a_state_kept_as_text_leads_to_the_same_decisions(text: str) -> None:
    for number in range(3):
        chance = Random(f"snapshot/{number}")
        world, turns = random_world(chance), chance.randint(1, 30)
        check_snapshot(world, partial(policy_for, world, text), turns)
    for number in range(2 if text.startswith("frugal") else 5):
        chance = Random(f"crowd/{number}")
        world, turns = crowded_world(chance), chance.randint(1, 60)
        check_snapshot(world, partial(policy_for, world, text), turns)


@every_policy
@FEW
@given(world=WORLDS)
def test_the_same_world_gives_the_same_journal_byte_for_byte(text: str, world: World) -> None:
    check_same_again(world, lambda: policy_for(world, text))


def test_conservative_starts_a_job_without_gpus_where_a_pool_is_left_without_nodes() -> None:
    run = run_trace(
        "conservative",
        [arrival("cpu", 5.0, 10.0, 0, cpus=2.0)],
        [Node("n0", 4, kind="old"), Node("n1", 4)],
        node_events=[NodeLeft(1.0, "n0")],
    )
    assert set(run.ended) == {"cpu"}


@every_policy
@FEW
@given(chance=CHANCES, turns=st.integers(0, 20))
def test_jobs_with_options_are_run_in_one_of_their_ways(
    text: str, chance: Random, turns: int
) -> None:
    world = world_of_options(chance)
    check_ends_and_laws(world, lambda: policy_for(world, text))
    check_purity(world, lambda: policy_for(world, text))
    check_replay(world, lambda: policy_for(world, text), turns)
    check_restart(world, lambda: policy_for(world, text), turns)


@every_policy
@FEW
@given(chance=CHANCES, turns=st.integers(0, 20))
def test_jobs_that_say_how_many_nodes_have_so_many(text: str, chance: Random, turns: int) -> None:
    world = over_nodes(random_world(chance), chance)
    check_ends_and_laws(world, lambda: policy_for(world, text))
    check_purity(world, lambda: policy_for(world, text))
    check_replay(world, lambda: policy_for(world, text), turns)
    check_restart(world, lambda: policy_for(world, text), turns)


@every_policy
@FEW
@given(chance=CHANCES, turns=st.integers(0, 20))
def test_elastic_jobs_due_on_mixed_kinds_end_once_and_no_law_is_broken(
    text: str, chance: Random, turns: int
) -> None:
    world = with_elastic_jobs(random_world(chance), chance)
    check_ends_and_laws(world, lambda: policy_for(world, text))
    check_purity(world, lambda: policy_for(world, text))
    check_replay(world, lambda: policy_for(world, text), turns)
    check_restart(world, lambda: policy_for(world, text), turns)


# ------------------------------------------------------------------------------------ what they know


class Sealed:
    """A predictor that may not be asked."""

    def duration_s(self, job: Job, view: View) -> float:
        raise AssertionError(f"asked for the duration of {job.id!r}")


def knows_the_truth(text: str) -> bool:
    needs = describe(text.split(":")[0]).needs
    return "policy" in needs or (
        "predictor" in needs and not text.endswith(("history-mean", "recent-mean"))
    )


blind_policy = pytest.mark.parametrize("text", [t for t in TEXTS if not knows_the_truth(t)])


@pytest.mark.parametrize("text", [t for t in TEXTS if not describe(t.split(":")[0]).needs])
@FEW
@given(world=WORLDS)
def test_hiding_the_truth_changes_nothing_for_a_policy_that_may_not_know_it(
    text: str, world: World
) -> None:
    sealed = Knowledge({"oracle": Sealed()}, "oracle", services=())
    told = run_world(world, policy_for(world, text))
    untold = run_world(world, make(text, PLACEMENTS["consolidated"], sealed))
    assert untold.text == told.text


@blind_policy
@FEW
@given(world=WORLDS, number=st.integers(0, 13))
def test_nothing_happens_differently_before_the_truth_comes_to_light(
    text: str, world: World, number: int
) -> None:
    """One job is really longer than in the other world: until it ends there, the journals agree."""
    longer = world.arrivals[number % len(world.arrivals)]
    other = [replace(a, work_s=a.work_s + 50) if a is longer else a for a in world.arrivals]
    first = run_world(world, policy_for(world, text))
    second = run_world(replace(world, arrivals=other), policy_for(world, text))
    known_at = first.ended[longer.job.id].ended_at
    assert _before(first, known_at) == _before(second, known_at)


def _before(run: PolicyRun, at: float) -> list[str]:
    return [repr(entry) for then, entry in run.entries if then < at]


# ------------------------------------------------------------------------------------------- bounds


@every_policy
@FEW
@given(world=WORLDS)
def test_nobody_beats_the_lower_bounds(text: str, world: World) -> None:
    plain = [replace(a, cancel_at=None, failures=()) for a in world.arrivals]
    world = replace(world, arrivals=plain, node_events=())
    run = run_world(world, policy_for(world, text))
    finished = [a for a in plain if run.phase(a.job.id) is Phase.FINISHED]
    if not finished:
        return
    gpus = sum(node.gpus for node in world.nodes)
    work = sum(a.work_s * a.job.gpus * a.job.share / 1000 for a in finished)
    makespan = max(run.ends_at.values()) - min(a.at for a in finished)
    stayed = sum(run.ends_at[a.job.id] - a.at for a in finished)
    assert makespan >= work / gpus - 1e-6
    assert makespan >= max(a.work_s for a in finished) - 1e-6
    assert stayed >= sum(a.work_s for a in finished) - 1e-6


LIGHT = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 3.0, 50.0]),
        st.floats(0.0, 200.0),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("text", [text for text in TEXTS if not in_rounds(text)])
@FEW
@given(jobs=LIGHT)
def test_where_there_is_room_for_all_every_policy_is_the_same(
    text: str, jobs: list[tuple[float, float, int]]
) -> None:
    arrivals = [arrival(f"j{i}", *rest) for i, rest in enumerate(sorted(jobs))]
    run = run_trace(text, arrivals, nodes(4, 8))
    for came in arrivals:
        assert run.first_starts[came.job.id] == came.at
        assert run.ends_at[came.job.id] == pytest.approx(came.at + came.work_s)


# ------------------------------------------------------------------- when two policies are the same

JOBS = st.lists(
    st.tuples(st.integers(0, 30).map(float), st.integers(1, 60).map(float), st.integers(1, 8)),
    min_size=1,
    max_size=12,
)


def of(jobs: list[tuple[float, float, int]], **rest: Any) -> list[Arrival]:
    return [arrival(f"j{i}", at, work_s, gpus, **rest) for i, (at, work_s, gpus) in enumerate(jobs)]


def schedule(text: str, arrivals: list[Arrival], cluster: Sequence[Node] = nodes(2, 4)) -> Any:
    run = run_trace(text, sorted(arrivals, key=lambda a: a.at), cluster)
    return {job_id: (track.first_start_at, track.ended_at) for job_id, track in run.ended.items()}


@given(jobs=JOBS)
def test_round_robin_with_an_endless_slice_is_fifo_skip(jobs: Any) -> None:
    assert schedule("round-robin:slice_s=1e12", of(jobs)) == schedule("fifo-skip", of(jobs))


@given(jobs=JOBS)
def test_tiresias_with_one_queue_is_fifo_skip(jobs: Any) -> None:
    assert schedule("tiresias:queues=1:limits=", of(jobs)) == schedule("fifo-skip", of(jobs))


@given(jobs=JOBS)
def test_priority_among_equals_is_fifo_skip(jobs: Any) -> None:
    assert schedule("priority", of(jobs, priority=3.0)) == schedule("fifo-skip", of(jobs))


@given(jobs=JOBS)
def test_edf_without_deadlines_is_fifo_skip(jobs: Any) -> None:
    assert schedule("edf", of(jobs)) == schedule("fifo-skip", of(jobs))


@given(jobs=JOBS)
def test_srtf_among_equal_sizes_is_fifo_skip(jobs: Any) -> None:
    jobs = [(at, 10.0, 2) for at, _, _ in jobs]
    assert schedule("srtf", of(jobs)) == schedule("fifo-skip", of(jobs))


@given(jobs=JOBS)
def test_sjf_among_equal_durations_is_fifo(jobs: Any) -> None:
    jobs = [(at, 10.0, gpus) for at, _, gpus in jobs]
    assert schedule("sjf", of(jobs)) == schedule("fifo", of(jobs))


@given(jobs=JOBS)
def test_psjf_and_srtf_agree_when_all_come_together_and_run_alone(jobs: Any) -> None:
    jobs = [(0.0, work_s, 8) for _, work_s, _ in jobs]
    assert schedule("psjf", of(jobs)) == schedule("srtf", of(jobs)) == schedule("sjf", of(jobs))


@given(jobs=JOBS)
def test_qssf_that_believes_all_durations_equal_takes_the_smallest_gang_first(jobs: Any) -> None:
    together = [(0.0, work_s, gpus) for _, work_s, gpus in jobs]
    run = run_trace("qssf:predictor=user-estimate", of(together), nodes(1, 8))
    started = [entry.job_id for entry in run.of(Start)]
    assert started == [f"j{i}" for i in sorted(range(len(jobs)), key=lambda i: (jobs[i][2], i))]


@given(jobs=JOBS)
def test_qssf_that_knows_the_truth_takes_the_least_service_first(jobs: Any) -> None:
    together = [(0.0, work_s, gpus) for _, work_s, gpus in jobs]
    run = run_trace("qssf", of(together), nodes(1, 8))
    started = [entry.job_id for entry in run.of(Start)]
    least = sorted(range(len(jobs)), key=lambda i: (jobs[i][1] * jobs[i][2], i))
    assert started == [f"j{i}" for i in least]


@given(jobs=JOBS)
def test_tiresias_with_very_many_queues_is_las_up_to_the_order_of_equals(jobs: Any) -> None:
    jobs = [(0.0, work_s, 1) for _, work_s, _ in jobs]
    limits = "/".join(str(limit) for limit in range(1, 61))
    ladder = schedule(f"tiresias:queues=61:limits={limits}", of(jobs), nodes(1, 1))
    las = schedule("las:quantum=1", of(jobs), nodes(1, 1))
    for job_id, (_, end) in las.items():
        assert ladder[job_id][1] == pytest.approx(end, abs=1.0 * len(jobs))


@given(jobs=JOBS)
def test_every_policy_that_never_idles_has_the_same_makespan_on_one_gpu(jobs: Any) -> None:
    jobs = [(at, work_s, 1) for at, work_s, _ in jobs]
    spans = {
        text: max(end for _, end in schedule(text, of(jobs), nodes(1, 1)).values())
        for text in ("fifo", "srtf", "las:quantum=5", "round-robin:slice_s=3", "sjf", "easy")
    }
    assert max(spans.values()) == pytest.approx(min(spans.values())), spans


def test_the_short_texts_cover_every_registered_policy() -> None:
    assert {text.split(":")[0] for text in TEXTS} == set(BUILTIN)


# --------------------------------------------------------------------------- the contract has teeth


@dataclass(frozen=True)
class Forgetful:
    """Never starts anything."""

    def decide(self, view: View) -> Sequence[Action]:
        return ()


@dataclass
class Moody:
    """Remembers how often it was asked."""

    asked: int = 0

    def decide(self, view: View) -> Iterable[Action]:
        self.asked += 1
        return FifoSkip().decide(view) if self.asked % 2 else ()


@dataclass(frozen=True)
class Greedy:
    """Puts every job on the first GPU of the first node, whoever is there already."""

    def decide(self, view: View) -> Sequence[Action]:
        plan = Plan(view, lambda room, shape: room.single(0, 1))
        waiting = [track for track in view.tracks.values() if track.placement is None]
        for track in waiting:
            plan.start(track)
        return plan.actions


def test_the_contract_accepts_a_policy_from_outside() -> None:
    check_policy(FifoSkip, worlds=5)


@pytest.mark.parametrize("kind", [Forgetful, Moody, Greedy])
def test_the_contract_rejects_a_policy_that_breaks_it(kind: type[Any]) -> None:
    with pytest.raises((AssertionError, DovetailError)):
        check_policy(kind)
