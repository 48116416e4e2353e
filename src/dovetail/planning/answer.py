"""The decision on a request, in the words of the ANDREAS optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any, Final

from dovetail.core.entries import Action, NodeJoined, Occupied, Start, Submitted, Wake, Woke
from dovetail.core.errors import BadInput
from dovetail.core.loop import Policy
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.models.hourly import HOUR_S
from dovetail.planning.request import NO_ANSWER, TIME_FORMAT, BadRequest, PlanRequest, Wanted
from dovetail.policies.placement import consolidated
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import Oracle

METHODS: Final[Mapping[str, str]] = {
    "RG": "andreas-random-greedy",
    "G": "andreas-greedy",
    "LS": "andreas-local-search",
    "PR": "andreas-path-relinking",
    "FIFO": "andreas-fifo",
    "EDF": "andreas-edf",
    "PS": "andreas-priority",
}
USUAL: Final = "RG"


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer as the service gives it, and what there is to say beyond."""

    answer: Mapping[str, Any]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A job that holds GPUs after the decision."""

    wanted: Wanted
    node: str
    kind: str
    gpus: int
    seconds: Seconds  # until it ends


def planned(request: PlanRequest, policy: str | None = None, limit_s: Seconds = inf) -> Planned:
    """What to run where, by the policy, else by the method that the request names; a search ends
    after that long."""
    decider = _policy(request, policy)
    if callable(within := getattr(decider, "within", None)):  # one that searches
        decider = within(limit_s)
    state = _state(request)
    notes = [
        f"job {wanted.job.id!r} is past its deadline already"
        for wanted in request.jobs
        if wanted.job.deadline is not None and wanted.job.deadline < request.now
    ]
    for action in _decided(decider, state, notes):
        if not isinstance(action, Wake):
            state.record(action)
    placed = _placed(request, state)
    if not placed:
        raise BadRequest(NO_ANSWER, "no job of the request can be placed; are there free GPUs?")
    return Planned(_told(request, placed), notes)


def _policy(request: PlanRequest, text: str | None) -> Policy:
    if text is None:
        method = (request.method or USUAL).removesuffix("_sim")
        if method not in METHODS:
            raise BadInput(f"there is no method {method!r}; known are {', '.join(METHODS)}")
        text = METHODS[method]
        if request.seed is not None and method in ("RG", "LS", "PR"):
            text += f":seed={request.seed}"
    durations = {wanted.job.id: wanted.job.options[0].seconds for wanted in request.jobs}
    knowledge = Knowledge({"oracle": Oracle(durations)}, "oracle", costs=request.costs)
    return make(text, consolidated, knowledge)


def _state(request: PlanRequest) -> State:
    """The cluster as the request describes it."""
    state = State()
    for node in request.nodes:
        state.record(NodeJoined(0.0, node))
    for wanted in sorted(request.jobs, key=lambda wanted: wanted.submitted_at):
        state.record(Submitted(wanted.submitted_at, wanted.job))
    state.record(Woke(request.now))
    room = state.room
    for wanted in request.jobs:
        if wanted.node:
            n = room.index[wanted.node]
            if room.count[n] < wanted.gpus:
                raise BadInput(f"node {wanted.node!r} is too small for the jobs that run on it")
            state.record(Start(wanted.job.id, room.first_gpus(n, wanted.gpus)))
    for node in request.nodes:
        n = room.index[node.id]
        strangers = max(room.count[n] - request.free[node.id], 0)
        if strangers:
            mask = room.lowest(n, room.count[n]) ^ room.lowest(n, room.count[n] - strangers)
            state.record(Occupied(request.now, node.id, mask))
    return state


def _decided(policy: Policy, state: State, notes: list[str]) -> Sequence[Action]:
    if not hasattr(policy, "decide_and_tell"):
        return list(policy.decide(state))
    actions, note = policy.decide_and_tell(state)
    notes.append(note)
    return list(actions)


def _placed(request: PlanRequest, state: State) -> list[Placed]:
    placed = []
    for wanted in request.jobs:
        track = state.tracks.get(wanted.job.id)
        if track is not None and track.placement is not None:
            node = state.room.nodes[track.placement.slices[0].node]
            option = wanted.job.option(node.kind, track.placement.gpus)
            assert option is not None
            placed.append(Placed(wanted, node.id, node.kind, option.gpus, option.seconds))
    return placed


def _told(request: PlanRequest, placed: Sequence[Placed]) -> Mapping[str, Any]:
    """Costs and times in six digits each, as the service prints them before it adds them up."""
    first_s = min([one.seconds for one in placed], default=inf)
    busy: dict[str, int] = {}
    for one in placed:
        busy[one.node] = busy.get(one.node, 0) + one.gpus
    cost = sum(_six_digits(_cost(request, one, busy[one.node], first_s)) for one in placed)
    try:
        again_at = request.began + timedelta(seconds=request.now + int(_six_digits(first_s)))
    except OverflowError:
        raise BadRequest(NO_ANSWER, "the first job would end after the year 9999") from None
    jobs = {}
    for one in placed:
        late_s = _late_s(request, one, one.seconds)
        jobs[one.wanted.job.id] = {
            "expected_tardiness": _six_digits(late_s) / HOUR_S,
            "nGPUs": one.gpus,
            "node": one.node,
        }
    return {
        "estimated_cost": cost,
        "estimated_rescheduling_time": again_at.strftime(TIME_FORMAT),
        "jobs": jobs,
    }


def _cost(request: PlanRequest, one: Placed, busy: int, first_s: Seconds) -> float:
    """The job's part of its node until the first job ends, and what being late by then costs."""
    part = request.costs.per_hour(one.kind, busy) * one.gpus / busy
    late = request.costs.late_per_s(one.wanted.job) * _late_s(request, one, first_s)
    return part * first_s / HOUR_S + late


def _late_s(request: PlanRequest, one: Placed, after_s: Seconds) -> Seconds:
    deadline = one.wanted.job.deadline
    assert deadline is not None
    return max(0.0, request.now + after_s - deadline)


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
