"""What policies say of who goes first is what they do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from dovetail.catalogue import settable
from dovetail.core.entries import Finished, NodeJoined, Start, Submitted, Wake, Woke
from dovetail.core.model import Estimate, Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.active_policy import make
from dovetail.policies.registry import BUILTIN, find
from dovetail.testing import job

SAYS = [name for name in BUILTIN if hasattr(make(name), "ahead")]
PREDICTED = "predictor=user-estimate"


def text_of(name: str) -> str:
    """What `history-mean` believes of a job is what it knew when that came: here they all say it."""
    if "predictor" in settable(find(name)):
        return f"{name}:{PREDICTED}"
    within = getattr(find(name), "usual_policy", None)
    asks = within is not None and "predictor" in settable(find(within))
    return f"{name}:policy={within}/{PREDICTED}" if asks else name


def one_busy_gpu(seed: int, waiting: int = 7) -> State:
    """A job of zed has the only GPU; others of all sorts wait for it."""
    chance = Random(seed)
    state = State()
    state.record(NodeJoined(0.0, Node("box", 1)))
    state.record(Submitted(0.0, job("holder", user="zed")))
    state.record(Start(JobId("holder"), Placement((Slice(0, 1),))))
    for i in range(waiting):
        state.record(Submitted(1.0 + i, _some_job(str(i), chance)))
    return state


def _some_job(job_id: str, chance: Random) -> Job:
    return Job(
        JobId(job_id),
        user=chance.choice(["ana", "bob", "cyd", "zed"]),
        priority=float(chance.randrange(3)),
        deadline=chance.choice([None, 500.0, 900.0]),
        estimate=Estimate(float(chance.choice([60, 60, 600, 6000]))),
    )


def ahead_of(policy: Any, state: State, track: Track, waiting: Sequence[Track]) -> list[JobId]:
    return [t.job.id for group in policy.ahead(state, track, waiting) for t in group.tracks]


def waiting_in(state: State) -> list[Track]:
    return [track for track in state.tracks.values() if track.placement is None]


def started_next(policy: Any, state: State) -> list[JobId]:
    """At once, or in its next round."""
    actions = list(policy.decide(state))
    wakes = [own.at for own in actions if isinstance(own, Wake)]
    if wakes and not any(isinstance(own, Start) for own in actions):
        state.settle()
        state.record(Woke(min(wakes)))
        actions = list(policy.decide(state))
    return [own.job_id for own in actions if isinstance(own, Start)]


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("seed", range(5))
def test_who_is_ahead_waits_too_and_nobody_is_ahead_of_each_other(name: str, seed: int) -> None:
    state = one_busy_gpu(seed)
    policy, waiting = make(text_of(name)), waiting_in(state)
    found = {track.job.id: ahead_of(policy, state, track, waiting) for track in waiting}
    for job_id, ahead in found.items():
        assert job_id not in ahead
        assert len(set(ahead)) == len(ahead)
        assert set(ahead) <= found.keys()
        assert not [other for other in ahead if job_id in found[other]]


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("seed", range(5))
def test_the_one_with_nobody_ahead_is_started_when_there_is_room(name: str, seed: int) -> None:
    state = one_busy_gpu(seed)
    policy: Any = make(text_of(name))
    list(policy.decide(state))  # as a daemon would have, all along
    state.settle()
    state.record(Finished(20.0, JobId("holder")))
    waiting = waiting_in(state)
    first = [t.job.id for t in waiting if not ahead_of(policy, state, t, waiting)]
    started = started_next(policy, state)
    assert len(started) == 1
    assert set(started) <= set(first)
    assert len(first) == 1 or name in ("fair-share", "drf")  # users may be level


@pytest.mark.parametrize("name", SAYS)
def test_a_long_line_has_everybody_in_it_once(name: str) -> None:
    state = one_busy_gpu(3)
    policy: Any = make(text_of(name))
    list(policy.decide(state))
    state.settle()
    line = [t for t in policy.lineup(state).order() if t.placement is None]
    assert sorted(t.job.id for t in line) == sorted(t.job.id for t in waiting_in(state))
    if policy.lineup(state).exact:
        waiting = waiting_in(state)
        places = [len(ahead_of(policy, state, track, waiting)) for track in line]
        assert places == list(range(len(line)))
