"""What a run costs and what policies believe that it costs, from the options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from dovetail.experiments.experiment import with_errors
from dovetail.models.cost import FREE, Costs
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.models.workload import Arrival


def costs_given(
    options: dict[str, Any], known: Costs, kinds: Sequence[str], arrivals: Sequence[Arrival]
) -> Costs:
    """What is known of costs, and what the options say beyond."""
    from dovetail.traces.clusters.hourly_tables import read_hourly

    said: dict[str, Any] = {}
    for name in ("price", "carbon"):
        if options[name] is not None:
            said[name] = read_hourly(options[name], name)
    for name, key in (("pue", "pue"), ("switch_on_cost", "switch_on"), ("move_cost", "move")):
        if options[name] is not None:
            said[key] = options[name]
    if "price" in said and known.usual_price is None and known.price is not FREE:
        said["usual_price"] = known.price.mean  # what the tables of money per hour were made with
    said["power"] = _power(options["power_table"], kinds, arrivals)
    costs = replace(known, **said)
    if options["costs"] or costs.price is not FREE or costs.carbon is not FREE:
        _tell_without_watts(costs, kinds, in_a_folder=not options["cluster"])
    return costs


def _tell_without_watts(costs: Costs, kinds: Sequence[str], in_a_folder: bool) -> None:
    """So that nobody takes energy that nobody knows for none."""
    from dovetail.traces.clusters.cost_files import NAME_WATTS, told_without_watts

    way_out = f"{NAME_WATTS}, or idle_watts and gpu_watts in a TOML file of --cluster"
    if in_a_folder:
        way_out = "add the columns PowerConsumption[W], EnergyCost[€/kWh] and PUE to GPU-costs.csv"
    line = told_without_watts(costs, kinds, way_out)
    if line:
        click.echo(f"note: {line}", err=True)


def costs_believed(options: dict[str, Any], costs: Costs) -> Costs | None:
    """None: the truth."""
    price, carbon = options["price_error"], options["carbon_error"]
    return with_errors(costs, price, carbon, options["seed"]) if price or carbon else None


def _power(texts: Sequence[str], kinds: Sequence[str], arrivals: Sequence[Arrival]) -> PowerTable:
    if not texts:
        return NO_LIMITS
    from dovetail.traces.clusters.power_tables import read_power_tables

    table = read_power_tables(texts, kinds)
    if not any(arrival.job.model in table.models for arrival in arrivals):
        examples = ", ".join(repr(model) for model in sorted(table.models)[:2])
        click.echo(
            f"note: no job of the trace has a model of the power table, such as {examples}",
            err=True,
        )
    return table
