"""`dovetail simulate` and `dovetail compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dovetail.cli.simulation.simulate_options import simulation_options
from dovetail.experiments.cost_options import SimulationOptions
from dovetail.experiments.experiment import Experiment
from dovetail.experiments.experiment_options import experiment_given
from dovetail.experiments.files import (
    REPORT,
    prepare_comparison,
    prepare_run,
    summaries_of,
    write_comparison,
    write_page,
    write_run,
)
from dovetail.experiments.parallel import Failure, simulate_all
from dovetail.experiments.pareto import OBJECTIVES, Objective, judged, objective_of
from dovetail.experiments.summary_table import searches_told, table, told
from dovetail.results.record import RunRecord


@click.command()
@click.option("--policy", required=True, help="Such as srtf, or tiresias:queues=2:limits=18000.")
@simulation_options
def simulate(trace: str, policy: str, **options: Any) -> None:
    """Run the jobs of TRACE on a simulated cluster under one policy."""
    if "," in policy:
        raise click.UsageError(
            f"--policy takes one; for several: dovetail compare --policies {policy}"
        )
    given = SimulationOptions(**options)
    out = given.out
    experiment = experiment_given(trace, given, [policy])
    folders = [prepare_run(out, trace) if out else None]
    (record,) = simulate_all(experiment, [policy], folders, quiet=given.as_json).good
    if out:
        write_run(out, record)
        write_page(out, [record], _title(trace))
    if given.as_json:
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
@simulation_options
def compare(trace: str, policies: str, objective: str | None, **options: Any) -> None:
    """Run the jobs of TRACE under several policies, in parallel, and compare them."""
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as fifo,srtf,las")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise click.UsageError(f"--policies names {repeated[0]!r} twice")
    given = SimulationOptions(**options)
    out = given.out
    experiment = experiment_given(trace, given, names)
    wanted = None if objective is None else objective_of(objective, experiment)
    folders = prepare_comparison(out, names, trace) if out else [None] * len(names)
    outcome = simulate_all(experiment, names, folders, quiet=given.as_json)
    records = outcome.good
    if wanted is not None:
        records = judged(records, wanted)
    if out:
        write_comparison(out, records, _title(trace), wanted, outcome.failures)
    if given.as_json:
        click.echo(json.dumps(summaries_of(records, outcome.failures)))
        _tell_refusals(records[0], err=True)
    else:
        _say(records, experiment, out, wanted, outcome.failures)
    if outcome.exit_code:
        raise SystemExit(outcome.exit_code)


def _title(trace: str) -> str:
    return f"Dovetail: {Path(trace).name}"


def _say(
    records: list[RunRecord],
    experiment: Experiment,
    out: Path | None,
    objective: Objective | None = None,
    failures: Sequence[Failure] = (),
) -> None:
    click.echo(table([record.summary for record in records], objective, failures))
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
