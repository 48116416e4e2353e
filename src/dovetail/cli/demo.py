"""`dovetail demo`: twelve real training jobs on two slots, under `fifo` and then under `srtf`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from dovetail.api.job_row import JobRow
from dovetail.client.command_name import typed_command
from dovetail.core.model import Seconds
from dovetail.experiments.files import named
from dovetail.extras import check_live
from dovetail.text.tables import figures_table

_BAR = 30
_MARKS: Final = {
    "queued": "·", "starting": "▸", "running": "▶", "suspended": "⏸", "finished": "✓", "failed": "✗",
}  # fmt: skip


if TYPE_CHECKING:  # the simulated day needs no daemon
    from dovetail.daemon.main import Daemon
    from dovetail.demo.race import Finish

SLOTS = 2
FIRST, SECOND = "fifo", "srtf"


@click.command()
@click.option(
    "--simulated", is_flag=True, help="Compare six policies on a simulated busy day instead."
)
@click.option(
    "--out",
    metavar="FOLDER",
    callback=named,
    default="demo-report",
    show_default=True,
    help="For the results of the simulated day.",
)
def demo(simulated: bool, out: Path) -> None:
    """Run twelve real training jobs on two processor slots, under two policies."""
    if simulated:
        from dovetail.demo.simulated_day import busy_day

        busy_day(out)
        return
    check_live()
    run_live_demo()


def run_live_demo() -> None:
    from dovetail.demo import race, training

    speed = training.steps_a_second()
    total = sum(race.LENGTHS_S)
    click.echo(
        f"Twelve NumPy training jobs, {min(race.LENGTHS_S):g} to {max(race.LENGTHS_S):g} s of work "
        f"each ({total:.0f} s in all),\ncome to {SLOTS} processor slots, the long ones first. "
        "These are real processes under a real daemon.\n"
    )
    screen = Screen()
    with _daemon() as daemon:
        click.echo(f"{FIRST}: first come, first served")
        first = race.run_live(daemon, speed, screen.show)
        screen.rest()
        _change_policy(daemon)
        click.echo(
            f"\n{SECOND}: least time left first, by what the first race taught; others give way"
        )
        second = race.run_live(daemon, speed, screen.show)
    lengths = {one.name: one.run_s for one in first}
    click.echo()
    click.echo(_table(first, second, lengths))


def _change_policy(daemon: Daemon) -> None:
    from dovetail.daemon.users.callers import caller_of

    daemon.service.set_policy(SECOND, caller_of(0, 0))


@contextmanager
def _daemon() -> Iterator[Daemon]:
    """A daemon of its own, in a folder that goes afterwards."""
    from dovetail.daemon.main import Daemon
    from dovetail.daemon.settings import DaemonSettings
    from dovetail.home import home_in
    from dovetail.worlds.local.making import local_world

    with TemporaryDirectory(prefix="dovetail-demo-") as folder:
        daemon = Daemon(
            DaemonSettings(home_in(Path(folder)), policy=FIRST, slots=SLOTS), local_world
        )
        thread = threading.Thread(target=daemon.run, name="daemon")
        thread.start()
        try:
            yield daemon
        finally:
            daemon.stop_and_end_jobs()
            thread.join()


def _table(first: Sequence[Finish], second: Sequence[Finish], lengths: dict[str, Seconds]) -> str:
    """Measured beside simulated, job by job and on average."""
    from dovetail.demo import race

    expected = [
        race.run_simulated(FIRST, first, lengths, SLOTS),
        race.run_simulated(f"{SECOND}:predictor=user-estimate", second, lengths, SLOTS),
    ]
    heads = ["job", "its work", FIRST, "simulated", SECOND, "simulated", "gave way"]
    rows = [
        [
            *(one.name, f"{one.run_s:.1f}"),
            *(f"{one.completion_s:.1f}", f"{expected[0][one.name]:.1f}"),
            *(f"{other.completion_s:.1f}", f"{expected[1][one.name]:.1f}", str(other.preemptions)),
        ]
        for one, other in zip(first, second, strict=True)
    ]
    means = [mean(one.completion_s for one in race_) for race_ in (first, second)]
    told = [mean(simulated.values()) for simulated in expected]
    averages = (mean(lengths.values()), means[0], told[0], means[1], told[1])
    rows.append(["mean", *(f"{seconds:.1f}" for seconds in averages), ""])
    lines = [
        "Seconds from submission to end (simulated: with the work as measured in the first race)",
        *figures_table([heads, *rows]),
    ]
    lines.append(
        f"\n{SECOND} ends the average job {means[0] / means[1]:.1f} times as soon as {FIRST}; the "
        f"simulator said {told[0] / told[1]:.1f} times.\n"
        f"Your own jobs: {typed_command()} up, then {typed_command()} submit -- python train.py"
    )
    return "\n".join(lines)


class Screen:
    """The display of the races: on a terminal it is drawn again in place; elsewhere only the result
    of each race is printed."""

    def __init__(self) -> None:
        self._drawn = 0
        self._is_terminal: Final = sys.stdout.isatty()

    def show(self, rows: Sequence[JobRow]) -> None:
        if not self._is_terminal:
            return
        if self._drawn:
            sys.stdout.write(f"\033[{self._drawn}A")
        for row in rows:
            sys.stdout.write(f"\033[2K{line(row)}\n")
        sys.stdout.flush()
        self._drawn = len(rows)

    def rest(self) -> None:
        """Leave the picture as it is; the next one is drawn below."""
        self._drawn = 0


def line(row: JobRow) -> str:
    report = row.last_report
    metrics, step = ({}, 0.0) if report is None else (report.metrics, report.step or 0.0)
    steps = metrics.get("steps")
    part = step / steps if isinstance(steps, float | int) and steps else 0.0
    part = 1.0 if row.phase == "finished" else part
    bar = "█" * round(part * _BAR) + "░" * (_BAR - round(part * _BAR))
    loss = metrics.get("loss")
    told = f"loss {loss:.3f}" if isinstance(loss, float) else ""
    gave_way = f"gave way {row.preemptions}×" if row.preemptions else ""
    mark = _MARKS.get(row.phase, " ")
    return f"  {mark} {row.name:<9} {bar} {row.phase:<10} {told:<11} {gave_way}".rstrip()
