"""What an allocation is worked out from: plain data, no view and no track.

Shares are of a job, or of a pair: two jobs that share all of their GPUs have them as one, under a name
of its own. The job that came first is the first of the pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

# By job or pair: its part of the time on each GPU kind.
Shares: TypeAlias = Mapping[str, tuple[float, ...]]
# By the sorts of two jobs: how fast they are side by side, on each GPU kind.
SideBySide: TypeAlias = Mapping[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]]

_AND: Final = "\n"  # in no job's name


def pair_of(first: str, second: str) -> str:
    """The name of a pair."""
    return f"{first}{_AND}{second}"


def members(name: str) -> list[str]:
    """The jobs behind the name of a job or a pair."""
    return name.split(_AND)


class RateClaim(NamedTuple):
    """One job: what it asks for, how fast it is where, and what it has had."""

    job_id: str
    gpus: float
    rates: tuple[float, ...]  # steps a second on each GPU kind; 0: it cannot run there
    usual: float = 1.0  # on the kind on which durations are told: all that the kind-blind know
    weight: float = 1.0
    left: float = 1.0  # steps to be done yet
    age_s: float = 0.0  # since it came
    isolated_s: float = (
        0.0  # that its steps so far would have taken with an equal part of the cluster
    )
    owner: str = ""  # the user, for shares in two levels
    due_in_s: float | None = None
    had: tuple[float, ...] = ()  # its part of each kind until now
    sort: str = ""  # jobs of one sort are alike beside others; "": it shares its GPUs with nobody


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """GPUs of several kinds, and jobs that share them over time."""

    kinds: tuple[str, ...]
    counts: tuple[float, ...]
    claims: tuple[RateClaim, ...]
    prices: tuple[float, ...] = ()  # of an hour of a GPU of each kind; none: all the same
    at: float = 0.0  # when this is asked
    side_by_side: SideBySide = field(default_factory=dict)
    paired: tuple[str, ...] = ()  # pairs there have been, of jobs that are still there


@dataclass(frozen=True, slots=True)
class Allocation:
    """The answer of a solver: the shares, what they are worth, and how far from the best at most."""

    shares: Shares
    objective: float | None = None
    gap: float = 0.0
    timed_out: bool = False
    # By job, for finish-time fairness: steps left, its rate with an equal part of the cluster, and the
    # seconds that its steps so far would have taken so.
    standings: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
