"""Policies that share between users. A job without a user counts for its tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import exp, inf, log
from typing import Any, Final, TypeAlias, final

from dovetail.core.entries import Action, Note
from dovetail.core.model import WHOLE_GPU, Job, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import ENDS, PARKS, RECALLS, RUNS, SETTLES, WAITS, View
from dovetail.policies import between_users
from dovetail.policies.between_users import owner
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import Ahead, Lineup

# Of one user's jobs those of the highest priority go first, then in order of submission. A study is one
# in that line, whatever the number of its trials: whenever one of them was given a slot it goes behind
# all that wait then.
_Row: TypeAlias = tuple[float, int, int, Track]  # priority below 0, sequence, turn, track


_Amounts: TypeAlias = tuple[
    int, int, int
]  # GPUs, CPUs and GB of memory, in millionths: sums are exact
_UNIT: Final = 1_000_000


def _amounts(gpus: float, job: Job) -> _Amounts:
    return round(gpus * _UNIT), round(job.cpus * _UNIT), round(job.memory_gb * _UNIT)


def _sum(in_use: _Amounts, more: _Amounts, sign: int = 1) -> _Amounts:
    return in_use[0] + sign * more[0], in_use[1] + sign * more[1], in_use[2] + sign * more[2]


def study_of(job: Job) -> str:
    """The study that it is a trial of; "" if it is none."""
    return job.group if job.member is not None else ""


@final
class Account:
    """What one user holds, has used lately, and waits for."""

    def __init__(self) -> None:
        self.weight = 1.0  # that of the latest job
        self.latest = -1  # its sequence
        self.in_use: _Amounts = (0, 0, 0)
        self.promised: _Amounts = (0, 0, 0)  # by the decision that is being taken
        self.used = 0.0  # decayed GPU-seconds as of `as_of`, when what is in use last changed
        self.as_of: Seconds = 0.0
        self.noted = False  # was this known before there was an account?
        self.lanes: dict[int, dict[str, list[_Row]]] = {}  # by shape, and by study if any
        self.waiting = 0  # jobs
        self.served: dict[str, float] = {}  # by study: behind which sequence it stands

    def add(self, row: _Row) -> None:
        lane = self.lanes.setdefault(row[3].shape.lane, {})
        heappush(lane.setdefault(study_of(row[3].job), []), row)

    def heads(self, lanes: Iterable[int]) -> list[_Row]:
        """The first waiting job of each of these shapes and of each study."""
        heads = []
        for number in lanes:
            lane = self.lanes.get(number)
            if lane is None:
                continue
            for study, heap in list(lane.items()):
                while heap and heap[0][3].turn != heap[0][2]:
                    heappop(heap)
                if heap:
                    heads.append(heap[0])
                else:
                    del lane[study]
            if not lane:
                del self.lanes[number]
        return heads

    def first(self) -> int:
        """The sequence of the first of all that wait."""
        return min(self.heads(list(self.lanes)))[1]

    def place(self, job: Job, sequence: int) -> tuple[float, float]:
        """Where it stands among its user's jobs."""
        return -job.priority, max(sequence, self.served.get(study_of(job), -1.0))


