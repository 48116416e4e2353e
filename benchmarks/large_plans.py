"""One decision of a policy that plans the whole queue: how long it takes."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter, process_time

from dovetail.core.entries import NodeJoined, Submitted, Wake
from dovetail.core.state import State
from dovetail.policies.andreas.drafting import ProblemDraft
from dovetail.policies.andreas.filling import greedy
from dovetail.policies.andreas.problem import proxy
from dovetail.policies.andreas.random_greedy import SearchResult
from dovetail.policies.andreas.searching import AndreasRandomGreedy
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import Knowledge, make
from dovetail.predict.duration import UserEstimate
from dovetail.traces.readers.andreas_folder import Instance
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

TURNS = 5
NEW_JOBS = 10  # that come before each turn but the first
BETWEEN_S = 600.0


def slowest_s(policy: str, nodes: int, jobs: int) -> float:
    """CPU time of the longest of a few decisions: all waiting at first, then with nodes full."""
    instance = _instance(nodes, jobs)
    arrivals = [arrival.job for arrival in instance.trace.arrivals]
    state = _crowded(instance, jobs)
    decider = make(policy, PLACEMENTS["consolidated"], _knowledge(instance))
    took = []
    for turn in range(TURNS):
        began = process_time()
        actions = list(decider.decide(state))
        took.append(process_time() - began)
        for action in actions:
            if not isinstance(action, Wake):
                state.record(action)
        state.settle()
        first = jobs + turn * NEW_JOBS
        for job in arrivals[first : first + NEW_JOBS]:
            state.record(Submitted((turn + 1) * BETWEEN_S, job))
    return max(took)


def limited(nodes: int, jobs: int, limit_s: float) -> tuple[float, SearchResult, bool]:
    """A decision of random greedy within a time: seconds, what it says, is it no worse than greedy?"""
    instance = _instance(nodes, jobs)
    state = _crowded(instance, jobs)
    decider = AndreasRandomGreedy(costs=instance.costs, limit_s=limit_s)
    began = perf_counter()
    problem = ProblemDraft(state, decider.books.of(state), movable=True).problem
    found = decider.search(problem)
    took = perf_counter() - began
    return took, found, proxy(problem, found.best) <= proxy(problem, greedy(problem))


def _instance(nodes: int, jobs: int) -> Instance:
    return draw(Scenario(nodes, jobs + NEW_JOBS * TURNS, "exponential:5000", 1))


def _crowded(instance: Instance, jobs: int) -> State:
    """All of the nodes idle, and so many jobs waiting."""
    state = State()
    for node in instance.nodes:
        state.record(NodeJoined(0.0, replace(node, prompt=True)))
    for arrival in instance.trace.arrivals[:jobs]:
        state.record(Submitted(0.0, arrival.job))
    return state


def _knowledge(instance: Instance) -> Knowledge:
    return Knowledge({"user": UserEstimate()}, "user", costs=instance.costs)
