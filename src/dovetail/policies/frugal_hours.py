"""When it is cheap: the hours in which a job had better run."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from dovetail.core.model import Seconds
from dovetail.models.cost import GRAMS_IN_KG, Costs
from dovetail.models.hourly import DAY, HOUR_S, Hourly

NEARLY_AS_CHEAP: Final = 0.02  # of the usual price: too little to wait for
WEEK_S: Final = 168 * HOUR_S  # nobody looks further ahead


class Outlook(NamedTuple):
    """For one job: the time until its deadline in which energy is cheap enough, whether it is now,
    and how much dearer now is than the dearest of those hours, as a part of the usual price."""

    window: Seconds
    dear: bool
    excess: float


def signal(costs: Costs, per_kg: float) -> Hourly | None:
    """What a kWh costs from hour to hour, its carbon counted at so much money per kg; None if it is
    always the same."""
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
    return Hourly(values, "price with carbon")


def outlook(table: Hourly, now: Seconds, deadline: Seconds, needs: Seconds) -> Outlook:
    """Which hours the job needs if it takes the cheapest ones before its deadline."""
    hours = _hours(table, now, deadline)
    if not hours:
        return Outlook(inf, False, 0.0)
    usual = abs(table.mean)
    covered, limit = 0.0, hours[0][0]
    for price, seconds in sorted(hours):
        limit = price
        covered += seconds
        if covered >= needs:
            break
    allowed = limit + NEARLY_AS_CHEAP * usual
    window = sum([seconds for price, seconds in hours if price <= allowed])
    present = hours[0][0]
    return Outlook(window, present > allowed, (present - limit) / usual if usual else 0.0)


def _hours(table: Hourly, now: Seconds, deadline: Seconds) -> list[tuple[float, Seconds]]:
    """Price and length of every hour or part of one from now on."""
    end = min(deadline, now + WEEK_S, table.ends)
    hours = []
    while now < end:
        then = min(table.changes_after(now), end)
        hours.append((table.at(now), then - now))
        now = then
    return hours
