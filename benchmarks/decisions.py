"""One decision of a policy that plans the whole queue: how long it takes."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from dovetail.core.entries import NodeJoined, Submitted, Wake
from dovetail.core.state import State
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import UserEstimate
from dovetail.traces.scenarios import Scenario, draw

TURNS = 5
NEW_JOBS = 10  # that come before each turn but the first
BETWEEN_S = 600.0


def slowest_s(policy: str, nodes: int, jobs: int) -> float:
    """The longest of a few decisions: the first with everything waiting, then with nodes full."""
    instance = draw(Scenario(nodes, jobs + NEW_JOBS * TURNS, "exponential:5000", 1))
    arrivals = [arrival.job for arrival in instance.trace.arrivals]
    state = State()
    for node in instance.nodes:
        state.record(NodeJoined(0.0, replace(node, prompt=True)))
    for job in arrivals[:jobs]:
        state.record(Submitted(0.0, job))
    knowledge = Knowledge({"user": UserEstimate()}, "user", costs=instance.costs)
    decider = make(policy, PLACEMENTS["consolidated"], knowledge)
    took = []
    for turn in range(TURNS):
        began = perf_counter()
        actions = list(decider.decide(state))
        took.append(perf_counter() - began)
        for action in actions:
            if not isinstance(action, Wake):
                state.record(action)
        state.settle()
        first = jobs + turn * NEW_JOBS
        for job in arrivals[first : first + NEW_JOBS]:
            state.record(Submitted((turn + 1) * BETWEEN_S, job))
    return max(took)
