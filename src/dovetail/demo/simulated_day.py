"""`dovetail demo --simulated`: six policies on a generated day of a busy cluster, in half a minute."""

from __future__ import annotations

from pathlib import Path

import click

from dovetail import traces
from dovetail.client.command_name import typed_command
from dovetail.experiments.experiment import Experiment
from dovetail.experiments.files import REPORT, prepare_comparison, write_comparison
from dovetail.experiments.parallel import simulate_all
from dovetail.experiments.summary_table import table, told
from dovetail.traces.clusters.cluster_text import read_cluster

CLUSTER = "8x8"
POLICIES = ("fifo", "easy", "fair-share", "tiresias", "las", "srtf")
BUSY_DAY = traces.Recipe(
    jobs=900, gpus=64, load=0.98, mean_duration_s=2800.0, c2=8.0, daily_cycle=0.6, users=12, seed=7
)


def busy_day(out: Path) -> None:
    """Compare six policies on a generated day of a busy 64-GPU cluster."""
    arrivals = traces.generate(BUSY_DAY)
    span_h = (arrivals[-1].at - arrivals[0].at) / 3600
    click.echo(
        f"{len(arrivals)} jobs of {BUSY_DAY.users} users arrive over {span_h:.0f} hours at 8 nodes "
        f"of 8 GPUs\n(load {BUSY_DAY.load:.0%}). Which policy serves them best?\n"
    )
    experiment = Experiment(arrivals, read_cluster(CLUSTER))
    outcome = simulate_all(experiment, POLICIES, prepare_comparison(out, POLICIES), False)
    records, failures = outcome.good, outcome.failures
    title = "Dovetail demo: a busy day on 64 GPUs"
    write_comparison(out, records, title, failures=failures)
    click.echo(table([record.summary for record in records], failures=failures))
    click.echo("\n".join(told(POLICIES, experiment.predictor)))
    click.echo(
        f"\nReport: {(out / REPORT).resolve()}\n"
        f"Your own jobs: {typed_command()} compare jobs.csv --cluster 8x8 --policies fifo,srtf,las"
    )
    if outcome.exit_code:
        raise SystemExit(outcome.exit_code)
