"""Which job ran when on which GPU, within the capacity of a page.

A page holds some ten thousand stints. A larger run shows those with most GPU time, over a coarse
picture of how busy each GPU was with all of them, so that no busy GPU looks idle.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import ceil, log10

from dovetail.reports.binning import Window
from dovetail.reports.busy import busy, first_rows, rectangles
from dovetail.reports.distribution import waited
from dovetail.results.record import RunRecord, Stint

MAX_RECTANGLES = 40_000  # over all runs of a page
MAX_TEXT = 80  # a job id longer than this is cut


class Texts:
    """A table of distinct texts, which are referred to by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(cut(text), len(self.numbers))


def cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _cost(stint: Stint, rows: Sequence[int]) -> int:
    """A stint on CPUs alone has no rectangle but still takes space in the page."""
    return max(1, len(rectangles(stint.placement, rows)))


def count_rectangles(run: RunRecord, enough: int) -> int:
    """The number of rectangles a run would need; counting stops once it is enough."""
    rows = first_rows(run.nodes)
    count = 0
    for stint in run.stints:
        count += _cost(stint, rows)
        if count >= enough:
            break
    return count


def budgets(counts: Sequence[int], total: int) -> list[int]:
    """Equal parts of the total; a small run's remainder goes to the larger ones."""
    given = [0] * len(counts)
    smallest_first = sorted(range(len(counts)), key=counts.__getitem__)
    for done, index in enumerate(smallest_first):
        given[index] = min(counts[index], total // (len(counts) - done))
        total -= given[index]
    return given


@dataclass(frozen=True, slots=True)
class Selection:
    """The stints drawn, in order of their start, and their share of all GPU time."""

    stints: Sequence[Stint]
    gpu_time_share: float


def select(run: RunRecord, in_use: Sequence[float], budget: int) -> Selection:
    """As many stints as the budget of rectangles allows, those with most GPU-seconds first."""
    areas = array("d", [(s[3] - s[2]) * gpus for s, gpus in zip(run.stints, in_use, strict=True)])
    everything = sum(areas)
    least = nlargest(budget, areas)[-1] if budget and areas else 0.0
    candidates = [index for index, area in enumerate(areas) if area >= least] if budget else []
    candidates.sort(key=areas.__getitem__, reverse=True)
    rows = first_rows(run.nodes)
    kept: list[int] = []
    for index in candidates:
        budget -= _cost(run.stints[index], rows)
        if budget < 0:
            break
        kept.append(index)
    drawn = sum(areas[index] for index in kept)
    stints = sorted((run.stints[index] for index in kept), key=lambda stint: stint.start_s)
    return Selection(stints, drawn / everything if everything else 1.0)


def tick_seconds(window: Window) -> float:
    """The unit of time on the page: ten million of them cover the run, none is under 1 ms."""
    return max(1e-3, 10.0 ** ceil(log10(window.span_s / 1e7)))


@dataclass(frozen=True, slots=True)
class PageShare:
    """How much of the page one run may take."""

    rectangles: int
    cells: int


def drawing(
    run: RunRecord, window: Window, in_use: Sequence[float], room: PageShare, texts: Texts
) -> Mapping[str, object]:
    """All data to draw one run. `in_use`: the GPUs of each stint."""
    chosen = select(run, in_use, room.rectangles)
    complete = len(chosen.stints) == len(run.stints)
    tick = tick_seconds(window)
    numbers = {job: i for i, job in enumerate(dict.fromkeys(s.job for s in chosen.stints))}
    return {
        "tick": tick,
        "stints": _stints(run, chosen.stints, numbers, window, tick),
        "jobs": [_job(run, job, window, tick, texts) for job in numbers],
        "total": len(run.stints),
        "shown": len(chosen.stints),
        "gpu_time_share": round(chosen.gpu_time_share, 4),
        "busy": None if complete else busy(run, window, room.cells),
    }


def _stints(
    run: RunRecord,
    stints: Sequence[Stint],
    numbers: Mapping[int, int],
    window: Window,
    tick: float,
) -> list[int]:
    """One flat list: job, ticks since the start before, length, share, rectangles, each of them."""
    rows = first_rows(run.nodes)
    flat: list[int] = []
    before = 0
    for job, placement, start_s, end_s in stints:
        start = round((start_s - window.start_s) / tick)
        length = round((end_s - window.start_s) / tick) - start
        parts = rectangles(placement, rows)
        flat += (numbers[job], start - before, length, placement.share, len(parts))
        flat += (number for part in parts for number in part)
        before = start
    return flat


def _job(run: RunRecord, job: int, window: Window, tick: float, texts: Texts) -> list[int]:
    """Id, user, GPUs, submitted, waited, ended, preemptions, outcome."""
    row = run.jobs[job]
    return [
        texts.number(row.job_id),
        texts.number(row.user),
        row.gpus,
        round((row.submit_s - window.start_s) / tick),
        round(waited(row) / tick),
        round((row.end_s - window.start_s) / tick),
        row.preemptions,
        texts.number(row.outcome),
    ]