@final
class Accounts:
    """One account for each user; usage halves every `half_life_s`."""

    def __init__(self, view: View, name: str, half_life_s: Seconds) -> None:
        self.watches = WAITS | RUNS | ENDS | SETTLES | RECALLS | PARKS
        self._view: Final = view
        self._key: Final = f"{name}: "  # of what is noted of a user
        self._decay: Final = log(2.0) / half_life_s if half_life_s else 0.0
        self._changed: Final[dict[str, Account]] = {}  # by user: to be noted
        self._holding: dict[int, _Amounts] = {}  # by sequence: what a job holds
        self._lent: list[tuple[Account, _Row]] = []
        self._waits_in: dict[int, tuple[Account, Shape]] = {}  # by sequence
        self.shapes: Final[dict[int, tuple[Shape, int]]] = {}  # by lane: how many wait
        self._totals: tuple[int, float, float, float] = (-1, 0.0, 0.0, 0.0)
        self.of: Final[dict[str, Account]] = {}

    def account(self, job: Job) -> Account:
        name = owner(job)
        account = self.of.get(name)
        if account is None:
            account = self.of[name] = Account()
            account.as_of = self._view.now
            self._remember(account, self._view.notes.get(self._key + name))
        return account

    def _remember(self, account: Account, noted: Any) -> None:
        if noted is not None:
            account.noted = True
            account.weight, account.latest, account.served = noted["weight"]
            account.used, account.as_of = noted.get("used", (0.0, self._view.now))

    def _noted(self, account: Account, served: dict[str, float], holds: bool) -> dict[str, Any]:
        """What must be known of the user after a restart; usage as of the last change."""
        open_ones = {study: at for study, at in served.items() if study in self._view.groups}
        found: dict[str, Any] = {"weight": [account.weight, account.latest, open_ones]}
        if self._decay:
            had = holds or account.used > 0
            found["used"] = [account.used, account.as_of] if had else [0.0, 0.0]
        return found

    def notes(self, promised: Mapping[str, dict[str, float]]) -> list[Action]:
        """`promised`: users whose jobs are started now, and where their studies stand afterwards."""
        found: list[Action] = []
        for name in sorted({*self._changed, *promised}):
            account = self.of[name]
            if name in promised:
                self.bring_up_to_date(account)
            holds = name in promised or any(account.in_use)
            value = self._noted(account, promised.get(name, account.served), holds)
            if self._view.notes.get(self._key + name) == value:
                self._changed.pop(name, None)
            else:
                found.append(Note(self._key + name, value))
        return found

    def waits(self, track: Track) -> None:
        job = track.job
        account = self.account(job)
        if track.sequence > account.latest:
            tenant = self._view.room.tenants.get(job.tenant)
            account.weight = job.weight * (tenant.weight if tenant is not None else 1.0)
            account.latest = track.sequence
            self._changed[owner(job)] = account
        self._release(account, track)
        self._leave(track)
        account.add((-track.job.priority, track.sequence, track.turn, track))
        account.waiting += 1
        shape = track.shape
        self._waits_in[track.sequence] = (account, shape)
        self.shapes[shape.lane] = (shape, self.shapes.get(shape.lane, (shape, 0))[1] + 1)

    def _leave(self, track: Track) -> None:
        """It waits no longer where it did."""
        found = self._waits_in.pop(track.sequence, None)
        if found is None:
            return
        account, shape = found
        account.waiting -= 1
        left = self.shapes[shape.lane][1] - 1
        if left:
            self.shapes[shape.lane] = (shape, left)
        else:
            del self.shapes[shape.lane]

    def runs(self, track: Track) -> None:
        self._leave(track)
        account, in_use = self.account(track.job), _amounts(track.holds, track.job)
        if self._holding.get(track.sequence) == in_use:
            return
        self._release(account, track)
        self._holding[track.sequence] = in_use
        if track.started_at == self._view.now:  # else it was noted when it began
            self.bring_up_to_date(account)
            self._changed[owner(track.job)] = account
            self.serve(account, track.job)
        account.in_use = _sum(account.in_use, in_use)

    def ends(self, track: Track) -> None:
        self._leave(track)
        self._release(self.account(track.job), track)

    def parks(self, track: Track) -> None:
        self.ends(track)  # for what is kept here it is as good as gone

    def recall(self, track: Track) -> None:
        """Usage from before there was an account, decayed as if used up when the job last stopped."""
        account = self.account(track.job)
        ended = track.ended_at if track.ended_at >= 0 else self._view.now
        if not track.held_gpu_s or (account.noted and not account.as_of < track.ended_at):
            return  # nothing, or what was noted when it ended
        self.bring_up_to_date(account)
        account.used += track.held_gpu_s * exp(-self._decay * (self._view.now - ended))

    def _release(self, account: Account, track: Track) -> None:
        in_use = self._holding.pop(track.sequence, None)
        if in_use is not None:
            self.bring_up_to_date(account)
            account.in_use = _sum(account.in_use, in_use, -1)
            self._changed[owner(track.job)] = account

    def used(self, account: Account) -> float:
        """Usage decays, and what is in use adds to it, both continuously."""
        past = self._view.now - account.as_of
        if past <= 0 or not self._decay:
            return account.used
        kept = exp(-self._decay * past)
        return account.used * kept + account.in_use[0] / _UNIT * (1.0 - kept) / self._decay

    def bring_up_to_date(self, account: Account) -> None:
        account.used = self.used(account)
        account.as_of = max(account.as_of, self._view.now)

    def serve(self, account: Account, job: Job) -> None:
        study = study_of(job)
        if study:
            account.served = {**account.served, study: self._view._sequence + 0.5}

    def pass_over(self, account: Account, row: _Row) -> None:
        """Set a head aside until the decision is over."""
        track = row[3]
        heappop(account.lanes[track.shape.lane][study_of(track.job)])
        self._lent.append((account, row))
        self._view.room.unsettled = True

    def settle(self) -> None:
        for account, row in self._lent:
            if row[3].turn == row[2]:  # its lane may have been given up meanwhile
                account.add(row)
        self._lent.clear()

    def totals(self) -> tuple[int, float, float, float]:
        """The nodes there are, their GPUs, CPUs and memory; counted anew when there are more."""
        nodes = self._view.room.nodes
        if self._totals[0] != len(nodes):
            self._totals = (
                len(nodes),
                sum(node.gpus for node in nodes) or inf,
                sum(node.cpus for node in nodes),
                sum(node.memory_gb for node in nodes),
            )
        return self._totals


