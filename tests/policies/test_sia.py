from dataclasses import dataclass

from dovetail.core.entries import NodeJoined, Reported, Resize, Start, Started, Submitted
from dovetail.core.model import Interruption, Job, Node
from dovetail.core.state import State
from dovetail.models.goodput import BatchRange, GradientNoise, StepTimes
from dovetail.models.goodput_agent import BatchAgent
from dovetail.models.goodput_fit import SeenStep
from dovetail.policies.goodput.sia import Sia
from dovetail.testing import arrival, job, nodes, placement, run_trace

TIMES = StepTimes(0.1, 0.01, 0.02, 0.001, 0.005, 0.001, 2.0)
BATCHES = BatchRange(initial=32, largest=512, local_least=4, local_most=64)


@dataclass(frozen=True)
class FourTimesOnFast:
    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return gpus * (4.0 if kind == "fast" else 1.0)


def told() -> dict[str, float | str]:
    agent = BatchAgent()
    for gpus, local in ((1, 32), (2, 32), (2, 16)):
        seen = float(TIMES.computing(local)), float(TIMES.step(1, gpus, local, 0))
        agent.saw("slow", SeenStep(1, gpus, local, *seen), GradientNoise(1.0, 400.0), BATCHES)
    return agent.told()


def test_a_job_that_has_told_of_one_kind_goes_to_the_one_believed_to_be_faster() -> None:
    own = job("a", 1, min_gpus=1, max_gpus=8, interruption=Interruption(0.0, 30.0, 0.0))
    state = State()
    for entry in (
        NodeJoined(0.0, Node("s", 4, kind="slow")),
        NodeJoined(0.0, Node("f", 4, kind="fast")),
        Submitted(0.0, own),
        Start(own.id, placement((0, 3))),
        Started(0.0, own.id),
        Reported(6000.0, own.id, 1.0, told()),
    ):
        state.record(entry)
    (moved,) = [
        one for one in Sia(speeds=FourTimesOnFast()).decide(state) if isinstance(one, Resize)
    ]
    assert moved.placement.slices == placement((1, 15)).slices


def test_counts_are_powers_of_two_in_a_node_and_then_whole_nodes() -> None:
    run = run_trace("sia", [arrival("a", 0.0, 2000.0, 1, min_gpus=1, max_gpus=16)], nodes(3, 4))
    given = [one for _, one in run.entries if isinstance(one, Start | Resize)]
    assert [one.placement.gpus for one in given] == [1, 2, 4, 8, 12]
    assert [len(one.placement.slices) for one in given] == [1, 1, 1, 2, 3]


def test_of_rigid_jobs_on_one_kind_as_many_start_as_fit() -> None:
    sizes = {"a": 4, "b": 3, "c": 3, "d": 2, "e": 1}
    arrivals = [arrival(name, 0.0, 100.0, gpus) for name, gpus in sizes.items()]
    run = run_trace("sia", arrivals, nodes(1, 6))
    assert sum(at == 0.0 for at in run.first_starts.values()) == 3
