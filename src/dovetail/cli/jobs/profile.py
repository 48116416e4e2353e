"""`dovetail profile`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import click

from dovetail.client.shell import environment
from dovetail.core.errors import BadInput
from dovetail.jobfiles.profile_table import ProfileTable, Timing, text_of
from dovetail.text.durations import duration_text
from dovetail.text.tables import figures_table

_SETTINGS = {"allow_interspersed_args": False}


@click.command(context_settings=_SETTINGS)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--steps", type=click.FloatRange(0, min_open=True), help="Of the whole job.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.5, 86_400),
    default=20.0,
    show_default=True,
    help="To listen for, from the first report on.",
)
@click.option("--gpus", metavar="N[,N]", help="Numbers to try.  [1, 2, 4 … as many as there are]")
@click.option("--slots", type=click.IntRange(1, 4096), help="Processor slots, instead of GPUs.")
@click.option("--alone", is_flag=True, help="One copy, not as many as fill the machine.")
@click.option(
    "--pattern", metavar="REGEX", help=r"For what it prints: 'epoch (?P<step>\d+): (?P<loss>\S+)'."
)
@click.option(
    "--patience",
    type=click.FloatRange(1, 86_400),
    default=300.0,
    show_default=True,
    help="Seconds without a report after which it is given up.",
)
@click.option("--out", metavar="FILE", help="What to write.  [NAME.profile.yaml]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def profile(command: tuple[str, ...], **asked: Any) -> None:
    """Run a job for a short while on each number of GPUs, and write how fast it is there.

    The job must tell its steps: by sdk.report, by lines of JSON, or by a --pattern.
    """
    from dovetail.profiling.calibrating import Subject

    pattern = _pattern(asked["pattern"])
    subject = Subject(command, os.getcwd(), environment(os.environ), pattern)
    out = Path(asked["out"] or f"{_name(command)}.profile.yaml")
    if not out.parent.is_dir():
        raise BadInput(f"cannot write {out}: there is no folder {out.parent}")
    if out.is_dir():
        raise BadInput(f"cannot write {out}: it is a folder; name a file")
    timings = _timings(subject, asked)
    table = ProfileTable(tuple(timings), asked["steps"], command)
    out.write_text(text_of(table))
    if asked["as_json"]:
        rows = {"file": str(out), "measured": [_row(own, table.steps) for own in timings]}
        click.echo(json.dumps(rows))
        return
    click.echo(_listing(table))
    click.echo(f"\nWritten: {out}. In a job file: {_how_to_name_it(out, table.steps)}")


def _timings(subject: Any, asked: dict[str, Any]) -> list[Timing]:
    from dovetail.profiling.calibrating import calibrate, ways
    from dovetail.worlds.local.machine import machine_nodes

    nodes, counts = machine_nodes(asked["slots"]), _counts(asked["gpus"])
    chosen = [way for node in nodes for way in ways(node, counts, asked["alone"])]
    if not chosen:
        most = max(node.gpus for node in nodes)
        raise BadInput(f"--gpus {asked['gpus']}: this machine has {most} at most")
    timings = []
    with TemporaryDirectory(prefix="dovetail-profile-") as folder:
        for way in chosen:
            tell = _teller(str(way))
            limits = asked["seconds"], asked["patience"]
            try:
                timings.append(calibrate(subject, way, Path(folder), *limits, tell))
            except BaseException:
                if sys.stderr.isatty():
                    click.echo(err=True)  # what is wrong begins on a line of its own
                raise
            tell(f"{timings[-1].steps_per_s:.4g} steps/s\n")
    return timings


def _teller(what: str) -> Callable[[str], None]:
    """On a line that is written over; where nobody watches, only what ends with a new line."""
    watched = sys.stderr.isatty()

    def tell(text: str) -> None:
        if watched:
            click.echo(f"\r\x1b[K{what}: {text}", err=True, nl=False)
        elif text.endswith("\n"):
            click.echo(f"{what}: {text}", err=True, nl=False)

    return tell


def _pattern(given: str | None) -> str:
    from dovetail.jobfiles.texts import pattern

    if given is None:
        return ""
    try:
        return pattern(given)
    except ValueError as error:
        raise click.UsageError(f"--pattern {given!r} {error}") from None


def _counts(given: str | None) -> list[int]:
    try:
        counts = [int(part) for part in given.split(",")] if given else []
    except ValueError:
        counts = [0]
    if any(count < 1 for count in counts):
        raise click.UsageError(f"--gpus {given!r}: give numbers, such as 1,2,4")
    return counts


def _name(command: tuple[str, ...]) -> str:
    scripts = [PurePath(word).stem for word in command if word.endswith((".py", ".sh"))]
    return scripts[0] if scripts else PurePath(command[0]).name


def _row(timing: Timing, steps: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(timing, name) for name in timing.__slots__}
    return row if steps is None else {**row, "seconds": timing.seconds(steps)}


def _listing(table: ProfileTable) -> str:
    heads = ["kind", "GPUs", "steps/s", "start-up", "watts", "all of it"]
    rows = [
        [
            own.kind,
            str(own.gpus),
            f"{own.steps_per_s:.4g}",
            f"{own.startup_s:.2f} s",
            "" if own.watts is None else f"{own.watts:.0f}",
            "" if table.steps is None else duration_text(own.seconds(table.steps)),
        ]
        for own in table.timings
    ]
    used = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    return "\n".join(figures_table([[row[i] for i in used] for row in [heads, *rows]]))


def _how_to_name_it(out: Path, steps: float | None) -> str:
    file = shlex.quote(str(out))
    return f"profile: {file}" if steps else f"profile: {{file: {file}, steps: …}}"
