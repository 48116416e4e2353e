"""The loop: what is decided for what happened."""

from collections.abc import Iterable, Sequence

from dovetail.core.entries import Action, Event, NodeJoined, Reported, Started, Submitted, Wake
from dovetail.core.loop import run
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.core.view import REPORTS, View
from dovetail.policies.queueing import Fifo
from dovetail.testing import job


class Told:
    """A world that tells what it was given."""

    def __init__(self, *turns: Sequence[Event]) -> None:
        self._turns = list(turns)
        self.acted: list[Action] = []

    def observe(self) -> Sequence[Event]:
        return self._turns.pop(0) if self._turns else ()

    def act(self, action: Action) -> None:
        self.acted.append(action)


class Counting:
    """Decides as `fifo` does, asks to be woken, and counts how often it is asked."""

    def __init__(self, spec: "Watching | None" = None) -> None:
        self._policy = Fifo()
        self._spec = spec
        self.asked = 0

    def decide(self, view: View) -> Iterable[Action]:
        self.asked += 1
        if self._spec is not None:
            view.index(self._spec)
        return [*self._policy.decide(view), Wake(view.now + 60.0)]


class Watching:
    """An index of a policy that heeds reports of one job."""

    watches = REPORTS

    def build(self, view: View) -> "Watching":
        return self

    def reports(self, track: Track, entry: Reported) -> bool:
        return track.job.id == "heeded"


BEGIN: tuple[Event, ...] = (
    NodeJoined(0.0, Node("n", 2)),
    Submitted(0.0, job("heeded")),
    Submitted(0.0, job("other")),
)


def report(job_id: str, at: float) -> Reported:
    return Reported(at, JobId(job_id), 1.0, {}, 1)


def test_nothing_is_decided_again_for_reports_that_nobody_heeds() -> None:
    policy, state = Counting(), State()
    reports = [report("heeded", 2.0), report("other", 2.0)]
    world = Told(BEGIN, [Started(1.0, JobId("heeded"))], reports, [report("other", 3.0)])
    run(world, [policy], state)
    assert policy.asked == 2
    assert state.now == 3.0
    assert state.tracks[JobId("other")].step == 1.0
    assert [action.at for action in world.acted if isinstance(action, Wake)] == [60.0, 61.0]


def test_a_report_beside_anything_else_is_decided_for() -> None:
    policy = Counting()
    run(Told(BEGIN, [report("other", 2.0), Submitted(2.0, job("new"))]), [policy], State())
    assert policy.asked == 2


def test_a_policy_that_watches_reports_is_asked_for_those_it_heeds() -> None:
    policy = Counting(Watching())
    turns = ([report("other", 2.0)], [report("heeded", 3.0), report("other", 3.0)])
    run(Told(BEGIN, *turns), [policy], State())
    assert policy.asked == 2


def test_reports_recorded_before_the_loop_began_do_not_keep_it_from_deciding() -> None:
    policy, state = Counting(), State()
    for event in (*BEGIN, report("other", 1.0)):
        state.record(event)
    run(Told([Submitted(2.0, job("new"))]), [policy], state)
    assert policy.asked == 1
