"""Speeds as jobs of a model were seen to go."""

from dovetail.core.entries import NodeJoined, Paced, Start, Started, Submitted
from dovetail.core.model import Job, JobId, Node
from dovetail.core.state import State
from dovetail.predict.seen import AsSeen
from dovetail.testing import job, placement


class Believed:
    """The new kind is twice as fast as the old one."""

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return {"new": 1.0, "old": 0.5}[kind]


def test_a_kind_that_was_seen_is_known_and_another_is_believed_in_proportion() -> None:
    state = State()
    seen = AsSeen(state, Believed())
    own = job("j", model="resnet50")
    for entry in (NodeJoined(0.0, Node("n", 1, "old")), Submitted(0.0, own)):
        state.record(entry)
    assert seen.speed(own, "old", 1, 1) == 0.5
    state.record(Start(JobId("j"), placement((0, 1))))
    state.record(Started(0.0, JobId("j")))
    state.record(Paced(0.0, JobId("j"), 0.8))
    assert seen.speed(own, "old", 1, 1) == 0.8
    assert abs(seen.speed(own, "new", 1, 1) - 1.6) < 1e-9
    assert seen.speed(job("k", model="other"), "old", 1, 1) == 0.5
