"""`dovetail simulate` and `dovetail compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dovetail import traces
from dovetail.app.experiment import PREDICTORS, Experiment, with_interruption_cost
from dovetail.app.outputs import folder, folders_in, write_comparison, write_page, write_run
from dovetail.app.parallel import simulate_all
from dovetail.app.table import table
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.policies.placement import PLACEMENTS
from dovetail.traces.clusters import read_cluster, read_tenants, split_by_tenants
from dovetail.traces.record import RunRecord


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both commands understand."""
    choices: list[Callable[..., Any]] = [
        click.argument("trace"),
        click.option("--cluster", required=True, help="8x8, 4x8:V100+2x4:T4, or a TOML file."),
        click.option(
            "--placement",
            type=click.Choice(list(PLACEMENTS)),
            default="consolidated",
            show_default=True,
            help="Where jobs go.",
        ),
        click.option(
            "--predictor",
            type=click.Choice(PREDICTORS),
            default="oracle",
            show_default=True,
            help="What policies that need durations are told.",
        ),
        click.option(
            "--interruption-cost",
            metavar="[SAVE/]RESTORE",
            help="Seconds to restore a preempted job, and to save it: 30 or 5/20.",
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
        click.option("--pair-speed", type=float, help="Speed of each of two jobs on one GPU."),
        click.option("--format", "format_", type=click.Choice(list(traces.FORMATS))),
        click.option("--durations", metavar="FILE", help="CSV application,seconds, for Pollux."),
        click.option("--skip-bad-rows", is_flag=True, help="Count bad rows and go on."),
        click.option("--seed", default=0, show_default=True, help="Of failures and noise."),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Folder for results and report.html."
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
    out = options["out"]
    experiment = _experiment(trace, options, [policy])
    folders = [folder(out) if out else None]
    (record,) = simulate_all(experiment, [policy], folders, quiet=options["as_json"])
    if out:
        write_run(out, record)
        write_page(out, [record], _title(trace))
    if options["as_json"]:
        click.echo(json.dumps(dict(record.summary)))
    else:
        _say([record], out)


@click.command()
@click.option("--policies", required=True, help="Separated by commas: fifo,srtf,las:quantum=600.")
@_options
def compare(trace: str, policies: str, **options: Any) -> None:
    """Run the jobs of TRACE under several policies, in parallel, and compare them."""
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as fifo,srtf,las")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise click.UsageError(f"--policies names {repeated[0]!r} twice")
    out = options["out"]
    experiment = _experiment(trace, options, names)
    folders = folders_in(out, names) if out else [None] * len(names)
    records = simulate_all(experiment, names, folders, quiet=options["as_json"])
    if out:
        write_comparison(out, records, _title(trace))
    if options["as_json"]:
        click.echo(json.dumps([dict(record.summary) for record in records]))
    else:
        _say(records, out)


def _title(trace: str) -> str:
    return f"Dovetail: {Path(trace).name}"


def _experiment(trace: str, options: dict[str, Any], policies: list[str]) -> Experiment:
    seconds = traces.read_durations(options["durations"]) if options["durations"] else None
    found = traces.read(trace, options["format_"], options["skip_bad_rows"], seconds)
    _tell_bad_rows(found)
    arrivals = found.arrivals
    if options["interruption_cost"]:
        arrivals = with_interruption_cost(arrivals, *_costs(options["interruption_cost"]))
    nodes = read_cluster(options["cluster"])
    if options["tenants"]:
        nodes = split_by_tenants(nodes, options["tenants"])
    _check_factors(options)
    experiment = Experiment(
        arrivals,
        nodes,
        tenants=read_tenants(options["quotas"]) if options["quotas"] else (),
        node_events=_node_events(options, nodes, found),
        placement=options["placement"],
        predictor=options["predictor"],
        kind_speeds=dict(_kind_speed(text) for text in options["kind_speed"]),
        across_nodes=options["across_nodes"],
        across_racks=options["across_racks"],
        pair_speed=options["pair_speed"],
        seed=options["seed"],
    )
    for name in policies:
        experiment.policy(name)  # a wrong name or parameter is told before anything runs
    return experiment


def _tell_bad_rows(found: traces.Trace) -> None:
    if found.bad_rows:
        click.echo(
            f"skipped {len(found.bad_rows)} bad rows; the first: {found.bad_rows[0]}", err=True
        )


def _check_factors(options: dict[str, Any]) -> None:
    for name in ("across_nodes", "across_racks", "pair_speed"):
        value = options[name]
        if value is not None and not 0 < value < 1e6:
            raise BadInput(
                f"--{name.replace('_', '-')} {value:g}: give a positive speed, such as 0.8"
            )


def _costs(text: str) -> tuple[float, float]:
    """`30` or `5/20` as seconds to save and to restore."""
    save, _, restore = text.rpartition("/")
    try:
        costs = float(save or 0), float(restore)
    except ValueError:
        costs = (-1.0, -1.0)
    if not all(0 <= cost < 1e12 for cost in costs):
        raise BadInput(f"--interruption-cost {text!r}: give seconds, such as 30 or 5/20")
    return costs


def _kind_speed(text: str) -> tuple[str, float]:
    kind, _, speed = text.partition("=")
    try:
        value = float(speed)
    except ValueError:
        value = 0.0
    if not kind or not 0 < value < 1e6:
        raise BadInput(f"--kind-speed {text!r}: give a kind and a positive speed, such as T4=0.4")
    return kind, value


def _node_events(
    options: dict[str, Any], nodes: tuple[Node, ...], found: traces.Trace
) -> list[Any]:
    from dovetail.traces.node_events import random_failures, read_node_events

    events: list[Any] = []
    if options["node_events"]:
        events += read_node_events(options["node_events"], nodes)
    if options["node_failures"]:
        events += random_failures(options["node_failures"], nodes, found.arrivals, options["seed"])
    return events


def _say(records: list[RunRecord], out: Path | None) -> None:
    click.echo(table([record.summary for record in records]))
    for refusal in records[0].refusals:  # the cluster refuses, so it is the same for all policies
        click.echo(refusal)
    if out:
        click.echo(f"\nReport: {(out / 'report.html').resolve()}")
