"""`dovetail serve simulate`: requests to services under several rules, in simulation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dovetail.core.errors import BadInput
from dovetail.experiments.files import REPORT, SUMMARY, named
from dovetail.text.counting import counted

_TOLD = 5  # jobs that can never start


@click.command()
@click.argument("requests")
@click.option("--services", metavar="FILE", required=True, help="YAML: services, SLO, latency.")
@click.option("--cluster", required=True, help="8x8, 4x8:V100+2x4:T4, or a TOML file.")
@click.option("--policies", required=True, help="Separated by commas: static:wait_ms=2,nexus.")
@click.option(
    "--gpu-price",
    metavar="[KIND=]X",
    multiple=True,
    help="Money for a GPU-hour; 1 unless it is said.",
)
@click.option("--training", metavar="TRACE", help="Jobs that run on the GPUs that no replica has.")
@click.option(
    "--interruption-cost",
    metavar="[SAVE/]RESTORE",
    help="Seconds to suspend a training job, and to resume it; 1/1 unless it is said. For jobs that "
    "name none.",
)
@click.option("--seed", default=0, show_default=True, help="Of requests that are made by chance.")
@click.option("--out", metavar="FOLDER", callback=named, help="For summary.json and report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects and nothing else.")
def simulate(requests: str, policies: str, out: Path | None, as_json: bool, **more: Any) -> None:
    """Simulate the REQUESTS to services under several serving policies, one by one.

    \b
    REQUESTS is a CSV arrival_s,service[,slo_s,prompt_tokens,output_tokens], a trace of Azure's
    language models as it is, or is made by chance, so many a second to each service:
      poisson:rate=100:seconds=600    bursty:rate=100:cv=4    daily:rate=100
    All policies, and all kinds of traffic: dovetail catalogue serving-policies, … traffic
    """
    from dovetail.experiments.files import folder
    from dovetail.serving.summary_table import table

    names = _names(policies)
    scene, source = _scene(requests, **more)
    if out:
        folder(out)
    outcomes = _run_all(scene, names, source, quiet=as_json)
    rows = [outcome.summary() for outcome in outcomes]
    if out:
        _write(out, scene, outcomes, source.name)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        click.echo(table(rows))
    _tell_unserved(outcomes, err=as_json)
    _tell_too_large(scene, err=as_json)
    if as_json:
        return
    if out:
        click.echo(f"\nReport: {(out / REPORT).resolve()}")


def _names(policies: str) -> list[str]:
    """Each is known, and none is named twice."""
    from dovetail.serving.rules import make

    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--policies names none; give some, such as static,clockwork")
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"--policies names {name!r} twice")
        make(name)
    return names


def _scene(
    requests: str,
    services: str,
    cluster: str,
    gpu_price: tuple[str, ...],
    training: str | None,
    interruption_cost: str | None,
    seed: int,
) -> Any:
    from dovetail.jobfiles.served_models import read_services
    from dovetail.serving.feasible import check_slos
    from dovetail.serving.simulation import ServingScene
    from dovetail.serving.source import source_of
    from dovetail.traces.clusters.cluster_text import read_cluster

    models = read_services(services)
    nodes = read_cluster(cluster)
    prices = _prices(gpu_price)
    usual = prices.pop("", 1.0)
    _check_kinds(prices, {node.kind for node in nodes})
    if interruption_cost is not None and training is None:
        raise BadInput("--interruption-cost is of training jobs; give them with --training TRACE")
    jobs = _jobs(training, interruption_cost or "1/1") if training else []
    scene = ServingScene(models, nodes, prices, usual, jobs)
    check_slos(models, scene.gpus)
    return scene, source_of(requests, models, seed)


def _jobs(trace: str, interruption_cost: str) -> list[Any]:
    from dovetail.experiments.experiment import with_interruption_cost
    from dovetail.experiments.experiment_options import interruption
    from dovetail.traces.readers.formats import read

    return with_interruption_cost(read(trace).arrivals, *interruption(interruption_cost))


def _check_kinds(prices: Mapping[str, float], kinds: set[str]) -> None:
    for kind, price in prices.items():
        if kind not in kinds:
            has = ", ".join(sorted(kinds))
            raise BadInput(
                f"--gpu-price '{kind}={price:g}': the cluster has no {kind}; it has {has}"
            )


def _tell_too_large(scene: Any, err: bool) -> None:
    """Training jobs that no state of the cluster has room for: the first few."""
    lines = [line for own in scene.training if (line := _too_large(own.job, scene.gpus))]
    for line in lines[:_TOLD]:
        click.echo(line, err=err)
    if len(lines) > _TOLD:
        click.echo(f"and {len(lines) - _TOLD} more", err=err)


def _tell_unserved(outcomes: list[Any], err: bool) -> None:
    """Services that a policy left without a single answer: sums of all services may hide that."""
    for outcome in outcomes:
        for name, own in outcome.tally.by_service.items():
            if own.requests > own.too_long and not own.served:
                told = (
                    f"{outcome.policy}: none of {counted(own.requests, 'request')} to {name!r} was "
                    "answered; take another policy, a longer slo_ms or more GPUs"
                )
                click.echo(told, err=err)


def _too_large(job: Any, gpus: tuple[str, ...]) -> str:
    able = [kind for kind in gpus if not job.kinds or kind in job.kinds]
    most = max([able.count(kind) for kind in set(able)], default=0)
    if job.gpus <= most:
        return ""
    needs = counted(job.gpus, "GPU") + f" of {' or '.join(sorted(job.kinds))}" * bool(job.kinds)
    has = f"{most}{' of one kind' * (len(set(able)) > 1)}"
    return f"job {job.id!r} can never start: it needs {needs}, and the cluster has {has}"


def _prices(given: tuple[str, ...]) -> dict[str, float]:
    prices = {}
    for text in given:
        kind, _, price = text.rpartition("=")
        try:
            prices[kind] = float(price)
        except ValueError:
            raise BadInput(f"--gpu-price {text!r} is not a number, or KIND=number") from None
        if not 0 <= prices[kind] < 1e9:
            raise BadInput(f"--gpu-price {text!r}: a price is from 0 to 1e9")
    return prices


def _run_all(scene: Any, names: list[str], source: Any, quiet: bool) -> list[Any]:
    from dovetail.experiments.progress_bar import ProgressBar
    from dovetail.serving.simulation import simulate

    outcomes = []
    with ProgressBar(quiet) as bar:
        for number, name in enumerate(names):

            def tell(at: float, number: int = number, name: str = name) -> None:
                bar.show((number + source.part(at)) / len(names), name)

            outcomes.append(simulate(scene, name, source.requests(), tell))
    return outcomes


def _write(out: Path, scene: Any, outcomes: list[Any], name: str) -> None:
    from dovetail.reports.serving_page import write_serving

    rows = [outcome.summary() for outcome in outcomes]
    (out / SUMMARY).write_text(json.dumps(rows, indent=1) + "\n")
    write_serving(out / REPORT, scene, outcomes, f"Dovetail: {name}")
