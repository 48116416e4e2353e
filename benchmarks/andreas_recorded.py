"""Ours against the totals that the authors of ANDREAS recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.andreas_runs import (
    FRUGAL,
    LOCAL_SEARCH,
    RANDOM_GREEDY,
    Costs,
    Extent,
    all_costs,
    recorded,
    recorded_totals,
    spread,
)
from benchmarks.lines import Line


def recorded_runs(extent: Extent) -> Iterator[Line]:
    """The authors' folders: our random greedy and local search, and frugal, against their totals."""
    folders = _of_sizes(recorded("*-N"), extent)
    if not folders:
        print("     the authors' results are not here: left out")
        return
    runs = dict(zip(folders, all_costs(folders, (RANDOM_GREEDY, FRUGAL)), strict=True))
    small = [folder for folder in folders if "LS" in recorded_totals(folder)]
    local = dict(zip(small, all_costs(small, (LOCAL_SEARCH,)), strict=True))
    on_theirs = {folder: run for folder, run in runs.items() if folder.name.startswith("ANDREAS")}
    rented = {folder: run for folder, run in runs.items() if folder not in on_theirs}
    apart = _apart(runs, RANDOM_GREEDY, "RG")
    yield Line(
        f"our random greedy above theirs, {len(runs)} folders",
        spread(apart),
        "0.5 % on average",
        abs(mean(apart)) <= 0.5,
    )
    _say("on their cluster", _apart(on_theirs, RANDOM_GREEDY, "RG"))
    _say("datacenter", _apart(rented, RANDOM_GREEDY, "RG"))
    _say("local search above theirs", _apart(local, LOCAL_SEARCH, "LS"))
    ahead = _apart(on_theirs, FRUGAL, "RG")
    late = max(run.late_part(FRUGAL) for run in on_theirs.values())
    yield Line(
        "frugal above their random greedy, on their cluster",
        spread(ahead),
        "-10 % on average",
        mean(ahead) <= -10,
    )
    yield Line("frugal: lateness, the worst", f"{late:.2f} %", "at most 1 %", late <= 1)
    _say("frugal above their random greedy, datacenter", _apart(rented, FRUGAL, "RG"))


def _say(what: str, values: Sequence[float]) -> None:
    print(f"     {f'{what}, {len(values)} folders':<52} {spread(values):>22}")


def _of_sizes(folders: Sequence[Path], extent: Extent) -> list[Path]:
    largest = max(extent.nodes)
    return [folder for folder in folders if int(folder.name.split("-")[1][1:]) <= largest]


def _apart(runs: Mapping[Path, Costs], policy: str, theirs: str) -> list[float]:
    """Per cent above the total that the authors recorded for that method of theirs."""
    return [
        100 * (run.total[policy] / recorded_totals(folder)[theirs] - 1)
        for folder, run in runs.items()
    ]
