"""`dovetail simulate` and `dovetail compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import click

from dovetail.cli.reach import print_lines
from dovetail.cli.simulation.simulate_options import simulation_options
from dovetail.experiments.cost_options import SimulationOptions
from dovetail.experiments.experiment import Experiment
from dovetail.experiments.experiment_options import experiment_given
from dovetail.experiments.files import (
    POLICY,
    REPORT,
    failed_rows,
    prepare_comparison,
    prepare_run,
    summaries_of,
    write_comparison,
    write_page,
    write_run,
    write_table,
)
from dovetail.experiments.group_table import group_tables
from dovetail.experiments.parallel import Failure, simulate_all
from dovetail.experiments.pareto import OBJECTIVES, Objective, judged, objective_of
from dovetail.experiments.seeds import seeds_table, simulate_seeds
from dovetail.experiments.summary_table import searches_told, table, told
from dovetail.results.job_table import COLUMNS, GROUPS, check_columns, grouped, job_table
from dovetail.results.record import RunRecord

_by = click.option(
    "--by", type=click.Choice(GROUPS), help="Also how each user, tenant, … has fared."
)
_csv = click.option(
    "--csv",
    "columns",
    metavar="COL,COL",
    help="Print these columns of all jobs as CSV and nothing else; all: every one.",
)


@click.command()
@click.option("--policy", required=True, help="Such as srtf, or tiresias:queues=2:limits=18000.")
@_by
@_csv
@simulation_options
def simulate(trace: str, policy: str, by: str | None, columns: str | None, **options: Any) -> None:
    """Run the jobs of TRACE on a simulated cluster under one policy."""
    if "," in policy:
        raise click.UsageError(
            f"--policy takes one; for several: dovetail compare --policies {policy}"
        )
    given = SimulationOptions(**options)
    shown = PrintedJobs(by, named_columns(columns), given.as_json)
    out = given.out
    experiment = experiment_given(trace, given, [policy])
    folders = [prepare_run(out, trace) if out else None]
    runs = simulate_all(experiment, [policy], folders, quiet=shown.is_data, rows=shown.rows)
    (record,) = runs.good
    if out:
        write_run(out, record)
        write_page(out, [record], _title(trace))
    if shown.columns is not None:
        shown.print_csv([record], is_one=True)
    elif given.as_json:
        click.echo(json.dumps(shown.with_groups([dict(record.summary)], [record])[0]))
        _tell_refusals(record, err=True)
    else:
        _say([record], experiment, out, shown)


@click.command()
@click.option("--policies", required=True, help="Separated by commas: fifo,srtf,las:quantum=600.")
@click.option(
    "--objective",
    metavar="NAME",
    help=f"Say who is on the Pareto front: {', '.join(OBJECTIVES)} (cost: against lateness).",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    metavar="N",
    help="Also on N-1 traces whose jobs are drawn from this one: means with 95 % intervals.",
)
@_by
@_csv
@simulation_options
def compare(
    trace: str,
    policies: str,
    objective: str | None,
    seeds: int,
    by: str | None,
    columns: str | None,
    **options: Any,
) -> None:
    """Run the jobs of TRACE under several policies, in parallel, and compare them."""
    names = _names_in(policies)
    given = SimulationOptions(**options)
    shown = PrintedJobs(by, named_columns(columns), given.as_json)
    if seeds > 1:
        _refuse_beside_seeds(objective, given.out, shown)
        compare_seeds(experiment_given(trace, given, names), names, seeds, given.as_json)
        return
    out = given.out
    experiment = experiment_given(trace, given, names)
    wanted = None if objective is None else objective_of(objective, experiment)
    folders = prepare_comparison(out, names, trace) if out else [None] * len(names)
    outcome = simulate_all(experiment, names, folders, quiet=shown.is_data, rows=shown.rows)
    records = outcome.good
    if wanted is not None:
        records = judged(records, wanted)
    if out:
        write_comparison(out, records, _title(trace), wanted, outcome.failures)
    if shown.columns is not None:
        shown.print_csv(records)
    elif given.as_json:
        summaries = summaries_of(records, outcome.failures)
        click.echo(json.dumps(shown.with_groups(summaries, records)))
        _tell_refusals(records[0], err=True)
    else:
        _say(records, experiment, out, shown, wanted, outcome.failures)
    if outcome.exit_code:
        raise SystemExit(outcome.exit_code)


def _names_in(policies: str) -> list[str]:
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as fifo,srtf,las")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise click.UsageError(f"--policies names {repeated[0]!r} twice")
    return names


def _refuse_beside_seeds(objective: str | None, out: Path | None, shown: PrintedJobs) -> None:
    given = {"--objective": objective, "--out": out, "--by": shown.by, "--csv": shown.columns}
    for option, value in given.items():
        if value is not None:
            raise click.UsageError(f"{option} is about one run of each policy; leave out --seeds")


def compare_seeds(experiment: Experiment, names: Sequence[str], seeds: int, as_json: bool) -> None:
    found = simulate_seeds(experiment, names, seeds, quiet=as_json)
    if as_json:
        click.echo(json.dumps([*found.summaries(), *failed_rows(found.failures)]))
    else:
        print_lines(seeds_table(found, seeds))
        for line in told(list(found.runs), experiment.predictor, _speeds(experiment)):
            click.echo(line)
    for runs in [*found.runs.values()][:1]:
        _tell_refusals(runs[0], err=as_json)
    if found.exit_code:
        raise SystemExit(found.exit_code)


@dataclass(frozen=True, slots=True)
class PrintedJobs:
    """What is printed of the jobs, beside or instead of the figures over all of them."""

    by: str | None
    columns: Sequence[str] | None
    as_json: bool

    @property
    def rows(self) -> bool:
        return self.by is not None or self.columns is not None

    @property
    def is_data(self) -> bool:
        return self.as_json or self.columns is not None

    def with_groups(
        self, summaries: list[dict[str, Any]], runs: Sequence[RunRecord]
    ) -> list[dict[str, Any]]:
        if self.by is None:
            return summaries
        groups = {run.policy: {f"by_{self.by}": grouped(run, self.by)} for run in runs}
        return [{**own, **groups.get(own["policy"], {})} for own in summaries]

    def print_csv(self, runs: Sequence[RunRecord], is_one: bool = False) -> None:
        assert self.columns is not None
        rows = ({POLICY: run.policy, **row} for run in runs for row in job_table(run))
        text = StringIO()
        write_table(text, rows, self.columns if is_one else (POLICY, *self.columns))
        click.echo(text.getvalue(), nl=False)


def named_columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = COLUMNS if text == "all" else tuple(name.strip() for name in text.split(","))
    check_columns(names)
    return names


def _title(trace: str) -> str:
    return f"Dovetail: {Path(trace).name}"


def _say(
    records: list[RunRecord],
    experiment: Experiment,
    out: Path | None,
    shown: PrintedJobs,
    objective: Objective | None = None,
    failures: Sequence[Failure] = (),
) -> None:
    click.echo(table([record.summary for record in records], objective, failures))
    if shown.by is not None:
        print_lines(group_tables(records, shown.by))
    policies = [record.policy for record in records]
    left = experiment.knowledge().left
    for line in told(policies, experiment.predictor, _speeds(experiment), left):
        click.echo(line)
    for line in searches_told([record.summary for record in records]):
        click.echo(line)
    _tell_refusals(records[0])
    if out:
        click.echo(f"\nReport: {(out / REPORT).resolve()}")


def _speeds(experiment: Experiment) -> str:
    return experiment.speeds if experiment.speed_table else "none"


def _tell_refusals(first: RunRecord, err: bool = False) -> None:
    """The cluster refuses, so it is the same for all policies."""
    for refusal in first.refusals:
        click.echo(refusal, err=err)
    more = int(first.summary["refused"]) - len(first.refusals)
    if first.refusals and more > 0:
        click.echo(f"and {more} more", err=err)
