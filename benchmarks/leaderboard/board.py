"""`python -m benchmarks leaderboard`: run it, print the tables, write docs/leaderboard.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.leaderboard.loads import LOADS, Load
from benchmarks.leaderboard.page import page
from benchmarks.leaderboard.rows import BoardRow, KeptRows, Settings
from benchmarks.leaderboard.runs import all_rows, policies
from benchmarks.lines import Line
from dovetail.core.errors import BadInput

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
PAGE = ROOT / "docs/leaderboard.md"
KEPT = ROOT / "build/leaderboard.jsonl"
MOST_S = 7200.0  # an hour of two processors


def measured() -> Iterator[Line]:
    """Every policy on every public trace at hand, and on generated loads (docs/leaderboard.md)."""
    yield from board(Settings(), SHARED, PAGE)


def board(
    settings: Settings, folder: Path, out: Path, kept: Path = KEPT,
    loads: tuple[Load, ...] = LOADS, quiet: bool = False,
) -> Iterator[Line]:  # fmt: skip
    """Run all, write the page, and say what came of it."""
    asked = chosen(settings, loads)
    absent = {load.name: load.missing(folder) for load in asked if load.missing(folder)}
    for name, files in absent.items():
        print(f"     {name} is left out: {', '.join(files)} not found in {folder}")
    there = [load for load in asked if load.name not in absent]
    kept_rows = KeptRows(kept, settings)
    texts = list(settings.policies) or policies()
    rows = all_rows(there, texts, settings, folder, kept_rows, quiet)
    took_s = sum(row.took_s for row in rows)
    text = page(there, rows, settings, list(absent), took_s)
    out.write_text(text, "utf-8")
    kept_rows.forget()
    print(text)
    yield from _lines(there, rows, took_s)


def chosen(settings: Settings, loads: tuple[Load, ...]) -> list[Load]:
    strange = set(settings.loads) - {load.name for load in loads}
    if strange:
        names = ", ".join(load.name for load in loads)
        raise BadInput(f"there is no load {', '.join(sorted(strange))}; there are {names}")
    return [load for load in loads if not settings.loads or load.name in settings.loads]


def _lines(loads: list[Load], rows: list[BoardRow], took_s: float) -> Iterator[Line]:
    for load in loads:
        own = [row for row in rows if row.load == load.name]
        whole = sum(not row.reason for row in own)
        told = all(row.runs or row.reason for row in own)
        yield Line(
            f"{load.name}: rows without a reason", f"{whole} of {len(own)}", "each told", told
        )
    minutes, most = took_s / 60.0, f"under {MOST_S / 60.0:.0f}"
    yield Line("processor minutes in all", f"{minutes:.0f}", most, took_s < MOST_S)
