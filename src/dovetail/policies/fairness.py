"""Policies that share between users. A job without a user counts for its tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import exp, inf, log
from typing import Final, NamedTuple, TypeAlias, final

from dovetail.core.entries import Action
from dovetail.core.model import Job, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RECALLS, RUNS, SETTLES, WAITS, View
from dovetail.policies.placement import consolidated

# Of one user's jobs those of the highest priority go first, then in order of submission. A study is one
# in that line, whatever the number of its trials: whenever one of them was given a slot it goes behind
# all that wait then.
_Row: TypeAlias = tuple[float, int, int, Track]  # priority below 0, sequence, turn, track
_Lane: TypeAlias = tuple[int, str]  # a shape, and the study if they are trials


class Usage(NamedTuple):
    gpu_s: float  # decayed, as of then
    as_of: Seconds
    gpus: float  # held now
    weight: float


def owner(job: Job) -> str:
    return job.user or job.tenant


def study_of(job: Job) -> str:
    """The study that it is a trial of; "" if it is none."""
    return job.group if job.member is not None else ""


def _lane(track: Track) -> _Lane:
    return track.shape.lane, study_of(track.job)


@final
class Account:
    """What one user holds, has used lately, and waits for."""

    def __init__(self) -> None:
        self.weight = 1.0
        self.gpus = 0.0
        self.cpus = 0.0
        self.memory_gb = 0.0
        self.used = 0.0  # decayed GPU-seconds as of `as_of`
        self.as_of: Seconds = 0.0
        self.lanes: dict[_Lane, list[_Row]] = {}
        self.served: dict[str, float] = {}  # by study: behind which sequence it stands

    def heads(self) -> list[_Row]:
        """The first waiting job of each shape and study."""
        heads = []
        for lane, heap in list(self.lanes.items()):
            while heap and heap[0][3].turn != heap[0][2]:
                heappop(heap)
            if heap:
                heads.append(heap[0])
            else:
                del self.lanes[lane]
        return heads

    def place(self, job: Job, sequence: int) -> tuple[float, float]:
        """Where it stands among its user's jobs."""
        return -job.priority, max(sequence, self.served.get(study_of(job), -1.0))


@final
class Accounts:
    """One account for each user; usage halves every `half_life_s`."""

    def __init__(self, view: View, half_life_s: Seconds) -> None:
        self.watches = WAITS | RUNS | ENDS | SETTLES | RECALLS | PARKS
        self._view: Final = view
        self._decay: Final = log(2.0) / half_life_s
        self._holding: dict[int, tuple[float, float, float]] = {}  # by sequence: what a job holds
        self._lent: list[tuple[Account, _Row]] = []
        self.of: Final[dict[str, Account]] = {}

    def account(self, job: Job) -> Account:
        name = owner(job)
        account = self.of.get(name)
        if account is None:
            account = self.of[name] = Account()
            account.as_of = self._view.now
        tenant = self._view.room.tenants.get(job.tenant)
        account.weight = job.weight * (tenant.weight if tenant is not None else 1.0)
        return account

    def waits(self, track: Track) -> None:
        account = self.account(track.job)
        self._release(account, track)
        row = (-track.job.priority, track.sequence, track.turn, track)
        heappush(account.lanes.setdefault(_lane(track), []), row)

    def runs(self, track: Track) -> None:
        account = self.account(track.job)
        self._release(account, track)
        self.bring_up_to_date(account)
        held = (track.holds, track.job.cpus, track.job.memory_gb)
        self._holding[track.sequence] = held
        self._add(account, held, 1.0)
        self.serve(account, track.job)

    def ends(self, track: Track) -> None:
        self._release(self.account(track.job), track)

    def parks(self, track: Track) -> None:
        self.ends(track)  # for what is kept here it is as good as gone

    def recall(self, track: Track) -> None:
        """Usage from before there was an account, decayed as if used up when the job last stopped."""
        account = self.account(track.job)
        self.bring_up_to_date(account)
        ended = track.ended_at if track.ended_at >= 0 else self._view.now
        account.used += track.held_gpu_s * exp(-self._decay * (self._view.now - ended))

    def _release(self, account: Account, track: Track) -> None:
        held = self._holding.pop(track.sequence, None)
        if held is not None:
            self.bring_up_to_date(account)
            self._add(account, held, -1.0)

    @staticmethod
    def _add(account: Account, held: tuple[float, float, float], sign: float) -> None:
        account.gpus += sign * held[0]
        account.cpus += sign * held[1]
        account.memory_gb += sign * held[2]

    def bring_up_to_date(self, account: Account) -> None:
        """Usage decays, and what is held adds to it, both continuously."""
        past = self._view.now - account.as_of
        if past > 0:
            kept = exp(-self._decay * past)
            account.used = account.used * kept + account.gpus * (1.0 - kept) / self._decay
            account.as_of = self._view.now

    def serve(self, account: Account, job: Job) -> None:
        study = study_of(job)
        if study:
            account.served = {**account.served, study: self._view._sequence + 0.5}

    def pass_over(self, account: Account, row: _Row) -> None:
        """Set a head aside until the decision is over."""
        heappop(account.lanes[_lane(row[3])])
        self._lent.append((account, row))
        self._view.room.unsettled = True

    def settle(self) -> None:
        for account, row in self._lent:
            track = row[3]
            if track.turn == row[2]:  # its lane may have been given up meanwhile
                heappush(account.lanes.setdefault(_lane(track), []), row)
        self._lent.clear()


