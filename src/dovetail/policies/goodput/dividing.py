"""Sia's integer program in parts (POP, Narayanan et al., SOSP 2021), for many jobs.

Jobs are dealt out by what they cost where, so that the parts are alike; each part has an equal part of
every kind's GPUs. What the parts leave over is for jobs that got nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dovetail.policies.goodput.program import NONE, Choices, Program, filled, solved, total


def solved_in_parts(program: Program, parts: int, seconds: float) -> Choices:
    """The cheapest choice in each part; the gap is the largest of a part's. `seconds` is for all."""
    parts = min(parts, len(program.cost))
    if parts < 2:
        return solved(program, seconds)
    chosen = np.full(len(program.cost), NONE)
    found = []
    for jobs, part in divided(program, parts):
        found.append(solved(part, seconds / parts))
        chosen[jobs] = found[-1].configuration
    chosen = filled(program, chosen)
    gap, out_of_time = max(one.gap for one in found), any(one.out_of_time for one in found)
    return Choices(chosen, total(program, chosen), gap, out_of_time)


def divided(program: Program, parts: int) -> list[tuple[NDArray[np.int64], Program]]:
    """The rows of each part, and its program."""
    alike = np.lexsort(np.minimum(program.cost, program.without).T[::-1])
    return [
        (jobs, replace(program, cost=program.cost[jobs], kept=program.kept[jobs], room=room))
        for jobs, room in (
            (alike[number::parts], (program.room + number) // parts) for number in range(parts)
        )
    ]
