"""The costs of a run, and the costs that policies believe, from the options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from dovetail.experiments.experiment import with_errors
from dovetail.models.cost import FREE, Costs
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.models.workload import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The options of `dovetail simulate` and `dovetail compare`, by their names there."""

    cluster: str | None
    placement: str
    predictor: str
    interruption_cost: str | None
    tenants: str | None
    quotas: str | None
    node_events: str | None
    node_failures: str | None
    kind_speed: Sequence[str]
    across_nodes: float
    across_racks: float
    speed_table: str | None
    measured_on: str | None
    speeds: str
    pair_speed: float | None
    scaling: float
    applications: str | None
    round_: float
    restart: float
    convergence: str
    batches: str | None
    costs: str | None
    price: str | None
    carbon: str | None
    pue: float | None
    switch_on_cost: float | None
    move_cost: float | None
    power_table: Sequence[str]
    time_error: float
    price_error: float
    carbon_error: float
    format_: str | None
    durations: str | None
    skip_bad_rows: bool
    seed: int
    out: Path | None
    as_json: bool


def costs_given(
    options: SimulationOptions, known: Costs, kinds: Sequence[str], arrivals: Sequence[Arrival]
) -> Costs:
    """The known costs, changed by the options."""
    from dovetail.traces.clusters.hourly_tables import read_hourly

    said: dict[str, Any] = {}
    for name in ("price", "carbon"):
        table: str | None = getattr(options, name)
        if table is not None:
            said[name] = read_hourly(table, name)
    for name, key in (("pue", "pue"), ("switch_on_cost", "switch_on"), ("move_cost", "move")):
        if getattr(options, name) is not None:
            said[key] = getattr(options, name)
    if "price" in said and known.usual_price is None and known.price is not FREE:
        said["usual_price"] = known.price.mean  # what the tables of money per hour were made with
    said["power"] = _power(options.power_table, kinds, arrivals)
    costs = replace(known, **said)
    if options.costs or costs.price is not FREE or costs.carbon is not FREE:
        _tell_without_watts(costs, kinds, in_a_folder=not options.cluster)
    return costs


def _tell_without_watts(costs: Costs, kinds: Sequence[str], in_a_folder: bool) -> None:
    """Energy that is unknown must not be taken for none."""
    from dovetail.traces.clusters.cost_files import NAME_WATTS, told_without_watts

    way_out = f"{NAME_WATTS}, or idle_watts and gpu_watts in a TOML file of --cluster"
    if in_a_folder:
        way_out = "add the columns PowerConsumption[W], EnergyCost[€/kWh] and PUE to GPU-costs.csv"
    line = told_without_watts(costs, kinds, way_out)
    if line:
        click.echo(f"note: {line}", err=True)


def costs_believed(options: SimulationOptions, costs: Costs) -> Costs | None:
    """The costs that policies believe; None: the truth."""
    price, carbon = options.price_error, options.carbon_error
    return with_errors(costs, price, carbon, options.seed) if price or carbon else None


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
