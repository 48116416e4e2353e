"""`dovetail speeds`: how fast a model should run on which GPUs, and why we think so."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dovetail.core.errors import BadInput
from dovetail.models.speed_table import model_type
from dovetail.text.counting import counted
from dovetail.text.tables import figures_table

if TYPE_CHECKING:
    from dovetail.predict.speed import ModelSpeeds

_WIDTH = 100


@click.command()
@click.argument("model")
@click.option(
    "--speed-table",
    metavar="FILE",
    required=True,
    help="CSV model,kind,gpus,steps_per_s, or a table of Gavel or Pollux.",
)
@click.option("--batch", type=click.IntRange(1), help="Its batch size on one GPU.")
@click.option("--gpus", type=click.IntRange(1), default=1, show_default=True)
@click.option("--nodes", type=click.IntRange(1), default=1, help="Over which they are spread.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def speeds(
    model: str, speed_table: str, batch: int | None, gpus: int, nodes: int, as_json: bool
) -> None:
    """Say how fast MODEL (resnet50, resnet50@64) should run on each GPU kind of a table, by its own
    measurements or by those of similar models."""
    from dovetail.predict.speed import explained
    from dovetail.traces.clusters.speed_tables import read_speed_table

    if nodes > gpus:
        raise click.UsageError(
            f"--nodes {nodes}: {counted(gpus, 'GPU')} cannot be on so many; give more --gpus"
        )
    wanted = model_type(model)
    if not wanted.model:
        raise BadInput(f"{model!r} names no model; give one, such as resnet50@64")
    _, at, size = model.rpartition("@")
    if at and not wanted.batch:
        raise BadInput(
            f"{model!r}: {size!r} is no batch size; give a number from 1 on, such as resnet50@64"
        )
    found = explained(
        read_speed_table(speed_table), wanted._replace(batch=batch or wanted.batch), gpus, nodes
    )
    click.echo(_as_json(found) if as_json else page(found))


def _as_json(found: ModelSpeeds) -> str:
    kinds = []
    for one in found.kinds:
        told = asdict(one) | {"neighbours": [near._asdict() for near in one.neighbours]}
        unknown = () if one.speed is not None else ("median_of_all", "neighbours")
        kinds.append({name: value for name, value in told.items() if name not in unknown})
    known = found.known and found.known._asdict()
    return json.dumps(asdict(found) | {"known": known, "kinds": kinds}, indent=1)


def page(found: ModelSpeeds) -> str:
    """The result of `explained` as text."""
    told = [line for sentence in _whence(found) for line in textwrap.wrap(sentence, _WIDTH)]
    return "\n".join([*textwrap.wrap(_headline(found), _WIDTH), "", *_table(found), "", *told])


def _headline(found: ModelSpeeds) -> str:
    known = found.known
    if known is None:
        return f"{found.model}: nothing is known of this model but its name"
    return (
        f"{found.model}: {known.name}, {known.family}, {known.parameters_m:g} million "
        f"parameters, {known.gflop_per_sample:g} GFLOP a sample, {known.layers} layers"
    )


def _table(found: ModelSpeeds) -> list[str]:
    several = found.gpus > 1
    rows = [[f"on {_gpus(found)}", "speed", "median of all", *(["of one GPU"] if several else [])]]
    for one in found.kinds:
        told = [one.speed, one.median_of_all, *([one.of_one_gpu] if several else [])]
        rows.append([one.kind, *map(_times, told)])
    return figures_table(rows)


def _gpus(found: ModelSpeeds) -> str:
    number = counted(found.gpus, "GPU")
    return number if found.nodes == 1 else f"{number}, {found.nodes} nodes"


def _times(ratio: float | None) -> str:
    return "?" if ratio is None else f"{ratio:.2f}"


def _whence(found: ModelSpeeds) -> list[str]:
    where = "" if found.gpus == 1 else " with as many GPUs in one node"
    lines = [f"1 is the speed on {found.reference}{where}."]
    if found.measured:
        return [*lines, "It was measured itself; nothing is predicted."]
    if all(one.speed is None for one in found.kinds):
        return ["No model was measured on such GPUs; nothing can be told."]
    if len(found.kinds) == 1 and found.nodes == 1:
        return [*lines, "The table has no other GPU kind to compare it with."]
    return [*lines, *_own(found), _neighbours(found), *_errors(found)]


def _own(found: ModelSpeeds) -> list[str]:
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for one in found.kinds:
        kinds[one.measured].append(one.kind)
    if not kinds[True]:
        return []
    measured, predicted = (", ".join(kinds[own]) for own in (True, False))
    return [f"It was measured itself on {measured}; predicted is {predicted}."]


def _errors(found: ModelSpeeds) -> list[str]:
    ratios = "ratios between kinds" if found.nodes == 1 else "ratios of GPUs apart and together"
    lines = []
    for error, what in (
        (found.error_left_out, "type"),
        (found.error_model_left_out, "whole model"),
    ):
        if error is not None:
            lines.append(
                f"When a {what} of this table is left out, {ratios} are missed by "
                f"{error:.0%} (median)"
            )
    if lines and found.error_of_median is not None:
        lines[-1] += f"; by the median of all, {found.error_of_median:.0%}"
    return [f"{line}." for line in lines]


def _neighbours(found: ModelSpeeds) -> str:
    told = [one for one in found.kinds if one.neighbours and not one.measured]
    other = [one for one in told if one.kind != found.reference] or told
    if not other:
        return "No model like it was measured: it is taken for the median of all."
    first = other[0]
    names = ", ".join(f"{n.model} ({_times(n.speed)} on {first.kind})" for n in first.neighbours)
    return f"Measured models that are most like it and count most: {names}."
