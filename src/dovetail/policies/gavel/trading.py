"""Gandiva_fair (Chaudhary et al., EuroSys 2020): tickets of users, and trades between GPU kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import Final

from dovetail.policies.gavel.choosing import RoundChoice, RoundContender
from dovetail.policies.gavel.ledger import RoundLedger
from dovetail.policies.gavel.problem import Allocation, AllocationProblem, RateClaim

_WORTH: Final = 1.01  # a trade must be worth that much more to one than to the other
_LEAST: Final = 1e-9  # GPUs

Holdings = dict[str, list[float]]  # by user: GPUs of each kind


def fair_with_trades(problem: AllocationProblem) -> Allocation:
    """Every user has GPUs of each kind by its tickets, then trades; its jobs have equal parts of it."""
    users = _users(problem)
    holdings = by_tickets(problem, users)
    fast_first = sorted(range(len(problem.kinds)), key=lambda kind: -_mean_rate(problem, kind))
    for place, fast in enumerate(fast_first):
        for slow in reversed(fast_first[place + 1 :]):
            trade(holdings, _speedups(users, fast, slow), fast, slow)
    shares: dict[str, tuple[float, ...]] = {}
    for user, claims in users.items():
        wanted = sum(claim.gpus for claim in claims)
        part = [gpus / wanted for gpus in holdings[user]]
        whole = max(sum(part), 1.0)
        shares |= {claim.job_id: tuple([own / whole for own in part]) for claim in claims}
    return Allocation(shares)


def _users(problem: AllocationProblem) -> dict[str, list[RateClaim]]:
    users: dict[str, list[RateClaim]] = {}
    for claim in problem.claims:
        users.setdefault(claim.owner, []).append(claim)
    return users


def by_tickets(problem: AllocationProblem, users: Mapping[str, Sequence[RateClaim]]) -> Holdings:
    """GPUs in proportion to tickets, the largest weight of a user's jobs; nobody has more than it can
    use, and what is left over goes to the others."""
    total = sum(problem.counts)
    wanted = {user: sum(claim.gpus for claim in claims) for user, claims in users.items()}
    tickets = {user: max(claim.weight for claim in claims) for user, claims in users.items()}
    left, open_users, given = total, set(users), dict.fromkeys(users, 0.0)
    while open_users:
        unit = left / sum(tickets[user] for user in open_users)
        full = {user for user in open_users if wanted[user] <= unit * tickets[user]}
        for user in full or open_users:
            given[user] = min(wanted[user], unit * tickets[user])
        left -= sum(given[user] for user in full)
        open_users = open_users - full if full else set()
    return {user: [given[user] * count / total for count in problem.counts] for user in users}


def trade(holdings: Holdings, speedups: Mapping[str, float], fast: int, slow: int) -> None:
    """Who gains least from a fast GPU sells it to who gains most, for more slow ones than it loses by
    and fewer than the other gains: both do more than before."""
    while True:
        sellers = [user for user in speedups if holdings[user][fast] > _LEAST]
        buyers = [user for user in speedups if holdings[user][slow] > _LEAST]
        if not sellers or not buyers:
            return
        low = min(sellers, key=speedups.__getitem__)
        high = max(buyers, key=speedups.__getitem__)
        if speedups[high] <= speedups[low] * _WORTH:
            return
        price = sqrt(speedups[low] * speedups[high])
        amount = min(holdings[low][fast], holdings[high][slow] / price)
        for user, sign in ((low, -1.0), (high, 1.0)):
            holdings[user][fast] += sign * amount
            holdings[user][slow] -= sign * amount * price


def _speedups(users: Mapping[str, Sequence[RateClaim]], fast: int, slow: int) -> dict[str, float]:
    """Of each user's jobs, where they can run on both."""
    found = {}
    for user, claims in users.items():
        ratios = [c.rates[fast] / c.rates[slow] for c in claims if c.rates[slow] and c.rates[fast]]
        if ratios:
            found[user] = fmean(ratios)
    return found


def _mean_rate(problem: AllocationProblem, kind: int) -> float:
    """Against the job's rates on all kinds."""
    return fmean(claim.rates[kind] / (sum(claim.rates) or 1.0) for claim in problem.claims)


def in_strides(
    ledger: RoundLedger,
    contenders: Sequence[RoundContender],
    free: Sequence[float],
) -> list[RoundChoice]:
    """Kind by kind the user whose pass is least goes first, with the job of its that had least. A gang
    that does not fit waits, and its user keeps its place."""
    chosen: dict[str, RoundChoice] = {}
    for kind in range(len(free)):
        _stride(ledger, [c for c in contenders if c.able[kind]], free[kind], kind, chosen)
    return list(chosen.values())


def _stride(
    ledger: RoundLedger,
    contenders: Sequence[RoundContender],
    left: float,
    kind: int,
    chosen: dict[str, RoundChoice],
) -> None:
    lines: dict[str, list[RoundContender]] = {}
    had: dict[str, float] = {}
    tickets: dict[str, float] = {}
    for one in contenders:
        account, user = ledger.accounts[one.name], one.owner
        lines.setdefault(user, []).append(one)
        had_s = account.had_s[kind] - ledger.half_round_s - account.owed_s[kind]
        had[user] = had.get(user, 0.0) + one.gpus * had_s
        share = account.shares[kind] if account.shares else 0.0
        tickets[user] = tickets.get(user, _LEAST) + share * one.gpus
    for line in lines.values():
        line.sort(key=lambda one: ledger.accounts[one.name].had_s[kind], reverse=True)
    while lines:
        user = min(lines, key=lambda user: had[user] / tickets[user])
        one = lines[user].pop()
        if not lines[user]:
            del lines[user]
        if one.name not in chosen and one.gpus <= left:
            left -= one.gpus
            had[user] += one.gpus * 2.0 * ledger.half_round_s
            runs = bool(ledger.accounts[one.name].shares)
            chosen[one.name] = RoundChoice(one.name, kind, runs)
