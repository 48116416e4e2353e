"""`dovetail trace`: look at a trace, or make one."""

from __future__ import annotations

from pathlib import Path

import click

from dovetail import traces
from dovetail.cli.named import Named
from dovetail.core.errors import BadInput
from dovetail.traces.clusters.cluster_text import read_cluster

USUAL = traces.Recipe()


@click.group()
def trace() -> None:
    """Look at traces of jobs, and make new ones."""


@trace.command()
@click.argument("file")
@click.option("--cluster", help="Also give the load on this cluster, such as 8x8.")
@click.option("--format", "format_", type=Named("readers"), help="Of the file.")
@click.option("--durations", help="CSV application,seconds, for Pollux workloads.")
@click.option("--skip-bad-rows", is_flag=True, help="Count rows that cannot be read, and go on.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def describe(
    file: str,
    cluster: str | None,
    format_: str | None,
    durations: str | None,
    skip_bad_rows: bool,
    as_json: bool,
) -> None:
    """Print what the trace FILE is like (- for standard input)."""
    seconds = traces.read_durations(durations) if durations else None
    nodes = read_cluster(cluster) if cluster else None
    found = traces.read(file, format_, skip_bad_rows, seconds)
    figures = traces.describe(found, nodes)
    click.echo(_json(figures) if as_json else str(figures))
    for message in found.bad_rows[:5]:
        click.echo(f"skipped {message}", err=True)


@trace.command()
@click.option(
    "--scenario",
    type=click.Choice(["andreas", "datacenter"]),
    help="A folder with nodes and costs too, as the authors of ANDREAS draw theirs.",
)
@click.option("--nodes", type=int, help="Of the scenario.  [default: 10]")
@click.option(
    "--jobs", type=int, help=f"How many.  [default: {USUAL.jobs}; in a scenario 10 a node]"
)
@click.option(
    "--load",
    help=f"Of the cluster; 1 is all of it.  [default: {USUAL.load}] "
    "In a scenario: high, mixed, low or exponential:5000.",
)
@click.option("--gpus", type=int, help=f"GPUs of that cluster.  [default: {USUAL.gpus}]")
@click.option("--cluster", help="That cluster, such as 8x8, instead of --gpus.")
@click.option(
    "--mean-duration", default=USUAL.mean_duration_s, show_default=True, help="In seconds."
)
@click.option("--c2", default=USUAL.c2, show_default=True, help="How uneven: 1 is exponential.")
@click.option("--gangs", help="GPUs and chances, such as 1:0.6,2:0.2,8:0.2.")
@click.option("--burstiness", default=USUAL.burstiness, show_default=True, help="1 is Poisson.")
@click.option("--daily-cycle", default=USUAL.daily_cycle, show_default=True, help="0 to 1.")
@click.option("--users", default=USUAL.users, show_default=True, help="How many; 0 for none.")
@click.option("--user-spread", default=USUAL.user_spread, show_default=True, help="0: all alike.")
@click.option("--deadline-factor", type=float, help="Deadlines at so many times the duration.")
@click.option("--seed", default=USUAL.seed, show_default=True, help="The same gives the same jobs.")
@click.option("--out", default="-", help="A .csv or .jsonl file, .gz too; standard output if none.")
def generate(
    scenario: str | None,
    nodes: int | None,
    jobs: int | None,
    load: str | None,
    gpus: int | None,
    cluster: str | None,
    mean_duration: float,
    c2: float,
    gangs: str | None,
    burstiness: float,
    daily_cycle: float,
    users: int,
    user_spread: float,
    deadline_factor: float | None,
    seed: int,
    out: str,
) -> None:
    """Make a trace of synthetic jobs."""
    if scenario:
        _generate_scenario(scenario, nodes, jobs, load, seed, out)
        return
    if nodes is not None:
        raise click.UsageError("--nodes goes with --scenario; give --cluster instead")
    recipe = traces.Recipe(
        jobs=USUAL.jobs if jobs is None else jobs,
        gpus=_cluster_gpus(gpus, cluster),
        load=_part(load),
        mean_duration_s=mean_duration,
        c2=c2,
        gangs=_gangs(gangs) if gangs else USUAL.gangs,
        burstiness=burstiness,
        daily_cycle=daily_cycle,
        users=users,
        user_spread=user_spread,
        deadline_factor=deadline_factor,
        seed=seed,
    )
    traces.write(out, traces.generate(recipe))


def _generate_scenario(
    site: str, nodes: int | None, jobs: int | None, load: str | None, seed: int, out: str
) -> None:
    from dovetail.traces.readers.andreas_folder import write_instance
    from dovetail.traces.synthetic.andreas_instances import Scenario, draw

    if out == "-":
        raise click.UsageError("a scenario is a folder of four files; name it with --out")
    if _is_file(out):
        raise click.UsageError(
            f"--out {out}: a scenario is a folder of four files, not one; name a folder"
        )
    usual = Scenario()
    number = usual.nodes if nodes is None else nodes
    if jobs == 0:
        raise click.BadParameter("--jobs 0: a scenario begins with a job; give 1 or more")
    many = 10 * number if jobs is None else jobs - 1  # besides the one at the very start
    wanted = Scenario(number, many, load or usual.load, seed, site)
    write_instance(out, draw(wanted))


def _is_file(out: str) -> bool:
    """A file that exists, or a name that `generate` would write as a file."""
    return out.removesuffix(".gz").endswith((".csv", ".jsonl")) or Path(out).is_file()


def _part(load: str | None) -> float:
    try:
        return USUAL.load if load is None else float(load)
    except ValueError:
        raise click.UsageError(
            f"--load {load}: give a number such as 0.8, or a --scenario that knows it"
        ) from None


def _cluster_gpus(gpus: int | None, cluster: str | None) -> int:
    if gpus is not None and cluster:
        raise click.UsageError("give --gpus or --cluster, not both")
    if cluster:
        return sum(node.gpus for node in read_cluster(cluster))
    return USUAL.gpus if gpus is None else gpus


def _gangs(text: str) -> tuple[tuple[int, float], ...]:
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return tuple((int(size), float(chance)) for size, chance in pairs)
    except ValueError:
        raise BadInput(f"{text!r} is not a mix of gangs; write 1:0.6,2:0.2,8:0.2") from None


def _json(figures: traces.Description) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(figures), indent=2)
