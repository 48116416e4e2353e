"""The costs of running jobs: energy by GPU kind, busy GPUs and hour; lateness, switching, moving.

A policy is given the same object as an estimate that the books are kept with as the truth; whoever
wants an error between the two gives them two objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dovetail.core.model import Job, Node, Seconds, remade
from dovetail.models.hourly import HOUR_S, Hourly
from dovetail.models.power import NO_LIMITS, PowerTable

WATTS_IN_KW: Final = 1000.0
GRAMS_IN_KG: Final = 1000.0
# Money a second after the deadline for priorities 1 to 5, as the ANDREAS service has it.
LATE_BY_PRIORITY: Final = (0.00025371, 0.00030128, 0.00034885, 0.00039642, 0.00044399)
FREE: Final = Hourly([0.0], "price")


@dataclass(frozen=True, slots=True)
class NodeRates:
    """A whole node of one kind, by how many of its GPUs are busy; the first entry is for none, when
    it is off."""

    watts: tuple[float, ...] = ()
    per_hour: tuple[float, ...] = ()  # money, at the usual price; empty: as the watts say
    gpu_watts: float | None = None  # of the watts, what each busy GPU adds; None: by the table

    def __post_init__(self) -> None:
        if not all([value >= 0 for value in (*self.watts, *self.per_hour)]):
            raise ValueError("a node cannot draw or cost less than nothing")

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)

    @property
    def watts_a_gpu(self) -> float:
        """The part of the watts that is a busy GPU's own."""
        if self.gpu_watts is not None:
            return self.gpu_watts
        first, last = self.watts[1], self.watts[-1]
        return (last - first) / (len(self.watts) - 2) if len(self.watts) > 2 else first


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that has a price. A node without jobs is off."""

    rates: Mapping[str, NodeRates] = field(default_factory=dict)  # by GPU kind
    price: Hourly = FREE  # money per kWh
    usual_price: float | None = None  # what `per_hour` was made with; None: the mean of `price`
    carbon: Hourly = FREE  # grams of CO2 per kWh
    pue: float = 1.0  # power of the whole site over that of its computers
    late_by_priority: tuple[float, ...] = LATE_BY_PRIORITY
    switch_on: float = 0.0  # money for each time a node is switched on
    move: float = 0.0  # money for each time a job goes on elsewhere
    by_node: Mapping[str, float] = field(default_factory=dict)  # money per hour in use, by node id
    power: PowerTable = NO_LIMITS  # speed and watts under power limits, by model and kind
    currency: str = ""  # of all money; "": nobody has said

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)

    def per_hour(self, kind: str, busy: int) -> float:
        """Money per hour for a node of that kind with so many busy GPUs, at the usual price."""
        rates = self.rates.get(kind)
        if rates is None:
            return 0.0
        if rates.per_hour:
            return _entry(rates.per_hour, busy)
        return self.usually(_entry(rates.watts, busy) * self.pue)

    def watts(self, kind: str, busy: int) -> float:
        """The watts of the whole node, cooling and losses of the site included."""
        rates = self.rates.get(kind)
        return 0.0 if rates is None else _entry(rates.watts, busy) * self.pue

    def without_watts(self, kinds: Iterable[str]) -> list[str]:
        """Those whose energy counts as nothing because nobody said what they draw. Money by the
        hour stands in for watts, though not where carbon is counted."""
        return [kind for kind in kinds if not self._draws(kind)]

    def _draws(self, kind: str) -> bool:
        rates = self.rates.get(kind, NodeRates())
        in_money = rates.per_hour and self.carbon is FREE
        return bool(rates.watts or in_money or kind in self.power.kinds)

    def extra_watts(self, model: str, kind: str, limit: int) -> float:
        """Of a GPU busy with that model under that limit: beyond what the node's rates have for a
        busy one, cooling and losses of the site included."""
        drawn = self.power.at(model, kind, limit).watts
        return 0.0 if drawn is None else (drawn - self._counted_watts(model, kind)) * self.pue

    def _counted_watts(self, model: str, kind: str) -> float:
        rates = self.rates.get(kind)
        if rates is None:
            return 0.0
        if rates.watts:
            return rates.watts_a_gpu
        return self.power.at(model, kind, 0).watts or 0.0  # money alone: it is for no limit

    def extra_per_hour(self, model: str, kind: str, limit: int) -> float:
        """The same in money per hour, at the usual price."""
        return self.usually(self.extra_watts(model, kind, limit))

    def usually(self, watts: float) -> float:
        """Money per hour for so many watts, at the usual price."""
        return watts / WATTS_IN_KW * self._usual()

    def usual_hours(self, start: Seconds, end: Seconds) -> float:
        """Hours between two times, each counted as often as it is dearer than usual."""
        usual = self._usual()
        if self.price.constant or not usual:
            factor = self.price.values[0] / usual if usual else 1.0
            return (end - start) / HOUR_S * factor
        return self.price.total(start, end) / usual / HOUR_S

    def price_factor(self, when: Seconds) -> float:
        """The price then over the usual one."""
        usual = self._usual()
        return self.price.at(when) / usual if usual else 1.0

    def late_per_s(self, job: Job) -> float:
        """Money for each second after the job's deadline: its own, else by its priority 1 to 5."""
        if job.late_cost_per_s is not None:
            return job.late_cost_per_s
        level = int(job.priority)
        if level == job.priority and 1 <= level <= len(self.late_by_priority):
            return self.late_by_priority[level - 1]
        return 0.0

    def priced(self, price: Hourly) -> Costs:
        """The same with that price of energy, whose mean is then the usual one."""
        usual = self._usual()
        factor = price.mean / usual if usual else 1.0
        rates = {
            kind: replace(rate, per_hour=tuple([factor * money for money in rate.per_hour]))
            for kind, rate in self.rates.items()
        }
        return replace(self, price=price, usual_price=None, rates=rates)

    def _usual(self) -> float:
        return self.price.mean if self.usual_price is None else self.usual_price


def _entry(table: tuple[float, ...], busy: int) -> float:
    """The entry for so many busy GPUs; beyond the table each further one adds what the last did."""
    last = len(table) - 1
    if busy <= last:
        return table[busy]
    if last < 1:
        return 0.0
    step = table[last] - table[last - 1] if last > 1 else table[last]
    return table[last] + (busy - last) * step


def rates_of(nodes: Iterable[Node]) -> dict[str, NodeRates]:
    """By kind, what nodes say of their own power: so much when on, so much more for a busy GPU."""
    rates: dict[str, NodeRates] = {}
    for node in nodes:
        known = rates.get(node.kind)
        if not (node.idle_watts or node.gpu_watts) or (
            known is not None and len(known.watts) > node.gpus
        ):
            continue
        busy = range(1, node.gpus + 1)
        watts = (0.0, *(node.idle_watts + k * node.gpu_watts for k in busy))
        rates[node.kind] = NodeRates(watts, gpu_watts=node.gpu_watts)
    return rates
