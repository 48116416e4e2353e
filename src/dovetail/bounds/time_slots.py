"""The whole run in slots of time as a linear program.

Relaxed, it is a lower bound on what any policy can reach: jobs may run in parts of slots, on parts of
nodes, from the beginning of the slot in which they come. Strict, every job holds its GPUs for whole
slots and nodes are whole: such a schedule can be carried out by who knows the future, so its cost is
what the best policy could reach, up to the length of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, inf
from time import perf_counter
from typing import Final

from dovetail.bounds.by_hand import due, least_per_gpu_hour, widths
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Option, Seconds
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S
from dovetail.models.workload import Arrival

SLOTS_A_JOB: Final = 5  # at least so many for the fastest way of any job
WHOLE_S: Final = 60.0  # slots last so long, or twice, three times, …
LATE_SLOTS: Final = 12  # beyond the deadline, for which a job is followed
SHORTEST_SLOT_S: Final = 1e-3
MOST_VARIABLES: Final = 400_000


class TimeIsUp(Exception):
    """The program could not even be put together in time."""


@dataclass(slots=True)
class Rows:
    """Sparse rows of a linear program: sum of coefficient times variable, at least so much."""

    at: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)

    def add(self, terms: Sequence[tuple[int, float]], least: float) -> None:
        for column, value in terms:
            self.at.append(len(self.least))
            self.columns.append(column)
            self.values.append(value)
        self.least.append(least)


@dataclass(frozen=True, slots=True)
class SlotRun:
    """One job in one way in one slot."""

    column: int
    slot: int
    option: Option


class Slotted:
    """The program being put together: columns are variables, each with a cost and an upper limit."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        nodes: Sequence[Node],
        costs: Costs,
        slot_s: Seconds,
        relaxed: bool,
        limit_s: Seconds = inf,
    ) -> None:
        until = perf_counter() + limit_s
        self._costs: Final = costs
        self._slot_s: Final = slot_s
        self._relaxed: Final = relaxed
        self._wide: Final = widths(nodes)
        self._number: Final = {k: sum(n.kind == k for n in nodes) for k in self._wide}
        self._least: Final = least_per_gpu_hour(costs, nodes)
        self.price: list[float] = []
        self.most: list[float] = []
        self.whole: list[bool] = []
        self.rows: Final = Rows()
        self._on: dict[tuple[str, int], int] = {}  # nodes of a kind that are on in a slot
        self._busy: dict[tuple[str, int], list[tuple[int, float]]] = {}
        self._refuse_if_hopeless(arrivals)
        for arrival in arrivals:
            if perf_counter() > until:
                raise TimeIsUp
            self._add_job(arrival)
        for (kind, slot), terms in self._busy.items():
            self._add_energy(kind, slot, terms)

    def _refuse_if_hopeless(self, arrivals: Sequence[Arrival]) -> None:
        """Before it takes minutes to find out; there will be somewhat more variables than these."""
        least = sum(len(self._options(a)) * len(self._slots(a)) for a in arrivals)
        if least > MOST_VARIABLES:
            raise BadInput(
                f"the program has over {least:,} variables, and {MOST_VARIABLES:,} are the most; give "
                "longer slots with --slot, or a smaller instance"
            )

    def _options(self, arrival: Arrival) -> list[Option]:
        return [o for o in arrival.job.options if o.gpus <= self._wide.get(o.kind, 0)]

    def _slots(self, arrival: Arrival) -> range:
        """Those in which the job is followed."""
        slot_s, at = self._slot_s, arrival.at
        seconds = [option.seconds for option in self._options(arrival)]
        first = floor(at / slot_s) if self._relaxed else ceil(at / slot_s - 1e-9)
        last = ceil(min(max(due(arrival.job), at), (at + max(seconds)) * 4) / slot_s)
        return range(first, max(last, first + ceil(min(seconds) / slot_s)) + LATE_SLOTS)

    def _column(self, price: float, most: float, whole: bool) -> int:
        self.price.append(price)
        self.most.append(most)
        self.whole.append(whole and not self._relaxed)
        return len(self.price) - 1

    def _nodes_on(self, kind: str, slot: int) -> int:
        if (kind, slot) not in self._on:
            self._on[kind, slot] = self._column(0.0, self._number[kind], True)
            self._busy[kind, slot] = []
        return self._on[kind, slot]

    def _add_job(self, arrival: Arrival) -> None:
        options, slots = self._options(arrival), self._slots(arrival)
        runs = [
            SlotRun(self._column(0.0, 1.0, True), slot, option)
            for slot in slots
            for option in options
        ]
        for number, slot in enumerate(slots):
            begins = number * len(options)
            self._add_slot(runs[begins : begins + len(options)], slot)
        work = [(run.column, self._slot_s / run.option.seconds) for run in runs]
        self.rows.add([*work, (self._add_rest(options), 1.0)], 1.0)
        self._add_lateness(arrival, runs, slots)

    def _add_rest(self, options: Sequence[Option]) -> int:
        """What is done after all slots of the job, at the least that it can cost."""
        least = min(o.gpus * o.seconds * self._least[o.kind] for o in options) / HOUR_S
        return self._column(least, 1.0 if self._relaxed else 0.0, False)

    def _add_slot(self, runs: Sequence[SlotRun], slot: int) -> None:
        """One way at a time, and only while a node is on."""
        self.rows.add([(run.column, -1.0) for run in runs], -1.0)
        for kind in dict.fromkeys(run.option.kind for run in runs):
            own = [run for run in runs if run.option.kind == kind]
            on = self._nodes_on(kind, slot)
            self.rows.add([(on, 1.0), *((run.column, -1.0) for run in own)], 0.0)
            self._busy[kind, slot] += [(run.column, float(run.option.gpus)) for run in own]

    def _add_energy(self, kind: str, slot: int, busy: Sequence[tuple[int, float]]) -> None:
        """Busy GPUs fit on the nodes that are on; these cost at least what every line below the
        table of costs says."""
        on = self._on[kind, slot]
        self.rows.add(
            [(on, float(self._wide[kind])), *((column, -gpus) for column, gpus in busy)], 0.0
        )
        hours = self._costs.usual_hours(slot * self._slot_s, (slot + 1) * self._slot_s)
        table = [self._costs.per_hour(kind, k) for k in range(1, self._wide[kind] + 1)]
        lines = _lines(table)
        if _is_straight(table):
            (base, step), *_ = lines
            self.price[on] += base * hours
            for column, gpus in busy:
                self.price[column] += step * gpus * hours
        elif self._relaxed:
            energy = self._column(hours, inf, False)
            for base, step in lines:
                terms = [(column, -step * gpus) for column, gpus in busy]
                self.rows.add([(energy, 1.0), (on, -base), *terms], 0.0)
        else:
            self._add_patterns(on, [cost * hours for cost in table], busy)

    def _add_patterns(
        self, on: int, prices: Sequence[float], busy: Sequence[tuple[int, float]]
    ) -> None:
        """How many of the nodes that are on have 1, 2, … busy GPUs."""
        nodes = [self._column(price, self.most[on], True) for price in prices]
        self.rows.add([(on, -1.0), *((column, 1.0) for column in nodes)], 0.0)
        self.rows.add([(on, 1.0), *((column, -1.0) for column in nodes)], 0.0)
        room = [(column, float(k)) for k, column in enumerate(nodes, 1)]
        self.rows.add([*room, *((column, -gpus) for column, gpus in busy)], 0.0)

    def _add_lateness(self, arrival: Arrival, runs: Sequence[SlotRun], slots: range) -> None:
        """The job is late by every slot after its deadline at whose end (strictly: beginning) it is
        not done; and by what no way can avoid."""
        late_per_s, deadline = self._costs.late_per_s(arrival.job), due(arrival.job)
        if not late_per_s or deadline == inf:
            return
        fastest = arrival.at + min(run.option.seconds for run in runs)
        late = self._column(late_per_s, inf, False)
        terms = [(late, 1.0)]
        for slot in slots:
            begins, ends = slot * self._slot_s, (slot + 1) * self._slot_s
            if ends <= deadline or (self._relaxed and begins < deadline):
                continue
            done_in = slot + 1 if self._relaxed else slot
            undone = self._column(0.0, 1.0, True)
            terms.append((undone, max(begins, deadline) - ends))
            work = [(r.column, self._slot_s / r.option.seconds) for r in runs if r.slot < done_in]
            self.rows.add([(undone, 1.0), *work], 1.0)
        self.rows.add(terms, 0.0)
        self.rows.add([(late, 1.0)], max(0.0, fastest - deadline))


def _is_straight(table: Sequence[float]) -> bool:
    steps = [after - before for before, after in pairwise(table)]
    return all(abs(step - steps[0]) <= 1e-9 for step in steps)


def _lines(table: Sequence[float]) -> list[tuple[float, float]]:
    """Straight lines (base, step) of which none lies above the costs of 1, 2, … busy GPUs, and the
    highest of which touches them wherever a line can."""
    if len(table) == 1:
        return [(0.0, table[0])]
    found: list[tuple[float, float]] = []
    for i in range(len(table)):
        for j in range(i + 1, len(table)):
            step = (table[j] - table[i]) / (j - i)
            base = table[i] - step * (i + 1)
            below = all(base + step * (k + 1) <= cost + 1e-12 for k, cost in enumerate(table))
            if below and not any(abs(base - b) < 1e-12 and abs(step - s) < 1e-12 for b, s in found):
                found.append((base, step))
    return found


def usual_slot_s(arrivals: Sequence[Arrival]) -> Seconds:
    fastest = min(option.seconds for a in arrivals for option in a.job.options)
    return WHOLE_S * max(1, ceil(fastest / SLOTS_A_JOB / WHOLE_S))
