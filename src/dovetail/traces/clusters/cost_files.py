"""Costs from a TOML file: money and carbon per kWh, watts or money of a node by kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from os.path import dirname, join
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.cost import FREE, Costs, NodeRates, rates_of
from dovetail.models.hourly import Hourly
from dovetail.traces.clusters.hourly_tables import read_hourly
from dovetail.traces.clusters.toml_tables import read_toml
from dovetail.traces.readers.cells import LARGEST_AMOUNT

KNOWN = ("price", "carbon", "pue", "switch_on", "move", "watts", "per_hour", "currency")
NAME_WATTS = "name them under [watts] in the file of --costs"
_LONGEST = 8  # name of a currency
_TABLE = "the number for 1 busy GPU, for 2, and so on, such as H100 = [700, 1300]"


@dataclass(frozen=True, slots=True)
class CostFile:
    """The contents of the file; values it does not give come from the nodes, or are 0."""

    price: Hourly = FREE
    carbon: Hourly = FREE
    pue: float = 1.0
    switch_on: float = 0.0
    move: float = 0.0
    rates: dict[str, NodeRates] = field(default_factory=dict)  # by GPU kind
    currency: str = ""

    def costs(self, nodes: Iterable[Node]) -> Costs:
        return Costs(
            {**rates_of(nodes), **self.rates},
            price=self.price,
            carbon=self.carbon,
            pue=self.pue,
            switch_on=self.switch_on,
            move=self.move,
            currency=self.currency,
        )


def told_without_watts(costs: Costs, kinds: Iterable[str], way_out: str = NAME_WATTS) -> str:
    """One line that names the GPU kinds whose energy counts as 0 because no watts are known."""
    unknown = ", ".join(costs.without_watts(dict.fromkeys(kinds)))
    return f"no watts are known of {unknown}: its energy counts as 0; {way_out}" if unknown else ""


def read_costs(path: str) -> CostFile:
    found = read_toml(path)
    for key in found:
        if key not in KNOWN:
            raise BadInput(f"{path}: {key!r} is not known; known are {', '.join(KNOWN)}")
    said: dict[str, Any] = {
        name: _hourly(path, name, found[name]) for name in ("price", "carbon") if name in found
    }
    for name, least in (("pue", 1.0), ("switch_on", 0.0), ("move", 0.0)):
        if name in found:
            said[name] = _number(f"{path}: {name}", found[name], least)
    if "currency" in found:
        said["currency"] = _currency(path, found["currency"])
    return CostFile(**said, rates=_rates(path, found))


def _hourly(path: str, name: str, value: object) -> Hourly:
    """A number, or the name of a table beside this file."""
    if isinstance(value, str):
        return read_hourly(join(dirname(path), value), name)
    return Hourly([_number(f"{path}: {name}", value)], name)


def _currency(path: str, value: object) -> str:
    if isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= _LONGEST:
        return value.strip()
    raise BadInput(f"{path}: currency: {value!r} is none; write its sign or name, such as EUR")


def _rates(path: str, found: dict[str, Any]) -> dict[str, NodeRates]:
    watts, money = _tables(path, "watts", found), _tables(path, "per_hour", found)
    kinds = dict.fromkeys([*watts, *money])
    return {kind: NodeRates(watts.get(kind, ()), money.get(kind, ())) for kind in kinds}


def _tables(path: str, name: str, found: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    given = found.get(name, {})
    if not isinstance(given, dict):
        raise BadInput(f"{path}: {name} is no table; write [{name}] and below it {_TABLE}")
    tables = {}
    for kind, row in given.items():
        where = f"{path}: {name}.{kind}"
        if not isinstance(row, list) or not row:
            raise BadInput(f"{where}: {row!r} is no list; give {_TABLE}")
        tables[kind] = (0.0, *(_number(where, value) for value in row))
    return tables


def _number(where: str, value: object, least: float = 0.0) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not least <= value <= LARGEST_AMOUNT
    ):
        raise BadInput(
            f"{where}: {value!r} is no such number; give {least:g} or more, up to {LARGEST_AMOUNT:g}"
        )
    return float(value)
