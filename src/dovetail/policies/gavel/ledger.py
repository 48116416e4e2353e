"""What Gavel's rounds remember: who was to have which share of time on which kind, and who had it.

Everything is plain data, so that it can be a note of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dovetail.core.model import Seconds
from dovetail.policies.gavel.problem import Shares, members


class Lease(NamedTuple):
    """One job's or pair's turn of the round: on GPUs of which kind, and until when it has work."""

    kind: int
    until: Seconds


@dataclass(slots=True)
class ShareAccount:
    """What one job or pair is to have, since the last reset, and has had on each kind."""

    had_s: list[Seconds]  # with half a round to begin with, so that shares can be compared at once
    owed_s: list[Seconds]  # of earlier resets: what it was to have less what it had
    shares: list[float] = field(default_factory=list)  # none: it came after the last reset
    left: float = 0.0  # steps to be done, at the last reset
    alone: float = 0.0  # and its rate with an equal part of the cluster then
    isolated_s: Seconds = 0.0  # that its steps would have taken so


@dataclass(slots=True)
class RoundLedger:
    """The accounts of all jobs and pairs, and the round that runs."""

    kinds: list[str]
    half_round_s: Seconds
    accounts: dict[str, ShareAccount] = field(default_factory=dict)
    had_s: list[Seconds] = field(default_factory=list)  # by kind: all jobs together
    reset_at: Seconds = 0.0  # 0: at the next opportunity
    changed: bool = True  # has a job come or gone since the last reset?
    choices: int = 0  # of rounds, so far
    ended_at: Seconds = 0.0  # the round before this
    until: Seconds = 0.0
    leases: dict[str, Lease] = field(default_factory=dict)

    def meet(self, job_ids: Sequence[str]) -> None:
        """These are the jobs there are."""
        there = set(job_ids)
        gone = [name for name in self.accounts if not there.issuperset(members(name))]
        for name in gone:
            del self.accounts[name]
        new = [job_id for job_id in job_ids if job_id not in self.accounts]
        for job_id in new:
            self.accounts[job_id] = ShareAccount(self._half(), [0.0] * len(self.kinds))
        self.changed = self.changed or bool(gone or new)

    def _open(self, pair: str) -> None:
        """As if it had been there at the last reset, when both of its jobs were."""
        nothing = [0.0] * len(self.kinds)
        self.accounts[pair] = ShareAccount(self._half(), self._half(), nothing)

    @property
    def pairs(self) -> list[str]:
        return [name for name in self.accounts if len(members(name)) > 1]

    def _half(self) -> list[Seconds]:
        return [self.half_round_s] * len(self.kinds)

    def book(self, now: Seconds) -> None:
        """The round is over: who ran had its time, from the end of the round before on."""
        for job_id, lease in self.leases.items():
            if job_id not in self.accounts:
                self._open(job_id)
            had_s = lease.until - self.ended_at
            self.had_s[lease.kind] += had_s
            self.accounts[job_id].had_s[lease.kind] += had_s
        if self.leases:
            self.ended_at = now
        self.leases = {}

    def is_due(self, now: Seconds, least_s: Seconds) -> bool:
        """Should shares be worked out anew? Not too often, or nobody would ever have had them."""
        return self.changed and (now - self.reset_at >= least_s or self.reset_at == 0.0)

    def reset(self, now: Seconds, shares: Shares) -> None:
        passed = now - self.reset_at
        for job_id, account in self.accounts.items():
            for kind in range(len(self.kinds)):
                due_s = account.shares[kind] * passed if account.shares else 0.0
                account.owed_s[kind] += due_s - (account.had_s[kind] - self.half_round_s)
            account.had_s = self._half()
            account.shares = list(shares.get(job_id, ()))
        for name in shares.keys() - self.accounts.keys():
            self._open(name)
            self.accounts[name].shares = list(shares[name])
        self.had_s = [self.half_round_s * len(self.accounts)] * len(self.kinds)
        self.reset_at = now
        self.changed = False

    def note(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "kinds": self.kinds,
            "jobs": {
                job_id: [a.had_s, a.owed_s, a.shares, a.left, a.alone, a.isolated_s]
                for job_id, a in self.accounts.items()
            },
            "had_s": self.had_s,
            "reset_at": self.reset_at,
            "changed": self.changed,
            "choices": self.choices,
            "ended_at": self.ended_at,
            "until": self.until,
            "leases": {job_id: list(lease) for job_id, lease in self.leases.items()},
        }


def ledger_of(
    noted: Mapping[str, Any] | None, kinds: Sequence[str], round_s: Seconds
) -> RoundLedger:
    """From the note; where the cluster has other kinds than then, all begins anew."""
    ledger = RoundLedger(list(kinds), round_s / 2.0, had_s=[0.0] * len(kinds))
    if noted is None or noted["kinds"] != ledger.kinds:
        return ledger
    ledger.accounts = {
        job_id: ShareAccount(list(had), list(owed), list(shares), *rest)
        for job_id, (had, owed, shares, *rest) in noted["jobs"].items()
    }
    ledger.had_s = list(noted["had_s"])
    ledger.reset_at, ledger.changed = noted["reset_at"], noted["changed"]
    ledger.choices, ledger.ended_at = noted["choices"], noted["ended_at"]
    ledger.until = noted["until"]
    ledger.leases = {job_id: Lease(*lease) for job_id, lease in noted["leases"].items()}
    return ledger


def running_until(leases: Iterable[Lease], now: Seconds) -> Seconds:
    """The end of a round: its slowest job's."""
    return max([lease.until for lease in leases], default=now)
