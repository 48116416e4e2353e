from dataclasses import replace

from dovetail.core.entries import (
    NodeJoined,
    Note,
    Reported,
    Resize,
    Start,
    Started,
    Submitted,
    Wake,
    Woke,
)
from dovetail.core.model import Interruption, Job, Node
from dovetail.core.state import State
from dovetail.models.goodput import BatchRange, GradientNoise, StepTimes
from dovetail.models.goodput_agent import BatchAgent
from dovetail.models.goodput_fit import SeenStep
from dovetail.policies.goodput.node_parts import dealt_out
from dovetail.policies.goodput.pollux import Pollux
from dovetail.policies.pop import InParts
from dovetail.policies.registry import batches_under
from dovetail.policies.rounds import turn
from dovetail.policies.solving import Solving
from dovetail.testing import arrival, job, nodes, placement, run_trace

GOOD = StepTimes(0.1, 0.01, 0.02, 0.001, 0.005, 0.001, 2.0)
BAD = replace(GOOD, alpha_n=5.0, alpha_r=5.0)  # synchronising takes far longer than computing
BATCHES = BatchRange(initial=32, largest=512, local_least=4, local_most=64)
RESTART = Interruption(0.0, 30.0, 0.0)


def elastic(name: str, most: int = 8) -> Job:
    return job(name, 1, min_gpus=1, max_gpus=most, interruption=RESTART)


def told(times: StepTimes) -> dict[str, float | str]:
    agent = BatchAgent()
    for gpus, local in ((1, 32), (2, 32), (4, 16), (4, 32)):
        seen = float(times.computing(local)), float(times.step(1, gpus, local, 0))
        agent.saw("gpu", SeenStep(1, gpus, local, *seen), GradientNoise(1.0, 400.0), BATCHES)
    return agent.told()


def running(own: Job, node: int, gpus: int, metrics: dict[str, float | str]) -> list[object]:
    mask = placement((node, (1 << gpus) - 1))
    return [
        Submitted(0.0, own),
        Start(own.id, mask),
        Started(0.0, own.id),
        Reported(0.0, own.id, 1.0, metrics),
    ]


def state_of(*entries: object) -> State:
    state = State()
    for n in range(2):
        state.record(NodeJoined(0.0, Node(f"n{n}", 4)))
    for entry in entries:
        state.record(entry)  # type: ignore[arg-type]
    return state


def gpus_given(run_entries: object) -> list[tuple[float, str, int]]:
    assert isinstance(run_entries, list)
    given = [(at, one) for at, one in run_entries if isinstance(one, Start | Resize)]
    return [(at, one.job_id, one.placement.gpus) for at, one in given]


def test_jobs_are_started_at_whole_rounds_and_not_in_between() -> None:
    arrivals = [
        arrival("a", 7.0, 30.0, 1),
        arrival("b", 70.0, 10.0, 1),
        arrival("c", 500.0, 1.0, 1),
    ]
    run = run_trace("pollux", arrivals, nodes(1, 2))
    assert run.first_starts == {"a": 60.0, "b": 120.0, "c": 540.0}


def test_a_round_is_decided_once_and_the_next_is_remembered() -> None:
    state = state_of(Submitted(120.0, elastic("a")))
    due, notes = turn(state, "pollux", 60.0)
    assert due
    assert [one.at for one in notes if isinstance(one, Wake)] == [180.0]
    for note in notes:
        if isinstance(note, Note):
            state.record(note)
    assert not turn(state, "pollux", 60.0).due


def test_a_job_begins_with_one_gpu_and_never_gets_more_than_twice_what_it_had() -> None:
    run = run_trace("pollux", [arrival("a", 0.0, 2000.0, 1, min_gpus=1, max_gpus=8)], nodes(2, 4))
    assert [gpus for _, _, gpus in gpus_given(run.entries)] == [1, 2, 4, 8]


def test_gpus_go_to_the_job_whose_goodput_grows_with_them() -> None:
    entries = running(elastic("good"), 0, 4, told(GOOD)) + running(elastic("bad"), 1, 4, told(BAD))
    state = state_of(*entries, Reported(6000.0, elastic("good").id, 2.0, {}))
    given = gpus_given([(0.0, one) for one in Pollux().decide(state)])
    assert {job_id: gpus for _, job_id, gpus in given} == {"bad": 1, "good": 7}


def test_a_young_job_is_not_restarted_for_little() -> None:
    entries = running(elastic("good"), 0, 4, told(GOOD)) + running(elastic("bad"), 1, 4, told(BAD))
    state = state_of(*entries, Reported(60.0, elastic("good").id, 2.0, {}))
    assert gpus_given([(0.0, one) for one in Pollux().decide(state)]) == []


def test_rigid_jobs_and_shares_find_their_place_beside_elastic_ones() -> None:
    arrivals = [
        arrival("elastic", 0.0, 600.0, 1, min_gpus=1, max_gpus=8),
        arrival("rigid", 0.0, 50.0, 6),
        arrival("share", 0.0, 50.0, 1, share=500),
    ]
    run = run_trace("pollux", arrivals, nodes(2, 4))
    assert set(run.ends_at) == {"elastic", "rigid", "share"}
    assert run.first_starts["share"] == 0.0


def test_in_parts_nodes_that_share_a_job_stay_together_and_all_is_dealt_out() -> None:
    state = State()
    for n in range(8):
        state.record(NodeJoined(0.0, Node(f"n{n}", 4)))
    for name, row in (("a", [(0, 15), (5, 15)]), ("b", [(1, 1)]), ("c", [(2, 3)])):
        own = elastic(name)
        for entry in (Submitted(0.0, own), Start(own.id, placement(*row)), Started(0.0, own.id)):
            state.record(entry)
    for n in range(9):
        state.record(Submitted(0.0, elastic(f"w{n}")))
    state.record(Woke(600.0))
    tracks = list(state.tracks.values())
    parts = dealt_out(state.room, tracks, range(8), 3)
    assert sorted(n for part in parts for n in part.nodes) == list(range(8))
    assert sorted(t.job.id for part in parts for t in part.tracks) == sorted(state.tracks)
    assert next(part for part in parts if 0 in part.nodes) is next(p for p in parts if 5 in p.nodes)
    assert max(part.gpus for part in parts) - min(part.gpus for part in parts) <= 4
    assert max(len(part.tracks) for part in parts) <= 5
    found = list(InParts(policy=Pollux(), k=3).decide(state))
    assert len([one for one in found if isinstance(one, Start)]) == 9


def test_pop_solves_beside_the_loop_as_its_policy_does() -> None:
    assert isinstance(InParts(policy=Pollux(), k=2), Solving)
    assert batches_under("pop:k=2:policy=pollux") == batches_under("pollux") == "adaptive"
    assert batches_under("flex") == "shared"
    assert batches_under("fifo") == "fixed"