@final
class AccountsSpec:
    """`half_life_s` 0: what users had in the past does not count."""

    def __init__(self, name: str, half_life_s: Seconds) -> None:
        self._name: Final = name
        self._half_life_s: Final = half_life_s

    def build(self, view: View) -> Accounts:
        return Accounts(view, self._name, self._half_life_s)


@final
class _InLine:
    """An account in line: among equal shares the one whose first job was submitted first."""

    def __init__(self, account: Account) -> None:
        self.account: Final = account
        self._first = -1

    def __lt__(self, other: _InLine) -> bool:
        return self.first() < other.first()

    def first(self) -> int:
        if self._first < 0:
            self._first = self.account.first()
        return self._first


def serve_least(
    view: View, spec: AccountsSpec, place: Place, share: Callable[[Account, Accounts], float]
) -> Sequence[Action]:
    """Again and again start the first job that fits of the user with the least share."""
    accounts = view.index(spec)
    assert isinstance(accounts, Accounts)
    if not view.waiting_count:
        return accounts.notes({})
    plan = Plan(view, place)
    # What does not fit now will not fit later in this decision.
    fitting = {lane for lane, (shape, _) in accounts.shapes.items() if place(view.room, shape)}
    line: list[tuple[float, _InLine]] = []
    for account in accounts.of.values():
        if account.waiting and fitting and not fitting.isdisjoint(account.lanes):
            line.append((share(account, accounts), _InLine(account)))
    heapify(line)
    promised: dict[str, tuple[Account, dict[str, float]]] = {}  # by user, with what was served
    while line and fitting:
        account = heappop(line)[1].account
        started = _start_first_that_fits(plan, account, fitting)
        if started is None:
            continue
        accounts.pass_over(account, started)
        job = started[3].job
        promised.setdefault(owner(job), (account, account.served))
        more = _amounts(job.gpus * job.share / WHOLE_GPU, job)
        account.promised = _sum(account.promised, more)
        accounts.serve(account, job)
        if account.heads(fitting & account.lanes.keys()):
            heappush(line, (share(account, accounts), _InLine(account)))
    after = {who: account.served for who, (account, _) in promised.items()}
    for account, served in promised.values():
        account.promised, account.served = (0, 0, 0), served
    return [*accounts.notes(after), *plan.actions]


def _start_first_that_fits(plan: Plan, account: Account, fitting: set[int]) -> _Row | None:
    """Lanes for which there is no room any more are taken out of those that fit."""
    heads = account.heads(fitting & account.lanes.keys())
    for row in sorted(heads, key=lambda row: account.place(row[3].job, row[1])):
        lane = row[3].shape.lane
        if lane in fitting:
            if plan.start(row[3]):
                return row
            fitting.discard(lane)
    return None


def _used(account: Account, accounts: Accounts) -> float:
    return accounts.used(account) / account.weight


def _dominant_share(account: Account, accounts: Accounts) -> float:
    """The largest of the user's parts of the cluster's GPUs, CPUs and memory."""
    _, gpus, cpus, memory_gb = accounts.totals()
    in_use = _sum(account.in_use, account.promised)
    share = in_use[0] / gpus
    if in_use[1]:
        share = max(share, in_use[1] / cpus)
    if in_use[2]:
        share = max(share, in_use[2] / memory_gb)
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
        object.__setattr__(self, "_accounts", AccountsSpec("fair-share", self.half_life_s))

    def decide(self, view: View) -> Sequence[Action]:
        return serve_least(view, self._accounts, self.place, _used)

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        accounts = view.index(self._accounts)
        assert isinstance(accounts, Accounts)

        def had(who: str) -> float:
            return _used(accounts.of[who], accounts) if who in accounts.of else 0.0

        def told(who: str, gpu_s: float) -> str:
            return f"{who} has used {between_users.gpu_time(gpu_s)} lately"

        place = accounts.account(track.job).place
        return between_users.ahead(track, waiting, place, had, told)

    def lineup(self, view: View) -> Lineup:
        return between_users.lineup(view)


@dataclass(frozen=True, kw_only=True)
class Drf:
    """Dominant resource fairness: the user with the least dominant share of what is in use now first."""

    place: Place = consolidated
    _accounts: AccountsSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_accounts", AccountsSpec("drf", 0.0))

    def decide(self, view: View) -> Sequence[Action]:
        return serve_least(view, self._accounts, self.place, _dominant_share)

    def ahead(self, view: View, track: Track, waiting: Sequence[Track]) -> Sequence[Ahead]:
        def told(who: str, gpus: float) -> str:
            return f"{who} holds {gpus:g} GPUs"

        accounts = view.index(self._accounts)
        assert isinstance(accounts, Accounts)
        place = accounts.account(track.job).place
        return between_users.ahead(track, waiting, place, between_users.holding(view), told)

    def lineup(self, view: View) -> Lineup:
        return between_users.lineup(view)
