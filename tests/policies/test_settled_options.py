"""Real processes cannot be told to use other GPUs: such jobs keep the option they began with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dovetail.core.entries import Start
from dovetail.core.journal import decode
from dovetail.core.model import Node, Option
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.workload import Arrival
from dovetail.traces.readers.andreas_folder import timed_job

NODES = (Node("a", 4, "big"), Node("b", 4, "big"), Node("c", 2, "small"))
COSTS = Costs(
    {"big": NodeRates(per_hour=(0, 3.0, 3.5, 4.0, 4.5)), "small": NodeRates(per_hour=(0, 2.0, 2.2))}
)


def arrivals(settles: bool, jobs: int = 30) -> list[Arrival]:
    """Crowded and urgent, so that the policies want to move jobs."""
    chance, found = Random(4), []
    for number in range(jobs):
        at, seconds = chance.uniform(0, 2000), chance.uniform(200, 1500)
        ways = [
            Option("big", 1, seconds),
            Option("big", 2, seconds / 1.8),
            Option("big", 4, seconds / 3.0),
            Option("small", 1, 2 * seconds),
        ]
        due = at + chance.uniform(0.5, 3.0) * seconds
        job = timed_job(f"j{number}", ways, ways, deadline=due, late_cost_per_s=0.01)
        found.append(Arrival(at, replace(job, settles=settles), job.options[0].seconds))
    return sorted(found, key=lambda arrival: arrival.at)


def ways_taken(policy: str, settles: bool, folder: Path) -> dict[str, set[tuple[str, int]]]:
    path = folder / "journal.jsonl"
    simulate(Experiment(arrivals(settles), NODES, costs=COSTS), policy, journal=path)
    taken: dict[str, set[tuple[str, int]]] = {}
    for line in path.read_text().splitlines():
        entry = decode(line)
        if isinstance(entry, Start):
            kind = NODES[entry.placement.slices[0].node].kind
            taken.setdefault(entry.job_id, set()).add((kind, entry.placement.gpus))
    return taken


@pytest.mark.parametrize("policy", ["frugal", "andreas-greedy", "andreas-random-greedy:passes=20"])
def test_a_job_that_settles_keeps_the_option_it_began_with(policy: str, tmp_path: Path) -> None:
    others = ways_taken(policy, settles=False, folder=tmp_path)
    assert any(len(ways) > 1 for ways in others.values()), "else nothing is shown here"
    settled = ways_taken(policy, settles=True, folder=tmp_path)
    assert len(settled) == len(others)
    assert all(len(ways) == 1 for ways in settled.values())
