"""Allocations as somebody else worked them out, from a file: to compare the rounds alone."""

from __future__ import annotations

import csv
import re
from functools import cache

from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.policies.gavel.problem import (
    Allocation,
    AllocationProblem,
    Shares,
    members,
    pair_of,
)

_PAIR = re.compile(r"\((\S+), (\S+)\)")
_SOON_S = 1.0  # a reset is the recorded one if it is no further from it


@cache
def read_allocations(path: str) -> tuple[tuple[Seconds, Shares, tuple[str, ...]], ...]:
    """CSV with a row for each time and job, and a column for each GPU kind."""
    found: dict[Seconds, dict[str, tuple[float, ...]]] = {}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or ()
            kinds = tuple(name for name in names if name not in ("time", "job"))
            for row in rows:
                shares = tuple(float(row[kind]) for kind in kinds)
                found.setdefault(float(row["time"]), {})[_name_of(row["job"])] = shares
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{path} holds no allocations ({error}); give the columns time,job and one for each kind"
        ) from None
    return tuple((at, shares, kinds) for at, shares in sorted(found.items()))


def _name_of(text: str) -> str:
    """Gavel's name of a pair is `(3, 4)`."""
    pair = _PAIR.fullmatch(text)
    return pair_of(pair[1], pair[2]) if pair else text


def recorded(path: str, problem: AllocationProblem) -> Allocation:
    """The one of that time; jobs that it leaves out have nothing."""
    now = problem.at
    at, shares, kinds = min(read_allocations(path), key=lambda row: abs(row[0] - now))
    if abs(at - now) > _SOON_S:
        raise BadInput(
            f"{path} has no allocation for t={now:g}; the nearest is for t={at:g}: it is of another run"
        )
    nothing = (0.0,) * len(kinds)
    order = [kinds.index(kind) for kind in problem.kinds]
    there = {claim.job_id for claim in problem.claims}
    rows = {claim.job_id: shares.get(claim.job_id, nothing) for claim in problem.claims}
    rows |= {name: row for name, row in shares.items() if there.issuperset(members(name))}
    return Allocation({job_id: tuple([row[i] for i in order]) for job_id, row in rows.items()})
