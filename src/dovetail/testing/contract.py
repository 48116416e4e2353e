"""The contract of policies: it holds for every policy, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final, final

from dovetail.core.entries import (
    Action,
)
from dovetail.core.loop import Policy, look
from dovetail.core.model import (
    WHOLE_GPU,
)
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.core.track import Phase
from dovetail.core.view import View
from dovetail.testing.audit import Audit
from dovetail.testing.audit_work import check_work
from dovetail.testing.fingerprint import fingerprint
from dovetail.testing.runs import (
    MakePolicy,
    Paused,
    PolicyRun,
    go_on,
    replay,
    run_with_restart,
    run_world,
)
from dovetail.testing.worlds import World, random_world

_MANY = 1_000_000
_ROUNDING = 1e-6  # sums of floats in another order may differ by that much


@final
class AskedTwice:
    """A policy that is asked every question three times and must give the same answer."""

    def __init__(self, policy: Policy) -> None:
        self._policy: Final = policy

    def decide(self, view: View) -> Iterable[Action]:
        before = fingerprint(view)
        first = list(self._policy.decide(view))
        view.settle()
        assert fingerprint(view) == before, f"deciding changed the view at t={view.now:g}"
        second = list(self._policy.decide(view))
        view.settle()
        assert first == second, f"asked twice at t={view.now:g}: {first} and then {second}"
        return self._policy.decide(view)


def check_ends_and_laws(world: World, make_policy: MakePolicy) -> None:
    """Every job ends exactly once, with a reason if refused; GPUs, hosts, quotas are never oversold;
    gangs are whole; nothing starts on a closed node; GPU-seconds and bounds add up."""
    done = run_world(world, make_policy())
    audit = Audit().read(done.entries)
    assert set(audit.ended) == {a.job.id for a in world.arrivals}, "jobs that were never submitted"
    assert not done.state.tracks, f"left behind: {list(done.state.tracks)}"
    check_work(audit.work, world.durations())
    held = sum(track.held_gpu_s for track in done.ended.values())
    assert _close(held, audit.busy_gpu_s), f"held {held} GPU-s, the journal says {audit.busy_gpu_s}"
    if world.speed is None and world.interference is None:
        check_service_adds_up(world, done)


def check_service_adds_up(world: World, done: PolicyRun) -> None:
    """Held = useful + lost for each finished job; no job is faster than its work."""
    for came in world.arrivals:
        track = done.ended[came.job.id]
        if track.phase is not Phase.FINISHED:
            continue
        useful = came.work_s * came.job.gpus * came.job.share / WHOLE_GPU
        assert _close(track.held_gpu_s, useful + track.lost_gpu_s), (
            f"job {came.job.id!r} held {track.held_gpu_s} GPU-s: {useful} useful and "
            f"{track.lost_gpu_s} lost"
        )
        stayed = track.ended_at - track.submitted_at
        assert stayed >= came.work_s - _ROUNDING, f"{came.job.id!r} took {stayed} s"


def check_purity(world: World, make_policy: MakePolicy) -> None:
    """Deciding twice gives the same actions, changes nothing, and leads to the same run."""
    text = run_world(world, make_policy()).text
    assert run_world(world, AskedTwice(make_policy())).text == text, "being asked changes the run"


def check_replay(world: World, make_policy: MakePolicy, rounds: int) -> None:
    """The journal alone rebuilds the state, after any round of the loop and at the end."""
    for number in (rounds, 1_000_000_000):
        done = go_on(Paused(world.cluster(), number), make_policy(), PolicyRun())
        copy = replay(done.text.splitlines())
        assert fingerprint(copy) == fingerprint(done.state), f"replay differs after {number} rounds"


def check_restart(world: World, make_policy: MakePolicy, rounds: int) -> None:
    """Crashed after any round, a fresh policy on the replayed state still ends every job."""
    Audit().read(run_with_restart(world, make_policy, rounds).entries)


def check_snapshot(world: World, make_policy: MakePolicy, rounds: int) -> None:
    """A state that was kept as text and a fresh policy decide as the others would have: whatever a
    policy knows, it knows from the state."""
    whole = go_on(world.cluster(), make_policy(), PolicyRun(State(past=_MANY)))
    backend = world.cluster()
    before = go_on(Paused(backend, rounds), make_policy(), PolicyRun(State(past=_MANY)))
    copy, policy = restore(take(before.state), _MANY), make_policy()
    look([policy], copy)
    after = go_on(backend, policy, PolicyRun(copy, before.entries, before.ended))
    assert after.text == whole.text, f"a snapshot after {rounds} rounds changes the run"


def check_same_again(world: World, make_policy: MakePolicy) -> None:
    """The same world and policy, the same journal, byte for byte."""
    first, second = run_world(world, make_policy()), run_world(world, make_policy())
    assert first.text == second.text, "two runs of the same world differ"


def check_policy(make_policy: MakePolicy, worlds: int = 50, seed: int = 0) -> None:
    """The whole contract on so many worlds drawn by chance. `make_policy` makes a fresh one."""
    for number in range(worlds):
        chance = Random(f"{seed}/{number}")
        world, rounds = random_world(chance), chance.randint(0, 20)
        try:
            check_ends_and_laws(world, make_policy)
            check_same_again(world, make_policy)
            check_purity(world, make_policy)
            check_replay(world, make_policy, rounds)
            check_restart(world, make_policy, rounds)
        except AssertionError as error:
            raise AssertionError(f"world {seed}/{number}: {error}") from error


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= _ROUNDING * max(1.0, abs(a), abs(b))
