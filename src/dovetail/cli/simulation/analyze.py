"""`dovetail analyze`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from dovetail import traces
from dovetail.analysis.driver import ALL, UNASKED, Analysis, answer
from dovetail.analysis.policy_choice import gain_text
from dovetail.analysis.question import Question, read_trace
from dovetail.cli.simulation.simulate_options import DURATIONS, FORMAT, PLACEMENT, QUOTAS, TENANTS
from dovetail.core.errors import BadInput
from dovetail.experiments.experiment_options import interruption
from dovetail.experiments.files import REPORT, folder, named
from dovetail.traces.clusters.cluster_text import (
    read_cluster,
    read_cluster_tenants,
    read_tenants,
    split_by_tenants,
)

WIDTH = 100


@click.command()
@click.argument("trace")
@click.option("--cluster", required=True, help="8x8, 4x8:V100+2x4:T4, or a TOML file.")
@click.option("--policies", default="", help="To be tried beside the usual ones: edf,gandiva.")
@click.option(
    "--out",
    metavar="FOLDER",
    default="analysis",
    show_default=True,
    callback=named,
    help="For report.html and analysis.json. A run that was broken off goes on from there.",
)
@click.option("--parts", default=",".join(ALL[2:]), show_default=True, help="What to measure.")
@click.option("--quick", is_flag=True, help="Under a minute: fewer jobs, fewer repeats.")
@click.option(
    "--interruption-cost",
    metavar="[SAVE/]RESTORE",
    default="30",
    show_default=True,
    help="Seconds, for jobs whose trace names no cost of their own.",
)
@PLACEMENT
@TENANTS
@QUOTAS
@FORMAT
@DURATIONS
@click.option("--seed", default=0, show_default=True, help="The same gives the same report.")
def analyze(
    trace: str,
    cluster: str,
    policies: str,
    out: Path,
    parts: str,
    quick: bool,
    interruption_cost: str,
    placement: str,
    tenants: str | None,
    quotas: str | None,
    format_: str | None,
    durations: str | None,
    seed: int,
) -> None:
    """Say what drives scheduling of the jobs of TRACE on a cluster, and which policies to try.

    The workload in pictures, 55 features and factors and which of them the trace has, what predicts
    durations, what knowing it is worth, what moves the gain of policies, and a verdict.
    """
    nodes = read_cluster(cluster)
    if tenants:
        nodes = split_by_tenants(nodes, tenants)
    seconds = traces.read_durations(durations) if durations else None
    save_s, restore_s = interruption(interruption_cost)
    question = Question(
        read_trace(trace, format_, seconds),
        nodes,
        read_tenants(quotas) if quotas else read_cluster_tenants(cluster),
        policies=_names(policies),
        placement=placement,
        save_s=save_s,
        restore_s=restore_s,
        quick=quick,
        seed=seed,
    )
    wanted = _parts(parts)
    folder(out)
    analysis = answer(question, trace, out, parts=wanted, quiet=False)
    for note in (*analysis.notes, *analysis.workload.notices):
        click.echo(f"note: {note}", err=True)
    for line in _said(analysis):
        click.echo(line)
    click.echo(f"\nReport: {(out / REPORT).resolve()}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parts(text: str) -> tuple[str, ...]:
    names = _names(text)
    for name in names:
        if name not in ALL:
            raise BadInput(f"--parts: there is no part {name!r}; there are {', '.join(ALL)}")
    return names


def _said(analysis: Analysis) -> Iterator[str]:
    verdict = analysis.verdict
    for title, lines in (
        ("What dominates", verdict.dominant),
        ("Where measurements disagree", verdict.disagreements),
        ("How sure", verdict.sureness),
        ("What predictions keep", verdict.worth_knowing[:1]),
    ):
        if lines:
            yield from (title, *(part for line in lines for part in _wrapped(line)), "")
    if verdict.choices:
        yield "To try, as time saved of the mean completion time under fifo"
        for own in verdict.choices:
            yield from _wrapped(
                f"{own.policy}: {gain_text(own.gain, own.low, own.high)}; {own.why}"
            )
        yield ""
    if verdict.record:
        yield "To record from now on"
        for advice in verdict.record:
            yield from _wrapped(f"{advice.name}: {advice.how}")
    unmeasured = [f"{name}: {why}" for name, why in analysis.problems.items() if why != UNASKED]
    unmeasured += analysis.contest.not_measured if analysis.contest else ()
    if unmeasured:
        yield from ("", "Not measured", *(part for line in unmeasured for part in _wrapped(line)))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
