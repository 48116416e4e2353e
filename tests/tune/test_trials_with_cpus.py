"""Trials that ask for CPUs take turns also on nodes that keep those of suspended ones."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.entries import (
    NodeDraining,
    NodeJoined,
    Preempt,
    Saved,
    Start,
    Started,
)
from dovetail.core.model import JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.policies.queueing import FifoSkip
from dovetail.testing import placement
from dovetail.tune.live import Exchanging
from dovetail.tune.rules import Verdict
from dovetail.tune.study import Study, Trial
from study_state import Lived, design


@dataclass(frozen=True)
class Picks:
    """A rule that wants these trials most."""

    numbers: tuple[int, ...]

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        wanted = [study.trials[number] for number in self.numbers]
        waiting = [trial for trial in wanted if trial in study.waiting()]
        return next(iter(waiting), leaving) or next(iter(study.waiting()), None)


def at_step(*picks: int, cpus: float = 8.0, gpus: int = 1) -> tuple[Lived, Exchanging]:
    """Four trials of a GPU and two CPUs each; the first ones are at work, and the first has made a
    step."""
    lived, exchange = Lived(gpus=0), Exchanging(FifoSkip(), lambda text: Picks(picks))
    lived.record(NodeJoined(0.0, Node("pods", gpus, cpus=cpus, keeps=True)))
    lived.open(design(), cpus=2.0)
    for number in range(gpus):
        start(lived, number, gpu=number)
    list(exchange.decide(lived.state))
    lived.state.settle()
    lived.report("s1.0", 1, 0.5, 1.0)
    return lived, exchange


def start(lived: Lived, number: int, gpu: int = 0, node: int = 1) -> None:
    job_id = JobId(f"s1.{number}")
    lived.record(Start(job_id, placement((node, 1 << gpu))), Started(lived.now, job_id))


def suspend(lived: Lived, number: int, tied: bool | None = None) -> None:
    job_id = JobId(f"s1.{number}")
    lived.record(Preempt(job_id), Saved(lived.now, job_id, "freeze", 0.1, 1, True, tied=tied))


def carried_out(lived: Lived, exchange: Exchanging) -> list[str]:
    """All of it is allowed."""
    actions = list(exchange.decide(lived.state))
    lived.state.settle()
    lived.record(*actions)
    return [f"{action.tag} {getattr(action, 'job_id', '')}" for action in actions]


def test_one_that_has_not_begun_takes_the_place_of_one_that_has() -> None:
    lived, exchange = at_step(2)
    assert carried_out(lived, exchange) == ["preempt s1.0", "start s1.2"]


def test_not_where_its_cpus_are_kept_by_suspended_ones() -> None:
    lived, exchange = at_step(2, cpus=3.0)
    assert carried_out(lived, exchange) == []


def test_a_suspended_one_needs_none_there() -> None:
    lived, exchange = at_step(1, cpus=4.0)
    suspend(lived, 0)
    start(lived, 1)
    suspend(lived, 1)
    start(lived, 0)
    lived.report("s1.0", 2, 0.4, 2.0)
    assert carried_out(lived, exchange) == ["preempt s1.0", "start s1.1"]


def test_two_new_ones_do_not_count_on_the_same_cpus() -> None:
    lived, exchange = at_step(2, 3, cpus=7.0, gpus=2)
    lived.report("s1.1", 1, 0.5, 1.0)
    assert carried_out(lived, exchange) == ["preempt s1.0", "start s1.2"]


def test_a_slot_that_opens_goes_to_one_whose_cpus_are_there() -> None:
    lived, exchange = at_step(2, cpus=3.0)
    suspend(lived, 0)
    assert carried_out(lived, exchange) == ["start s1.0"]
    wide, exchange = at_step(2)
    suspend(wide, 0)
    assert carried_out(wide, exchange) == ["start s1.2"]


def test_one_that_can_go_on_only_on_a_closed_node_is_not_tried_elsewhere() -> None:
    lived, exchange = at_step(0, 2)
    lived.record(NodeJoined(lived.now, Node("another", 1, cpus=8.0, keeps=True)))
    start(lived, 1, node=2)
    suspend(lived, 0, tied=True)
    lived.record(NodeDraining(lived.now, "pods"))
    list(exchange.decide(lived.state))
    lived.state.settle()
    lived.report("s1.1", 1, 0.5, lived.now)
    assert carried_out(lived, exchange) == ["preempt s1.1", "start s1.2"]


def test_a_trial_that_cannot_move_is_like_the_others_to_policies_also_after_a_restart() -> None:
    lived, _ = at_step(1)
    start_of_another = lived.state.tracks[JobId("s1.1")].shape
    suspend(lived, 0, tied=True)
    for state in (lived.state, restore(take(lived.state), 10)):
        assert state.tracks[JobId("s1.0")].shape.home == start_of_another.home == ()


def test_nor_is_one_that_only_has_to_end() -> None:
    lived, exchange = at_step(1)
    lived.report("s1.0", 5, 0.4, 2.0)
    list(exchange.decide(lived.state))
    lived.state.settle()
    suspend(lived, 0, tied=True)
    lived.record(NodeJoined(lived.now, Node("another", 1, cpus=8.0, keeps=True)))
    lived.record(NodeDraining(lived.now, "pods"))
    assert carried_out(lived, exchange) == ["start s1.1"]
