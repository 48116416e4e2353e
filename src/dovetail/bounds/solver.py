"""Linear programs handed to HiGHS, which comes with SciPy, and what it found in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf
from time import perf_counter
from typing import Any

from dovetail.bounds.time_slots import MOST_VARIABLES, Slotted, TimeIsUp
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Seconds
from dovetail.models.cost import Costs
from dovetail.models.workload import Arrival

NO_SOLVER = "linear programs need SciPy; pip install 'dovetail[bounds]'"


@dataclass(frozen=True, slots=True)
class Solved:
    """The solver's result: the `cost` of its schedule (infinite without one), a lower `bound` on all."""

    cost: float
    bound: float
    seconds: Seconds
    in_time: bool


def is_there() -> bool:
    return find_spec("scipy") is not None


def solved_within(
    limit_s: Seconds,
    arrivals: Sequence[Arrival],
    nodes: Sequence[Node],
    costs: Costs,
    slot_s: Seconds,
    relaxed: bool,
) -> Solved:
    """Put together and solved in that time."""
    began = perf_counter()
    try:
        program = Slotted(arrivals, nodes, costs, slot_s, relaxed, limit_s)
        left_s = limit_s - (perf_counter() - began)
        if left_s <= 0:
            raise TimeIsUp
        found = solved(program, left_s)
    except TimeIsUp:
        found = Solved(inf, -inf, 0.0, in_time=False)
    return replace(found, seconds=perf_counter() - began)


def solved(program: Slotted, limit_s: Seconds) -> Solved:
    """Solve the program by HiGHS; when the time is up, the best solution and the best bound so
    far."""
    if len(program.price) > MOST_VARIABLES:
        raise BadInput(
            f"the program has {len(program.price):,} variables; give longer slots with --slot, or "
            "a smaller instance"
        )
    milp, constraint, limits, matrix = _solver()
    rows = program.rows
    shape = (len(rows.least), len(program.price))
    began = perf_counter()
    found: Any = milp(
        program.price,
        constraints=constraint(matrix((rows.values, (rows.at, rows.columns)), shape), rows.least),
        integrality=[int(whole) for whole in program.whole],
        bounds=limits(0.0, program.most),
        options={"time_limit": limit_s, "mip_rel_gap": 1e-3},
    )
    took = perf_counter() - began
    cost = inf if found.x is None else float(found.fun)
    bound = getattr(found, "mip_dual_bound", None)
    if not any(program.whole):
        bound = cost if found.status == 0 else -inf
    return Solved(cost, -inf if bound is None else float(bound), took, found.status == 0)


def _solver() -> tuple[Any, Any, Any, Any]:
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_matrix
    except ImportError:
        raise BadInput(NO_SOLVER) from None
    return milp, LinearConstraint, Bounds, csr_matrix