@final
class AccountsSpec:
    def __init__(self, half_life_s: Seconds) -> None:
        self._half_life_s: Final = half_life_s

    def build(self, view: View) -> Accounts:
        return Accounts(view, self._half_life_s)


def serve_least(
    view: View, spec: AccountsSpec, place: Place, share: Callable[[Account, View], float]
) -> Sequence[Action]:
    """Again and again start the first job that fits of the user with the least share."""
    if not view.waiting_count:
        return ()
    accounts = view.index(spec)
    assert isinstance(accounts, Accounts)
    plan = Plan(view, place)
    line: list[tuple[float, int, Account, list[_Row]]] = []  # among equals the first submitted
    for account in accounts.of.values():
        heads = account.heads()
        if heads:
            accounts.bring_up_to_date(account)
            line.append((share(account, view), min(heads)[1], account, heads))
    heapify(line)
    promised: list[tuple[Account, tuple[float, float, float], dict[str, float]]] = []  # as before
    while line:
        _, _, account, heads = heappop(line)
        started = _start_first_that_fits(plan, account, heads)
        if started is None:
            continue
        accounts.pass_over(account, started)
        job = started[3].job
        held = (job.gpus * job.share / 1000, job.cpus, job.memory_gb)
        before = (account.gpus, account.cpus, account.memory_gb)
        promised.append((account, before, account.served))
        accounts._add(account, held, 1.0)
        accounts.serve(account, job)
        heads = account.heads()
        if heads:
            heappush(line, (share(account, view), min(heads)[1], account, heads))
    for account, held, served in reversed(promised):
        # Put back, not subtracted: floats would leave a rest.
        account.gpus, account.cpus, account.memory_gb = held
        account.served = served
    return plan.actions


def _start_first_that_fits(plan: Plan, account: Account, heads: list[_Row]) -> _Row | None:
    for row in sorted(heads, key=lambda row: account.place(row[3].job, row[1])):
        if plan.start(row[3]):
            return row
    return None


def _used(account: Account, view: View) -> float:
    return account.used / account.weight


def _dominant_share(account: Account, view: View) -> float:
    """The largest of the user's parts of the cluster's GPUs, CPUs and memory."""
    room = view.room
    gpus = sum(node.gpus for node in room.nodes) or inf
    share = account.gpus / gpus
    if account.cpus:
        share = max(share, account.cpus / sum(node.cpus for node in room.nodes))
    if account.memory_gb:
        share = max(share, account.memory_gb / sum(node.memory_gb for node in room.nodes))
    return share / account.weight


@dataclass(frozen=True, kw_only=True)
class FairShare:
    """The user who has used the fewest GPU-seconds lately goes first; usage halves in `half_life_s`.

    Divided by the weight of the user's latest job and of the tenant: twice the weight, twice the share.
    Of one user's jobs those of the highest priority come first.
    """

    place: Place = consolidated
    half_life_s: Seconds = 7 * 86400.0
    _accounts: AccountsSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.half_life_s > 0:
            raise ValueError(f"half_life_s={self.half_life_s:g}: give a positive number of seconds")
        object.__setattr__(self, "_accounts", AccountsSpec(self.half_life_s))

    def decide(self, view: View) -> Sequence[Action]:
        return serve_least(view, self._accounts, self.place, _used)

    def account(self, view: View, job: Job) -> Account:
        return _account(view, self._accounts, job)

    def usage(self, view: View) -> dict[str, Usage]:
        """What every user has used lately, as far as anybody has asked for it."""
        accounts = view.index(self._accounts)
        assert isinstance(accounts, Accounts)
        return {who: Usage(a.used, a.as_of, a.gpus, a.weight) for who, a in accounts.of.items()}

    def begin_with(self, view: View, usage: Mapping[str, Usage]) -> None:
        """In a copy of a view: users have used what they had used in the original."""
        accounts = view.index(self._accounts)
        assert isinstance(accounts, Accounts)
        for who, account in accounts.of.items():
            if who in usage:
                account.used, account.as_of = usage[who].gpu_s, usage[who].as_of
                accounts.bring_up_to_date(account)


@dataclass(frozen=True, kw_only=True)
class Drf:
    """Dominant resource fairness: the user with the least dominant share of what is held now first."""

    place: Place = consolidated
    _accounts: AccountsSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_accounts", AccountsSpec(1.0))

    def decide(self, view: View) -> Sequence[Action]:
        return serve_least(view, self._accounts, self.place, _dominant_share)

    def account(self, view: View, job: Job) -> Account:
        return _account(view, self._accounts, job)


def _account(view: View, spec: AccountsSpec, job: Job) -> Account:
    """That of the job's owner, as far as anybody has asked for it."""
    accounts = view.index(spec)
    assert isinstance(accounts, Accounts)
    return accounts.account(job)
