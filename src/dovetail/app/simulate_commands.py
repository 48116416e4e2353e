"""`dovetail simulate` and `dovetail compare`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

import click

from dovetail import traces
from dovetail.app.costs_given import costs_believed, costs_given
from dovetail.app.experiment import (
    PREDICTORS,
    Experiment,
    with_interruption_cost,
    with_time_error,
)
from dovetail.app.objectives import OBJECTIVES, Objective, judged, objective_of
from dovetail.app.outputs import (
    REPORT,
    named,
    prepare_comparison,
    prepare_run,
    write_comparison,
    write_page,
    write_run,
)
from dovetail.app.parallel import simulate_all
from dovetail.app.table import counted, searches_told, table, told
from dovetail.core.entries import NodeJoined
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.cost import Costs, rates_of
from dovetail.models.failures import NodeFailures
from dovetail.models.speed_table import SpeedTable, model_type
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.predict.speed import SPEEDS
from dovetail.traces.clusters import (
    read_cluster,
    read_cluster_tenants,
    read_tenants,
    split_by_tenants,
)
from dovetail.traces.cost_files import read_costs
from dovetail.traces.instances import is_instance, read_instance
from dovetail.traces.record import RunRecord


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both commands understand."""
    choices: list[Callable[..., Any]] = [
        click.argument("trace"),
        click.option(
            "--cluster",
            help="8x8, 4x8:V100+2x4:T4, or a TOML file. A folder as TRACE brings its own.",
        ),
        click.option(
            "--placement",
            type=click.Choice(list(PLACEMENTS)),
            default="consolidated",
            show_default=True,
            help="Where jobs go.",
        ),
        click.option(
            "--predictor",
            type=click.Choice(list(PREDICTORS)),
            default="oracle",
            show_default=True,
            help="What policies that need durations are told.",
        ),
        click.option(
            "--interruption-cost",
            metavar="[SAVE/]RESTORE",
            help="Seconds to restore a preempted job, and to save it: 30 or 5/20. "
            "For jobs whose trace names no cost of their own.",
        ),
        click.option("--tenants", metavar="FILE", help="Split the cluster among tenants."),
        click.option("--quotas", metavar="FILE", help="TOML with a GPU quota for each tenant."),
        click.option("--node-events", metavar="FILE", help="CSV: at_s,node,event (see the docs)."),
        click.option(
            "--node-failures",
            metavar="MTBF/REPAIR",
            help="Mean hours between failures of a node, and to repair it: 2000/4.",
        ),
        click.option(
            "--kind-speed", metavar="KIND=X", multiple=True, help="Speed of a GPU kind: T4=0.4."
        ),
        click.option(
            "--across-nodes", default=1.0, show_default=True, help="Speed of a gang over nodes."
        ),
        click.option("--across-racks", default=1.0, show_default=True, help="Further, over racks."),
        click.option(
            "--speed-table",
            metavar="FILE",
            help="How fast models run on which GPUs: CSV model,kind,gpus,steps_per_s, or a table of "
            "Gavel or Pollux.",
        ),
        click.option(
            "--measured-on",
            metavar="KIND",
            help="With --speed-table: the GPU kind that durations of TRACE are of.  [that on which "
            "most models are fastest]",
        ),
        click.option(
            "--speeds",
            type=click.Choice(list(SPEEDS)),
            default="similar",
            show_default=True,
            help="With --speed-table: what policies that ask for speeds are told.",
        ),
        click.option("--pair-speed", type=float, help="Speed of each of two jobs on one GPU."),
        click.option("--costs", metavar="FILE", help="TOML with prices and watts, as for up."),
        click.option("--price", metavar="X|FILE", help="Money per kWh, or a table by the hour."),
        click.option("--carbon", metavar="X|FILE", help="Grams of CO2 per kWh, or a table."),
        click.option("--pue", type=float, help="Power of the site over that of its nodes: 1.33."),
        click.option("--switch-on-cost", type=float, help="Money to switch a node on."),
        click.option("--move-cost", type=float, help="Money to move a job to other nodes."),
        click.option(
            "--time-error",
            default=0.0,
            help="Jobs really take up to that part more or less than their options say: 0.1.",
        ),
        click.option(
            "--price-error",
            default=0.0,
            help="Policies believe every hour's price up to that part too high or low.",
        ),
        click.option("--carbon-error", default=0.0, help="The same for the carbon."),
        click.option(
            "--power-table",
            metavar="[KIND=]FILE",
            multiple=True,
            help="CSV: time and watts of models under power limits (see the docs).",
        ),
        click.option("--format", "format_", type=click.Choice(list(traces.FORMATS))),
        click.option("--durations", metavar="FILE", help="CSV application,seconds, for Pollux."),
        click.option("--skip-bad-rows", is_flag=True, help="Count bad rows and go on."),
        click.option("--seed", default=0, show_default=True, help="Of failures and noise."),
        click.option(
            "--out", metavar="FOLDER", callback=named, help="For results and report.html."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
    ]
    for choice in reversed(choices):
        command = choice(command)
    return command


@click.command()
@click.option("--policy", required=True, help="Such as srtf, or tiresias:queues=2:limits=18000.")
@_options
def simulate(trace: str, policy: str, **options: Any) -> None:
    """Run the jobs of TRACE on a simulated cluster under one policy."""
    if "," in policy:
        raise click.UsageError(
            f"--policy takes one; for several: dovetail compare --policies {policy}"
        )
    out = options["out"]
    experiment = _experiment(trace, options, [policy])
    folders = [prepare_run(out, trace) if out else None]
    (record,) = simulate_all(experiment, [policy], folders, quiet=options["as_json"])
    if out:
        write_run(out, record)
        write_page(out, [record], _title(trace))
    if options["as_json"]:
        click.echo(json.dumps(dict(record.summary)))
        _tell_refusals(record, err=True)
    else:
        _say([record], experiment, out)


@click.command()
@click.option("--policies", required=True, help="Separated by commas: fifo,srtf,las:quantum=600.")
@click.option(
    "--objective",
    metavar="NAME",
    help=f"Say who is on the Pareto front: {', '.join(OBJECTIVES)} (cost: against lateness).",
)
@_options
def compare(trace: str, policies: str, objective: str | None, **options: Any) -> None:
    """Run the jobs of TRACE under several policies, in parallel, and compare them."""
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as fifo,srtf,las")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise click.UsageError(f"--policies names {repeated[0]!r} twice")
    out = options["out"]
    experiment = _experiment(trace, options, names)
    wanted = None if objective is None else objective_of(objective, experiment)
    folders = prepare_comparison(out, names, trace) if out else [None] * len(names)
    records = simulate_all(experiment, names, folders, quiet=options["as_json"])
    if wanted is not None:
        records = judged(records, wanted)
    if out:
        write_comparison(out, records, _title(trace), wanted)
    if options["as_json"]:
        click.echo(json.dumps([dict(record.summary) for record in records]))
        _tell_refusals(records[0], err=True)
    else:
        _say(records, experiment, out, wanted)


def _title(trace: str) -> str:
    return f"Dovetail: {Path(trace).name}"


def _experiment(trace: str, options: dict[str, Any], policies: list[str]) -> Experiment:
    _check_none_empty(options)
    speed_table = _speed_table(options)
    arrivals, nodes, known = _given(trace, options, speed_table)
    if options["interruption_cost"]:
        arrivals = with_interruption_cost(arrivals, *interruption(options["interruption_cost"]))
    if options["time_error"]:
        arrivals = with_time_error(arrivals, options["time_error"], options["seed"])
    if options["tenants"]:
        nodes = split_by_tenants(nodes, options["tenants"])
    _check_factors(options)
    events = _node_events(options, nodes)
    kinds = _kinds(nodes, events)
    costs = costs_given(options, known, kinds, arrivals)
    experiment = Experiment(
        arrivals,
        nodes,
        tenants=read_tenants(options["quotas"])
        if options["quotas"]
        else read_cluster_tenants(options["cluster"] or ""),
        node_events=events,
        failures=_failures(options),
        placement=options["placement"],
        predictor=options["predictor"],
        kind_speeds=_kind_speeds(options["kind_speed"], kinds),
        across_nodes=options["across_nodes"],
        across_racks=options["across_racks"],
        pair_speed=options["pair_speed"],
        seed=options["seed"],
        costs=costs,
        believed=costs_believed(options, costs),
        speed_table=speed_table,
        speeds=options["speeds"],
    )
    for name in policies:
        experiment.policy(name)  # a wrong name or parameter is told before anything runs
    _tell_models_without_speed(experiment)
    return experiment


def _given(
    trace: str, options: dict[str, Any], table: SpeedTable | None
) -> tuple[Sequence[Arrival], tuple[Node, ...], Costs]:
    """The jobs, the cluster, and what is known of costs."""
    if is_instance(trace):
        if options["cluster"]:
            raise click.UsageError(
                f"{trace} is a folder with nodes of its own; leave --cluster out"
            )
        if options["costs"]:
            raise click.UsageError(f"{trace} is a folder with costs of its own; leave --costs out")
        instance = read_instance(trace)
        return instance.trace.arrivals, instance.nodes, instance.costs
    if not options["cluster"]:
        raise click.UsageError("give the nodes with --cluster, such as 8x8, or a folder as TRACE")
    seconds = traces.read_durations(options["durations"]) if options["durations"] else None
    found = traces.read(trace, options["format_"], options["skip_bad_rows"], seconds, table)
    _tell_bad_rows(found)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    nodes = read_cluster(options["cluster"])
    known = read_costs(options["costs"]).costs(nodes) if options["costs"] else None
    return found.arrivals, nodes, known or Costs(rates_of(nodes))


def _speed_table(options: dict[str, Any]) -> SpeedTable | None:
    from dovetail.traces.speed_tables import read_speed_table

    if options["speed_table"] is None:
        if options["measured_on"]:
            raise click.UsageError("--measured-on goes with --speed-table")
        return None
    return read_speed_table(options["speed_table"], options["measured_on"] or "")


def _tell_models_without_speed(experiment: Experiment) -> None:
    """So that nobody takes a run on equal GPUs for one on their own."""
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


def _check_none_empty(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value == "":
            raise BadInput(
                f"--{name.replace('_', '-')} has an empty value; give one or leave it out"
            )


def _check_factors(options: dict[str, Any]) -> None:
    for name in ("across_nodes", "across_racks", "pair_speed"):
        value = options[name]
        if value is not None and not 0 < value < 1e6:
            raise BadInput(
                f"--{name.replace('_', '-')} {value:g}: give a positive speed, such as 0.8"
            )
    for name, least, most in (
        ("pue", 1.0, 100.0), ("switch_on_cost", 0.0, inf), ("move_cost", 0.0, inf),
        ("time_error", 0.0, 0.99), ("price_error", 0.0, 0.99), ("carbon_error", 0.0, 0.99),
    ):  # fmt: skip
        value = options[name]
        if value is not None and not least <= value <= most:
            raise BadInput(f"--{name.replace('_', '-')} {value:g}: give {least:g} to {most:g}")


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


def _node_events(options: dict[str, Any], nodes: tuple[Node, ...]) -> list[Any]:
    from dovetail.traces.node_events import read_node_events

    return read_node_events(options["node_events"], nodes) if options["node_events"] else []


def _failures(options: dict[str, Any]) -> NodeFailures | None:
    from dovetail.traces.node_events import random_failures

    text = options["node_failures"]
    return random_failures(text, options["seed"]) if text is not None else None


def _say(
    records: list[RunRecord],
    experiment: Experiment,
    out: Path | None,
    objective: Objective | None = None,
) -> None:
    click.echo(table([record.summary for record in records], objective))
    speeds = experiment.speeds if experiment.speed_table else "none"
    for line in told([record.policy for record in records], experiment.predictor, speeds):
        click.echo(line)
    for line in searches_told([record.summary for record in records]):
        click.echo(line)
    _tell_refusals(records[0])
    if out:
        click.echo(f"\nReport: {(out / REPORT).resolve()}")


def _tell_refusals(first: RunRecord, err: bool = False) -> None:
    """The cluster refuses, so it is the same for all policies."""
    for refusal in first.refusals:
        click.echo(refusal, err=err)
    more = int(first.summary["refused"]) - len(first.refusals)
    if first.refusals and more > 0:
        click.echo(f"and {more} more", err=err)
