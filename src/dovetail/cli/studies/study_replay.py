"""`dovetail study replay`: policies of studies compared on recorded curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from dovetail.core.errors import BadInput, DovetailError
from dovetail.experiments.parallel import each
from dovetail.extras import explained
from dovetail.text.tables import figures_table
from dovetail.tune.comparison import Race, RuleSummary, Terms, races, summary
from dovetail.tune.recorded import DIRECTIONS, Task, read_curves
from dovetail.tune.rules import make

_AT_ONCE = 5  # seeds of one task that a process takes, so that the last ones are done together


@click.command()
@click.argument("curves")
@click.option("--policies", required=True, help="By commas: fifo,hermes,asha-promote:eta=4.")
@click.option("--trials", default=32, show_default=True, help="Configurations drawn for a run.")
@click.option("--slots", default=4, show_default=True, help="Trials that run at once.")
@click.option(
    "--switch-cost", default=0.25, show_default=True, help="Steps lost when a slot changes trials."
)
@click.option("--seeds", default=20, show_default=True, help="Runs on each task.")
@click.option("--tasks", metavar="A,B,…", help="Only these tasks of the file.")
@click.option("--metric", metavar="COL", help="The column with the values.")
@click.option("--direction", type=click.Choice(DIRECTIONS), help="What is better.")
@click.option("--steps", type=int, help="Only the first steps of each curve.")
@click.option("--deadline", type=float, help="Runs end then, in steps of time.")
@click.option("--seconds", "use_seconds", is_flag=True, help="Steps last as long as recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def replay(curves: str, policies: str, as_json: bool, **options: Any) -> None:
    """Replay recorded learning CURVES (CSV or parquet) under several policies.

    Columns are config, step, value and perhaps task and seconds; or as in the LCBench surrogate and
    in TaskSet. All policies get the same trials. Times are compared with fifo's.
    """
    names = _names(policies)
    terms = _terms(options)
    tasks = _tasks(curves, options)
    found = _run_all(tasks, names, options["seeds"], terms, quiet=as_json)
    failures = _failures(found)
    rows = [summary(name, found) for name in names if name not in failures]
    failed = [{"policy": name, "failure": why} for name, why in failures.items()]
    if not rows:
        raise DovetailError(f"study policy {failed[0]['policy']!r} failed: {failed[0]['failure']}")
    if as_json:
        click.echo(json.dumps([*map(asdict, rows), *failed]))
    else:
        _say(rows, terms, failures)
    if failed:
        raise SystemExit(1)


def _failures(races: Sequence[Race]) -> dict[str, str]:
    """Which policies failed in any of the runs, and why in the first of them."""
    failures: dict[str, str] = {}
    for one in races:
        failures = {**one.failed, **failures}
    return failures


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as fifo,hermes,default")
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"--policies names {name!r} twice")
        _check(name)
    return names


def _check(name: str) -> None:
    """Whatever keeps a policy from being made is told before anything runs."""
    try:
        make(name)
    except BadInput:
        raise
    except Exception as error:
        lacking = explained(error) if isinstance(error, ModuleNotFoundError) else None
        if lacking is not None:
            raise BadInput(f"study policy {name!r}: {lacking}") from None
        told = " ".join(str(error).split())
        raise BadInput(
            f"study policy {name!r} cannot be loaded ({type(error).__name__}: {told}); "
            "mend that, or leave it out of --policies"
        ) from None


def _terms(options: Mapping[str, Any]) -> Terms:
    for name, least in (("trials", 1), ("slots", 1), ("seeds", 1), ("steps", 1)):
        if options[name] is not None and options[name] < least:
            raise BadInput(f"--{name} {options[name]}: give at least {least}")
    if not 0.0 <= options["switch_cost"] < 1e6:
        raise BadInput(f"--switch-cost {options['switch_cost']:g}: give steps, 0 or more")
    if options["deadline"] is not None and not options["deadline"] > 0.0:
        raise BadInput(f"--deadline {options['deadline']:g}: give steps of time, more than 0")
    return Terms(
        options["trials"],
        options["slots"],
        options["switch_cost"],
        options["use_seconds"],
        options["deadline"],
    )


def _tasks(curves: str, options: Mapping[str, Any]) -> list[Task]:
    wanted = [name.strip() for name in (options["tasks"] or "").split(",") if name.strip()]
    return read_curves(curves, options["metric"], options["direction"], options["steps"], wanted)


def _run_all(
    tasks: Sequence[Task], policies: Sequence[str], seeds: int, terms: Terms, quiet: bool
) -> list[Race]:
    parts = [
        (task, range(first, min(first + _AT_ONCE, seeds)))
        for task in tasks
        for first in range(0, seeds, _AT_ONCE)
    ]

    def work(number: int, tell: Callable[[int], object]) -> list[Race]:
        return races(*parts[number], policies, terms, tell)

    names = [f"task {task.name}" for task, _ in parts]
    sizes = [len(own) * len(policies) for _, own in parts]
    outcome = each(names, sizes, work, "replaying", quiet)
    if outcome.stopped:
        raise SystemExit(outcome.exit_code)
    for failure in outcome.failures:
        raise DovetailError(f"{failure.name}: {failure.reason}")
    return [one for part in outcome.good for one in part]


_TITLES = (
    "policy",
    "× fifo",
    "95 %",
    "most",
    "share",
    "best ×",
    "missed",
    "killed",
    "steps",
    "switches",
    "paused",
)


def _say(rows: Sequence[RuleSummary], terms: Terms, failures: Mapping[str, str]) -> None:
    for line in figures_table([_TITLES, *(_cells(row) for row in rows)]):
        click.echo(line)
    for name, why in failures.items():
        click.echo(f"{name}  failed: {why}")
    first = rows[0]
    click.echo(
        f"\n{first.runs} runs of {terms.trials} trials: tasks {first.tasks}, "
        f"slots {terms.slots}, switch cost {terms.switch_cost:g} steps.\n"
        "× fifo: how many times sooner the target is reached, geometric mean (most: the largest).\n"
        f"share: of the ceiling, {_times(first.ceiling_geomean)} × fifo, "
        "that an order by the final values reaches.\n"
        "best ×: how many times sooner the best trial is done; killed: runs in which it was given up.\n"
        "missed: runs that never reach the target; they are in no mean.\n"
        "steps, switches: of a run, on average; paused: trials that wait half-way, at most."
    )


def _cells(row: RuleSummary) -> list[str]:
    speedup, ci95 = row.speedup_geomean, row.ci95
    return [
        row.policy,
        _times(speedup),
        f"{ci95[0]:.2f}–{ci95[1]:.2f}" if ci95 else "–",
        _times(row.speedup_max),
        f"{speedup / row.ceiling_geomean:.2f}" if speedup and row.ceiling_geomean else "–",
        _times(row.best_done_speedup),
        str(row.missed),
        str(row.best_killed),
        f"{row.steps:.0f}",
        f"{row.switches:.0f}",
        str(row.peak_suspended),
    ]


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
