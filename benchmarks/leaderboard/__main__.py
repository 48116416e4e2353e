"""`python -m benchmarks.leaderboard --minutes 10 --seeds 3`: the same on other settings."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.leaderboard.board import PAGE, SHARED, board
from benchmarks.leaderboard.rows import Settings
from dovetail.core.errors import DovetailError

USUAL = Settings()


@click.command()
@click.option("--seeds", default=USUAL.seeds, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--row-s", default=USUAL.row_s, show_default=True, help="Processor seconds for a row."
)
@click.option(
    "--minutes", default=USUAL.minutes, show_default=True, help="Of a processor, for everything."
)
@click.option("--loads", default="", help="Separated by commas; all unless said.")
@click.option("--policies", default="", help="Separated by commas; all unless said.")
@click.option(
    "--traces", default=SHARED, type=Path, help="The folder that holds data/ and golden/."
)
@click.option("--out", default=PAGE, type=Path, help="The page.")
def main(
    seeds: int, row_s: float, minutes: float, loads: str, policies: str, traces: Path, out: Path
) -> None:
    """Run every policy on every load and write one page."""
    settings = Settings(seeds, row_s, minutes, _split(loads), _split(policies))
    try:
        for line in board(settings, traces, out):
            click.echo(line)
    except DovetailError as error:
        raise click.ClickException(str(error)) from error


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


main()
