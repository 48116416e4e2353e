"""Whatever a policy decides, the state refuses what cannot be: drafted on the book, or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from contracts_texts import TEXTS
from dovetail.core.entries import Action, Start
from dovetail.core.errors import IllegalEntry
from dovetail.core.loop import Policy
from dovetail.core.model import Node, Placement, Slice
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.models.workload import Arrival
from dovetail.testing import World, fingerprint, job, policy_for
from dovetail.testing.runs import PolicyRun, go_on, replay

OLD, THEIRS = 2, 3  # nodes that no job of this world may use
CLUSTER = [
    *(Node(f"n{i}", 4) for i in range(2)),
    Node("old", 4, "old"),
    Node("theirs", 4, tenant="them"),
]
# More pairs than there is room for: some start, some wait, and all could be confused.
WORLD = World(
    [Arrival(0.0, job(f"j{i}", 2, kinds=("gpu",), deadline=11.0), 10.0) for i in range(7)], CLUSTER
)

Spoil = Callable[[View, Sequence[Action], int], list[Action]]


def twice(view: View, actions: Sequence[Action], i: int) -> list[Action]:
    """The GPUs of the one that starts for another that waits."""
    start = actions[i]
    assert isinstance(start, Start)
    started = {action.job_id for action in actions if isinstance(action, Start)}
    others = [t for t in view.tracks.values() if t.placement is None and t.job.id not in started]
    return [*actions[: i + 1], Start(others[0].job.id, start.placement)] if others else []


def _instead(number: Callable[[Start], Placement]) -> Spoil:
    def spoilt(_: View, actions: Sequence[Action], i: int) -> list[Action]:
        start = actions[i]
        assert isinstance(start, Start)
        return [*actions[:i], Start(start.job_id, number(start)), *actions[i + 1 :]]

    return spoilt


SPOILT: dict[str, tuple[Spoil, str]] = {
    # A policy that promises deadlines has refused the other one.
    "a GPU given twice": (twice, "free|ended .refused."),
    "a wrong kind": (_instead(lambda start: Placement((Slice(OLD, 0b11),))), "of kind 'old'"),
    "another tenant's node": (
        _instead(lambda start: Placement((Slice(THEIRS, 0b11),))),
        "for tenant 'them' alone",
    ),
    "half a gang": (
        _instead(lambda start: Placement((Slice(start.placement.slices[0].node, 0b1),))),
        "with 1 GPUs",
    ),
}


class Meddling:
    """A policy whose first decision that starts a job is spoilt on its way to the state."""

    def __init__(self, policy: Policy, spoil: Spoil, drafted: bool, state: State) -> None:
        self._policy, self._spoil, self._drafted, self._state = policy, spoil, drafted, state
        self.meddled = False

    def decide(self, view: View) -> Sequence[Action]:
        actions = list(self._policy.decide(view))
        starts = [i for i, action in enumerate(actions) if isinstance(action, Start)]
        spoilt = self._spoil(view, actions, starts[0]) if starts else []
        if not spoilt:
            return actions
        self.meddled = True
        if not self._drafted:
            self._state.settle()  # nothing is left of what the policy has tried out
        return spoilt


@pytest.mark.parametrize("drafted", [True, False], ids=["drafted", "not drafted"])
@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize("text", TEXTS)
def test_an_illegal_action_is_refused_whoever_decides(text: str, what: str, drafted: bool) -> None:
    spoil, says = SPOILT[what]
    so_far = PolicyRun()
    policy: Any = Meddling(policy_for(WORLD, text), spoil, drafted, so_far.state)
    with pytest.raises(IllegalEntry, match=says):
        go_on(WORLD.cluster(), policy, so_far)
    assert policy.meddled
    so_far.state.settle()
    assert fingerprint(so_far.state) == fingerprint(replay(so_far.text.splitlines())), (
        "what was refused has left nothing behind"
    )
