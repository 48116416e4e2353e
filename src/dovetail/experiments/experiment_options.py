"""A simulation from the options of a command: jobs, nodes, speeds, costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from dovetail import traces
from dovetail.core.entries import NodeJoined
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.experiments.cost_options import SimulationOptions, costs_believed, costs_given
from dovetail.experiments.experiment import Experiment, with_interruption_cost, with_time_error
from dovetail.models.cost import Costs, rates_of
from dovetail.models.epochs import POLLUX_ROUND_S, RoundRules, Training
from dovetail.models.failures import NodeFailures
from dovetail.models.leases import in_leases
from dovetail.models.speed_table import SpeedTable, model_type
from dovetail.models.workload import Arrival
from dovetail.text.counting import counted
from dovetail.traces.clusters.cluster_text import (
    read_cluster,
    read_cluster_tenants,
    read_tenants,
    split_by_tenants,
)
from dovetail.traces.clusters.cost_files import read_costs
from dovetail.traces.readers.andreas_folder import is_instance, read_instance
from dovetail.traces.readers.cells import LARGEST_AMOUNT


def experiment_given(trace: str, options: SimulationOptions, policies: list[str]) -> Experiment:
    _check_none_empty(options)
    speed_table, training = _speed_table(options), _training(options)
    arrivals, nodes, known = _given(trace, options, speed_table, training)
    _check_counts(arrivals, speed_table)
    if options.interruption_cost:
        arrivals = with_interruption_cost(arrivals, *interruption(options.interruption_cost))
    if options.time_error:
        arrivals = with_time_error(arrivals, options.time_error, options.seed)
    if options.tenants:
        nodes = split_by_tenants(nodes, options.tenants)
    _check_factors(options)
    events = _node_events(options, nodes)
    kinds = _kinds(nodes, events)
    costs = costs_given(options, known, kinds, arrivals)
    experiment = Experiment(
        arrivals,
        nodes,
        tenants=read_tenants(options.quotas)
        if options.quotas
        else read_cluster_tenants(options.cluster or ""),
        node_events=events,
        failures=_failures(options),
        placement=_placement(options),
        predictor=options.predictor,
        kind_speeds=_kind_speeds(options.kind_speed, kinds),
        across_nodes=options.across_nodes,
        across_racks=options.across_racks,
        pair_speed=options.pair_speed,
        seed=options.seed,
        costs=costs,
        believed=costs_believed(options, costs),
        speed_table=speed_table,
        speeds=options.speeds,
        scaling=options.scaling,
        training=training,
        round_s=_round_s(options),
        batches=options.batches or "",
    )
    for name in policies:
        experiment.policy(name)  # a wrong name or parameter is reported before anything runs
    _tell_models_without_speed(experiment)
    return experiment


def _given(
    trace: str,
    options: SimulationOptions,
    table: SpeedTable | None,
    training: Training | None,
) -> tuple[Sequence[Arrival], tuple[Node, ...], Costs]:
    """The jobs, the cluster, and the costs."""
    if is_instance(trace):
        if options.cluster:
            raise click.UsageError(
                f"{trace} is a folder with nodes of its own; leave --cluster out"
            )
        if options.costs:
            raise click.UsageError(f"{trace} is a folder with costs of its own; leave --costs out")
        instance = read_instance(trace)
        return instance.trace.arrivals, instance.nodes, instance.costs
    if not options.cluster:
        raise click.UsageError("give the nodes with --cluster, such as 8x8, or a folder as TRACE")
    seconds = traces.read_durations(options.durations) if options.durations else None
    found = traces.read(
        trace, options.format_, options.skip_bad_rows, seconds, table, training=training
    )
    _tell_bad_rows(found)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    nodes = read_cluster(options.cluster)
    arrivals = found.arrivals
    if options.round_ and table is not None and found.format.startswith("gavel"):
        arrivals = in_leases(arrivals, table, _kinds(nodes, ()), options.round_)
    known = read_costs(options.costs).costs(nodes) if options.costs else None
    return arrivals, nodes, known or Costs(rates_of(nodes))


def _speed_table(options: SimulationOptions) -> SpeedTable | None:
    from dovetail.traces.clusters.speed_tables import read_speed_table

    if options.speed_table is None:
        if options.measured_on:
            raise click.UsageError("--measured-on goes with --speed-table")
        return None
    return read_speed_table(options.speed_table, options.measured_on or "")


def _training(options: SimulationOptions) -> Training | None:
    """What the jobs of a workload of Pollux train, and by which rules."""
    folder = options.applications
    if folder is None:
        return None
    from dovetail.traces.clusters.applications import read_applications
    from dovetail.traces.clusters.applications_by_kind import is_by_kind, read_by_kind

    rules = RoundRules(_round_s(options), options.restart, options.convergence)
    if not is_by_kind(folder):
        return Training(read_applications(folder), rules)
    kinds = list(dict.fromkeys([node.kind for node in read_cluster(options.cluster or "")]))
    tables = read_by_kind(folder, kinds)
    first = {name: own[kinds[0]] for name, own in tables.applications.items()}
    return Training(first, rules, tables)


def _round_s(options: SimulationOptions) -> float:
    return options.round_ or (POLLUX_ROUND_S if options.applications else 0.0)


def _placement(options: SimulationOptions) -> str:
    """As in Pollux' simulator, unless another is named."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("placement")
    if options.applications and source is ParameterSource.DEFAULT:
        return "emptiest"
    return options.placement


