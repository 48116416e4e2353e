"""Leases (Chronus, SoCC 2021): time in equal pieces, of which a promised job owns as many as it needs.

Lease k lasts from k to k + 1 times its length. A claim takes the latest leases before its deadline:
the early ones stay free for whoever comes with less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf

from dovetail.core.model import Seconds

_ROUNDING = 1e-9  # in leases: a time this close to a border is on it


@dataclass(frozen=True, slots=True)
class Claim:
    """So many leases of so many GPUs, all of them before lease number `before`."""

    leases: int
    gpus: int
    before: int


def claim_of(work_s: Seconds, deadline: Seconds, gpus: int, lease_s: Seconds) -> Claim:
    """What work as long as this needs by then."""
    before = floor(deadline / lease_s + _ROUNDING) if deadline < inf else -1
    return Claim(ceil(work_s / lease_s - _ROUNDING), gpus, before)


def first_lease(now: Seconds, lease_s: Seconds) -> int:
    """The first that is still whole."""
    return ceil(now / lease_s - _ROUNDING)


def lease_at(now: Seconds, lease_s: Seconds) -> int:
    return floor(now / lease_s + _ROUNDING)


def packed(claims: Sequence[Claim], first: int, total: int) -> list[tuple[int, ...]] | None:
    """The leases of each claim from number `first` on, so that none has more than `total` GPUs: by
    slack, length and GPUs, each as late as it can. None: they do not all fit that way."""
    used: dict[int, int] = {}
    owned: dict[int, tuple[int, ...]] = {}
    for i in sorted(range(len(claims)), key=lambda i: _urgency(claims[i], first)):
        found = latest(claims[i], first, total, used)
        if found is None:
            return None
        owned[i] = found
        for lease in found:
            used[lease] = used.get(lease, 0) + claims[i].gpus
    return [owned[i] for i in range(len(claims))]


def _urgency(claim: Claim, first: int) -> tuple[int, int, int]:
    return claim.before - first - claim.leases, claim.leases, claim.gpus


def latest(claim: Claim, first: int, total: int, used: Mapping[int, int]) -> tuple[int, ...] | None:
    """The last leases before its deadline in which as many GPUs are free; None: there are too few."""
    found: list[int] = []
    for lease in range(claim.before - 1, first - 1, -1):
        if len(found) == claim.leases:
            break
        if used.get(lease, 0) + claim.gpus <= total:
            found.append(lease)
    return tuple(reversed(found)) if len(found) == claim.leases else None


def soonest(claim: Claim, first: int, total: int, used: Mapping[int, int]) -> int:
    """Before which lease it would have to be done for the claim to fit: what a user may ask for."""
    lease, missing = first, claim.leases
    while missing:
        if used.get(lease, 0) + claim.gpus <= total:
            missing -= 1
        lease += 1
    return lease
