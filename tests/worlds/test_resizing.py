"""Jobs that grow, shrink and move in the simulated world: what that costs, and that all adds up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any

import pytest

from dovetail.core.entries import (
    Action,
    Paced,
    Reported,
    Resize,
    Start,
    Started,
    Wake,
)
from dovetail.core.journal import Journal
from dovetail.core.loop import run
from dovetail.core.model import Interruption, JobId, Node, Placement, Seconds
from dovetail.core.plan import Plan
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.models.course import Course, Milestone, Told
from dovetail.models.speed import by_kind_and_placement
from dovetail.models.workload import Arrival
from dovetail.policies.placement import consolidated
from dovetail.testing import Audit, arrival, fingerprint, nodes, placement
from dovetail.testing.audit_work import check_work
from dovetail.worlds.simulated import SimulatedCluster

LINEAR = by_kind_and_placement({}, scaling=1.0)


@dataclass(frozen=True)
class Script:
    """Does at each time what is written for it."""

    steps: Mapping[float, Sequence[Any]]

    def decide(self, view: View) -> Iterator[Action]:
        yield from self.steps.get(view.now, ())
        later = [at for at in self.steps if at > view.now]
        if later:
            yield Wake(min(later))


def played(
    arrivals: Sequence[Arrival], steps: Mapping[float, Sequence[Any]]
) -> list[tuple[Seconds, Any]]:
    told: list[tuple[Seconds, Any]] = []
    journal = Journal(lambda entries, times: told.extend(zip(times, entries, strict=True)))
    world = SimulatedCluster(nodes(2, 4), arrivals, speed=LINEAR)
    run(world, [Script(steps)], State(), journal)
    journal.flush()
    Audit().read(told)
    return told


def test_a_job_that_grows_does_nothing_while_it_is_saved_and_restored() -> None:
    job = arrival("j", 0.0, 100.0, 2, min_gpus=1, max_gpus=4, interruption=Interruption(3.0, 5.0))
    steps: dict[float, list[Any]] = {
        0.0: [Start(JobId("j"), placement((0, 0b11)))],
        20.0: [Resize(JobId("j"), placement((0, 0b1111)))],
    }
    told = played([job], steps)
    # 20 s of work done; saved and restored until 28; then 80 s of work at twice the speed
    assert told[-1][0] == 28.0 + 40.0
    assert [at for at, entry in told if isinstance(entry, Started)] == [0.0, 28.0]
    assert [(at, entry.speed) for at, entry in told if isinstance(entry, Paced)] == [(28.0, 2.0)]


def test_whoever_gets_its_old_gpus_waits_until_it_is_saved() -> None:
    shrinks = arrival("j", 0.0, 100.0, 4, min_gpus=2, interruption=Interruption(3.0, 5.0))
    steps: dict[float, list[Any]] = {
        0.0: [Start(JobId("j"), placement((0, 0b1111)))],
        20.0: [
            Resize(JobId("j"), placement((0, 0b11))),
            Start(JobId("next"), placement((0, 0b1100))),
        ],
    }
    told = played([shrinks, arrival("next", 10.0, 10.0, 2)], steps)
    ends = {entry.job_id: at for at, entry in told if entry.tag == "finished"}
    assert ends == {"next": 33.0, "j": 28.0 + 80.0 / 0.5}


def test_without_a_cost_it_goes_on_at_once() -> None:
    steps: dict[float, list[Any]] = {
        0.0: [Start(JobId("j"), placement((0, 0b1)))],
        10.0: [Resize(JobId("j"), placement((1, 0b1111)))],
    }
    told = played([arrival("j", 0.0, 50.0, max_gpus=4)], steps)
    assert told[-1][0] == 20.0


# -------------------------------------------------------------------------------------------- chance


@dataclass(frozen=True)
class Restless:
    """Starts and resizes by chance whatever can be; so that every job ends, less and less often."""

    seed: int

    def decide(self, view: View) -> list[Action]:
        chance, plan = (
            Random(f"{self.seed}/{view.now!r}/{len(view.tracks)}"),
            Plan(view, consolidated),
        )
        for track in list(view.running.values()):
            if not track.pinned and chance.random() < 5.0 / (10.0 + view.now):
                gpus = chance.randint(track.job.least_gpus, track.job.most_gpus)
                found = consolidated(view.room, track.shape.sized(gpus))
                if found is not None:
                    plan.resize(track, found)
        for track in view.tracks.values():
            if track.placement is None and not track.barred:
                gpus = chance.randint(track.job.least_gpus, track.job.most_gpus)
                found = consolidated(view.room, track.shape.sized(gpus)) or plan.place(track)
                if found is not None:
                    plan.start_at(track, found)
        return [*plan.actions, Wake(view.now + 7.0)] if view.tracks else plan.actions


def _elastic(chance: Random, number: int) -> Arrival:
    gpus = chance.choice([1, 2, 3, 4])
    cost = chance.choice([Interruption(), Interruption(0.0, 2.0), Interruption(1.5, 0.5)])
    least, most = chance.choice([1, gpus]), gpus + chance.choice([0, 1, 4])
    cpus, failures = chance.choice([0.0, 0.0, 1.5 * gpus]), chance.choice([(), (), (3.0,)])
    came = arrival(
        f"j{number}", chance.choice([0.0, 4.0, 9.5]), chance.choice([5.0, 40.0, 90.0]), gpus
    )
    asked = replace(
        came.job, min_gpus=least, max_gpus=most, cpus=cpus, interruption=cost, retries=1
    )
    return replace(came, job=asked, failures=failures)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_resized_the_books_agree_and_replay_gives_the_state(seed: int) -> None:
    chance = Random(seed)
    arrivals = sorted((_elastic(chance, i) for i in range(8)), key=lambda one: one.at)
    cluster = [Node(f"n{i}", 4, cpus=chance.choice([inf, 6.0])) for i in range(3)]
    told: list[tuple[Seconds, Any]] = []
    journal = Journal(lambda entries, times: told.extend(zip(times, entries, strict=True)))
    state = State(past=100)
    run(SimulatedCluster(cluster, arrivals, speed=LINEAR), [Restless(seed)], state, journal)
    journal.flush()
    assert not state.tracks
    audit = Audit().read(told)
    check_work(audit.work, {one.job.id: one.work_s for one in arrivals})
    assert audit.busy_gpu_s == pytest.approx(sum(track.held_gpu_s for track in state.past))
    again = State(past=100)
    for _, entry in told:
        again.record(entry)
    assert fingerprint(again) == fingerprint(state)
    assert any(isinstance(entry, Resize) for _, entry in told) or seed


# ------------------------------------------------------------------------------------------- courses


@dataclass
class Halves:
    """The first half of the work at the speed of its GPUs, the second twice as fast; it tells of the
    half, and needs 2 s to get going each time."""

    done_s: float = 0.0
    began: float = 0.0
    gpus: int = 0
    heeds_leaving = False

    @property
    def speed(self) -> float:
        return self.gpus * (1.0 if self.done_s < 50.0 else 2.0)

    def begin(self, at: Seconds, placement: Placement, nodes: Sequence[Node]) -> Milestone:
        self.began, self.gpus = at + 2.0, placement.gpus
        return self._next()

    def _next(self) -> Milestone:
        goal = 50.0 if self.done_s < 50.0 else 100.0
        return Milestone(self.began + (goal - self.done_s) / self.speed, goal == 100.0)

    def meet(self, others: Sequence[Course | None], rate: float) -> None:
        """As fast beside others as alone."""

    def reach(self, at: Seconds) -> tuple[Told, Milestone]:
        self.done_s, self.began = 50.0, at
        return Told(1.0, {"loss": 0.5}), self._next()

    def halt(self, at: Seconds) -> Seconds:
        did = max(at - self.began, 0.0) * self.speed
        self.done_s += did
        return did

    def lose(self, work_s: Seconds) -> None:
        self.done_s -= work_s


def test_a_course_says_when_it_ends_what_it_tells_and_how_fast_it_goes() -> None:
    job = replace(arrival("j", 0.0, 100.0, max_gpus=4), course=Halves)
    steps: dict[float, list[Any]] = {
        0.0: [Start(JobId("j"), placement((0, 0b1)))],
        12.0: [Resize(JobId("j"), placement((0, 0b11)))],
    }
    told = played([job], steps)
    # 10 s of work by 12; going again at 14, 40 more by 34 on two GPUs; the rest by 46.5
    assert [at for at, entry in told if isinstance(entry, Reported)] == [34.0]
    assert [entry.speed for _, entry in told if isinstance(entry, Paced)] == [2.0, 4.0]
    assert told[-1][0] == 34.0 + 12.5
