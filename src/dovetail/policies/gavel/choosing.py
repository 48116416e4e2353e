"""Who runs in the next round of Gavel: on each kind, those that are furthest behind their share."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from dovetail.policies.gavel.ledger import RoundLedger, ShareAccount

_FIRST_TURN: Final = 1e9  # stands for a share over none of the time


class RoundContender(NamedTuple):
    """A job that could run in the round."""

    job_id: str
    gpus: float
    able: Sequence[bool]  # on which kinds
    owner: str = ""


class RoundChoice(NamedTuple):
    job_id: str
    kind: int
    runs: bool  # False: it only keeps the GPUs from others, until shares are worked out again


def choose(
    ledger: RoundLedger,
    contenders: Sequence[RoundContender],
    free: Sequence[float],
    order: Sequence[int],
    idle_too: bool = True,
) -> list[RoundChoice]:
    """Kind by kind, in order of what they are owed, as many as fit. Those without a share there are
    last, or not at all."""
    chosen: dict[str, RoundChoice] = {}
    for kind in order:
        left = free[kind]
        for priority, contender in _ranked(ledger, contenders, kind):
            if left <= 0:
                break
            if contender.job_id in chosen or contender.gpus > left or not contender.able[kind]:
                continue
            if priority > 0.0 or idle_too:
                left -= contender.gpus
                runs = bool(ledger.accounts[contender.job_id].shares)
                chosen[contender.job_id] = RoundChoice(contender.job_id, kind, runs)
    return list(chosen.values())


def _ranked(
    ledger: RoundLedger, contenders: Sequence[RoundContender], kind: int
) -> list[tuple[float, RoundContender]]:
    """By priority, then by what they were owed before, then by share; then in order of arrival."""
    total, accounts = ledger.had_s[kind], ledger.accounts
    rows = []
    for contender in contenders:
        account = accounts[contender.job_id]
        share = account.shares[kind] if account.shares else 0.0
        priority = _priority(account, share, kind, total) if contender.able[kind] else 0.0
        rows.append((priority, account.owed_s[kind], share, contender))
    rows.sort(key=lambda row: row[:3], reverse=True)
    return [(row[0], row[3]) for row in rows]


def _priority(account: ShareAccount, share: float, kind: int, total: float) -> float:
    """The share it is to have over the part of the time it had."""
    if share == 0.0:
        return 0.0
    had = account.had_s[kind] / total if total else 0.0
    return share / had if had else share * _FIRST_TURN


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
