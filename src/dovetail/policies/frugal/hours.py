"""The cheap hours in which a job had better run."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple, final

from dovetail.core.model import Seconds
from dovetail.models.cost import GRAMS_IN_KG, Costs
from dovetail.models.hourly import DAY, HOUR_S, Hourly

NEARLY_AS_CHEAP: Final = 0.02  # of the usual price: too little to wait for
WEEK_S: Final = 168 * HOUR_S  # nobody looks further ahead


class CheapHours(NamedTuple):
    """For one job: the time until its deadline in which energy is cheap enough, whether it is dear now,
    and how much dearer now is than the dearest of those hours, as a part of the usual price."""

    window: Seconds
    dear: bool
    excess: float


def signal(costs: Costs, per_kg: float) -> Hourly | None:
    """The price of a kWh by the hour, its carbon counted at so much money per kg; None if it never
    changes."""
    price, carbon = costs.price, costs.carbon
    if not per_kg or carbon.constant:
        return None if price.constant else price
    tables = price.values, carbon.values
    hours = max([len(table) for table in tables])
    if any([len(table) not in (1, DAY, hours) for table in tables]):
        hours = min([len(table) for table in tables if len(table) not in (1, DAY)])
    values = [
        tables[0][hour % len(tables[0])] + per_kg * tables[1][hour % len(tables[1])] / GRAMS_IN_KG
        for hour in range(hours)
    ]
    begins = carbon.begins if price.constant else price.begins
    return Hourly(values, "price with carbon", begins)


@final
class PriceForecast:
    """The coming hours, the cheapest first."""

    def __init__(self, table: Hourly, now: Seconds) -> None:
        end = min(now + WEEK_S, table.ends)
        self._present: Final = table.at(now)
        self._usual: Final = abs(table.mean)
        hours = []
        while now < end:
            then = min(table.changes_after(now), end)
            hours.append((table.at(now), now, then))
            now = then
        self._hours: Final = sorted(hours)

    def outlook(self, deadline: Seconds, needs: Seconds) -> CheapHours:
        """The hours of a job that takes the cheapest ones before its deadline."""
        window, limit, allowed = 0.0, self._present, inf
        for price, start, end in self._hours:
            if start >= deadline:
                continue
            if price > allowed:
                break
            window += min(end, deadline) - start
            if allowed == inf:
                limit = price
                if window >= needs:
                    allowed = price + NEARLY_AS_CHEAP * self._usual
        excess = (self._present - limit) / self._usual if self._usual else 0.0
        return CheapHours(window, self._present > allowed, excess)