def _check_counts(arrivals: Sequence[Arrival], table: SpeedTable | None) -> None:
    """An elastic job must not run on numbers of GPUs of which its table says nothing."""
    for job in [arrival.job for arrival in arrivals if not arrival.job.simple]:
        own = table.nearest(model_type(job.model)) if table and job.elastic else None
        if table is None or own is None or job.options:
            continue
        most = max(hardware.gpus for hardware in table.speeds[own])
        if job.most_gpus > most:
            raise BadInput(
                f"job {job.id!r} may have up to {job.most_gpus} GPUs, and the speed table has "
                f"{own} on at most {most}: give it max_gpus {most}, or measure more"
            )


def _tell_models_without_speed(experiment: Experiment) -> None:
    """A run on equal GPUs must not be taken for one on the measured ones."""
    table = experiment.speed_table
    if table is None:
        return
    jobs = [arrival.job for arrival in experiment.arrivals]
    unknown = [job.model for job in jobs if table.nearest(model_type(job.model)) is None]
    if unknown:
        named = f", such as {unknown[0]!r}" if unknown[0] else ""
        click.echo(
            f"note: {counted(len(unknown), 'job')} of {len(jobs)} run a model that the speed table "
            f"lacks{named}: their speed does not depend on it",
            err=True,
        )
    strange = sorted({node.kind for node in experiment.nodes if not table.kind_of(node.kind)})
    if strange:
        click.echo(
            f"note: the speed table lacks the GPU kind {', '.join(strange)}; it has "
            f"{', '.join(table.kinds)}",
            err=True,
        )


def _tell_bad_rows(found: traces.Trace) -> None:
    if found.bad_rows:
        click.echo(
            f"skipped {counted(len(found.bad_rows), 'bad row')}; the first: {found.bad_rows[0]}",
            err=True,
        )


def _check_none_empty(options: SimulationOptions) -> None:
    for name in options.__slots__:
        if getattr(options, name) == "":
            raise BadInput(
                f"--{name.replace('_', '-')} has an empty value; give one or leave it out"
            )


def _check_factors(options: SimulationOptions) -> None:
    for name in ("across_nodes", "across_racks", "pair_speed", "scaling"):
        speed: float | None = getattr(options, name)
        if speed is not None and not 0 < speed < 1e6:
            raise BadInput(
                f"--{name.replace('_', '-')} {speed:g}: give a positive speed, such as 0.8"
            )
    for name, least, most in (
        ("pue", 1.0, 100.0), ("switch_on_cost", 0.0, LARGEST_AMOUNT), ("move_cost", 0.0, LARGEST_AMOUNT),
        ("restart", 0.0, 1e9), ("round_", 0.0, 1e9),
        ("time_error", 0.0, 0.99), ("price_error", 0.0, 0.99), ("carbon_error", 0.0, 0.99),
    ):  # fmt: skip
        value: float | None = getattr(options, name)
        if value is not None and not least <= value <= most:
            raise BadInput(
                f"--{name.strip('_').replace('_', '-')} {value:g}: give {least:g} to {most:g}"
            )


def interruption(text: str) -> tuple[float, float]:
    """`30` or `5/20` as seconds to save and to restore."""
    save, _, restore = text.rpartition("/")
    try:
        costs = float(save or 0), float(restore)
    except ValueError:
        costs = (-1.0, -1.0)
    if not all(0 <= cost < 1e12 for cost in costs):
        raise BadInput(f"--interruption-cost {text!r}: give seconds, such as 30 or 5/20")
    return costs


def _kinds(nodes: Sequence[Node], events: Sequence[Any]) -> list[str]:
    joining = [event.node for event in events if isinstance(event, NodeJoined)]
    return sorted({node.kind for node in (*nodes, *joining)})


def _kind_speeds(texts: Sequence[str], kinds: Sequence[str]) -> dict[str, float]:
    speeds = dict(_kind_speed(text) for text in texts)
    for kind in speeds:
        if kind not in kinds:
            raise BadInput(
                f"--kind-speed: no node has GPUs of kind {kind!r}; there is {', '.join(kinds)}"
            )
    return speeds


def _kind_speed(text: str) -> tuple[str, float]:
    kind, _, speed = text.partition("=")
    try:
        value = float(speed)
    except ValueError:
        value = 0.0
    if not kind or not 0 < value < 1e6:
        raise BadInput(f"--kind-speed {text!r}: give a kind and a positive speed, such as T4=0.4")
    return kind, value


def _node_events(options: SimulationOptions, nodes: tuple[Node, ...]) -> list[Any]:
    from dovetail.traces.clusters.node_events import read_node_events

    return read_node_events(options.node_events, nodes) if options.node_events else []


def _failures(options: SimulationOptions) -> NodeFailures | None:
    from dovetail.traces.clusters.node_events import random_failures

    text = options.node_failures
    return random_failures(text, options.seed) if text is not None else None
