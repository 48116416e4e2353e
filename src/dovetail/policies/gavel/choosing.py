"""Who runs in the next round of Gavel: on each kind, those that are furthest behind their share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from random import Random
from typing import Final, NamedTuple, TypeAlias

from dovetail.core.model import Seconds
from dovetail.policies.gavel.ledger import RoundLedger
from dovetail.policies.gavel.problem import pair_of

_FIRST_TURN: Final = 1e9  # stands for a share over none of the time


class RoundContender(NamedTuple):
    """A job or pair that could run in the round."""

    name: str
    gpus: float
    able: Sequence[bool]  # on which kinds
    owner: str = ""
    jobs: Sequence[str] = ()  # of a pair


class RoundChoice(NamedTuple):
    name: str
    kind: int
    runs: bool  # False: it only keeps the GPUs from others, until shares are worked out again


# What two jobs do side by side on each kind, as parts of what each does alone; 0: they cannot.
Together: TypeAlias = Callable[[str, str], Sequence[float]]


def choose(
    ledger: RoundLedger,
    contenders: Sequence[RoundContender],
    free: Sequence[float],
    order: Sequence[int],
    idle_too: bool = True,
    together: Together | None = None,
    least: float = 0.0,
) -> list[RoundChoice]:
    """Kind by kind, in order of what they are owed, as many as fit. Those without a share there are
    last, or not at all; with `together` pairs that do more than the `least` are among these."""
    chosen: list[RoundChoice] = []
    taken: set[str] = set()  # jobs, alone or in a pair
    for kind in order:
        left = _give(ledger, _ranked(ledger, contenders, kind), kind, free[kind], chosen, taken)
        if left > 0 and idle_too:
            alone = [one for one in contenders if not one.jobs and one.name not in taken]
            idle = alone if together is None else _with_pairs(alone, together, left, least)
            rows = _without_share(ledger, idle, kind)
            _give(ledger, rows, kind, left, chosen, taken)
    return chosen


def _give(
    ledger: RoundLedger,
    rows: Sequence[RoundContender],
    kind: int,
    left: float,
    chosen: list[RoundChoice],
    taken: set[str],
) -> float:
    """What is left after them."""
    for contender in rows:
        if left <= 0:
            break
        name, jobs = contender.name, contender.jobs
        if contender.gpus > left or not contender.able[kind]:
            continue
        if name in taken or (jobs and not taken.isdisjoint(jobs)):
            continue
        left -= contender.gpus
        taken.update(jobs or (name,))
        runs = all([ledger.accounts[job_id].shares for job_id in jobs or (name,)])
        chosen.append(RoundChoice(name, kind, runs))
    return left


def _with_pairs(
    alone: Sequence[RoundContender], together: Together, most: float, least: float
) -> list[RoundContender]:
    """Each, and after it the pairs with those before it that do enough side by side somewhere."""
    found: list[RoundContender] = []
    for number, second in enumerate(alone):
        found.append(second)
        if second.gpus > most:
            continue
        for first in alone[:number]:
            if first.gpus == second.gpus:
                able = [both > least for both in together(first.name, second.name)]
                if any(able):
                    jobs = (first.name, second.name)
                    found.append(first._replace(name=pair_of(*jobs), able=able, jobs=jobs))
    return found


def _without_share(
    ledger: RoundLedger, contenders: Sequence[RoundContender], kind: int
) -> list[RoundContender]:
    """By what they were owed before; then in order of arrival."""
    rows = []
    for contender in contenders:
        if contender.able[kind]:
            share, owed_s = _standing(ledger, contender, kind)
            if share == 0.0:
                rows.append((owed_s, contender))
    rows.sort(key=_first, reverse=True)
    return [contender for _, contender in rows]


def _standing(ledger: RoundLedger, contender: RoundContender, kind: int) -> tuple[float, Seconds]:
    """Its share, and what it was owed before; a pair is owed half a round to begin with."""
    account = ledger.accounts.get(contender.name)
    if account is not None:
        return account.shares[kind] if account.shares else 0.0, account.owed_s[kind]
    known = all([ledger.accounts[job_id].shares for job_id in contender.jobs])
    return 0.0, ledger.half_round_s if known else 0.0


def _ranked(
    ledger: RoundLedger, contenders: Sequence[RoundContender], kind: int
) -> list[RoundContender]:
    """Those with a share there: by priority, then by what they were owed before, then by share; then in
    order of arrival."""
    total, accounts = ledger.had_s[kind], ledger.accounts
    rows = []
    for contender in contenders:
        if not contender.able[kind]:
            continue
        account = accounts[contender.name]
        share = account.shares[kind] if account.shares else 0.0
        if share > 0.0:
            had = account.had_s[kind] / total if total else 0.0
            priority = share / had if had else share * _FIRST_TURN
            rows.append((priority, account.owed_s[kind], share, contender))
    rows.sort(key=_first_three, reverse=True)
    return [row[3] for row in rows]


_first = itemgetter(0)
_first_three = itemgetter(0, 1, 2)


class KindOrder:
    """In which order the kinds are given out, choice by choice: shuffled for those that see no
    difference between them. Drawn from the beginning, so that it can be asked again."""

    def __init__(self, kinds: Sequence[int], seed: int) -> None:
        self._kinds: Final = list(kinds)
        self._chance: Final = Random(seed + 5)  # as Gavel has it
        self._drawn: Final[list[list[int]]] = []

    def at(self, number: int) -> Sequence[int]:
        while len(self._drawn) <= number:
            fresh = list(self._kinds)
            self._chance.shuffle(fresh)
            self._drawn.append(fresh)
        return self._drawn[number]
