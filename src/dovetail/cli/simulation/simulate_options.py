"""The options of `dovetail simulate` and `dovetail compare`, by what they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

from dovetail.cli.named import Named
from dovetail.experiments.files import named
from dovetail.models.epochs import ADAPTIVE, FIXED, LINEAR, MEASURED, SHARED
from dovetail.models.scaling import USUAL_SCALING

Command: TypeAlias = Callable[..., Any]

# Those that other commands on traces understand too.
PLACEMENT = click.option(
    "--placement",
    type=Named("placements"),
    default="consolidated",
    show_default=True,
    help="Where jobs go.",
)
TENANTS = click.option("--tenants", metavar="FILE", help="Split the cluster among tenants.")
QUOTAS = click.option("--quotas", metavar="FILE", help="TOML with a GPU quota for each tenant.")
FORMAT = click.option("--format", "format_", type=Named("readers"))
DURATIONS = click.option("--durations", metavar="FILE", help="CSV application,seconds, for Pollux.")

_WHAT_IS_RUN = (
    click.argument("trace"),
    click.option(
        "--cluster",
        help="8x8, 4x8:V100+2x4:T4, or a TOML file. A folder as TRACE brings its own.",
    ),
    PLACEMENT,
    click.option(
        "--predictor",
        type=Named("predictors"),
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
)
_CLUSTER = (
    TENANTS,
    QUOTAS,
    click.option("--node-events", metavar="FILE", help="CSV: at_s,node,event (see the docs)."),
    click.option(
        "--node-failures",
        metavar="MTBF/REPAIR",
        help="Mean hours between failures of a node, and to repair it: 2000/4.",
    ),
)
_SPEED = (
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
        type=Named("speeds"),
        default="similar",
        show_default=True,
        help="With --speed-table: what policies that ask for speeds are told.",
    ),
    click.option("--pair-speed", type=float, help="Speed of each of two jobs on one GPU."),
    click.option(
        "--scaling",
        default=USUAL_SCALING,
        show_default=True,
        help="An elastic job of no table runs n to that power times as fast on n GPUs as on one.",
    ),
)
_TRAINING = (
    click.option(
        "--applications",
        metavar="FOLDER",
        help="What the jobs of a workload of Pollux train: its placements, scalability and curves.",
    ),
    click.option(
        "--round",
        "round_",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Policies that can decide in rounds do so this often, and jobs of a trace of Gavel work in "
        "leases of that length, in whole steps.  [60 with --applications]",
    ),
    click.option(
        "--restart",
        type=float,
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="With --applications: a job does nothing for so long whenever its GPUs change.",
    ),
    click.option(
        "--convergence",
        type=click.Choice([MEASURED, LINEAR]),
        default=MEASURED,
        show_default=True,
        help="With --applications: what a sample of a larger batch is worth.",
    ),
    click.option(
        "--batches",
        type=click.Choice([FIXED, ADAPTIVE, SHARED]),
        help="With --applications: do jobs keep the batch of the workload, or choose it by their "
        "goodput, from their own steps (adaptive) or from those of all jobs of their application "
        "(shared)?  [as the policy's authors have it]",
    ),
)
_COST = (
    click.option("--costs", metavar="FILE", help="TOML with prices and watts, as for up."),
    click.option("--price", metavar="X|FILE", help="Money per kWh, or a table by the hour."),
    click.option("--carbon", metavar="X|FILE", help="Grams of CO2 per kWh, or a table."),
    click.option("--pue", type=float, help="Power of the site over that of its nodes: 1.33."),
    click.option("--switch-on-cost", type=float, help="Money to switch a node on."),
    click.option("--move-cost", type=float, help="Money to move a job to other nodes."),
    click.option(
        "--power-table",
        metavar="[KIND=]FILE",
        multiple=True,
        help="CSV: time and watts of models under power limits (see the docs).",
    ),
)
_ERROR = (
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
)
_READING = (
    FORMAT,
    DURATIONS,
    click.option("--skip-bad-rows", is_flag=True, help="Count bad rows and go on."),
)
_RESULT = (
    click.option("--seed", default=0, show_default=True, help="Of failures and noise."),
    click.option("--out", metavar="FOLDER", callback=named, help="For results and report.html."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
)


def simulation_options(command: Command) -> Command:
    """All of them."""
    every = (*_WHAT_IS_RUN, *_CLUSTER, *_SPEED, *_TRAINING, *_COST, *_ERROR, *_READING, *_RESULT)
    for option in reversed(every):
        command = option(command)
    return command
