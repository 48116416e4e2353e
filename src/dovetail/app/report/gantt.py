"""Who ran when on which GPU, within what a page can hold.

A page holds some ten thousand stints. A larger run shows those that held most GPU time, over a
coarse picture of how busy each GPU was with all of them, so that no busy GPU looks idle.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate
from math import ceil, log10
from operator import add

from dovetail.app.report.binning import Window
from dovetail.app.report.distribution import waited
from dovetail.core.model import WHOLE_GPU, Node, Placement, Seconds
from dovetail.traces.record import RunRecord, Stint

MAX_RECTANGLES = 40_000  # over all runs of a page
MAX_CELLS = 800_000  # busy fractions over all runs of a page, a byte each
MAX_CELLS_PER_ROW = 400
FEW_CELLS_PER_ROW = 24  # with fewer than this, a row stands for a node instead of a GPU
MAX_TEXT = 80  # a job id longer than this is cut
LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Texts:
    """Each text once; elsewhere it is a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(cut(text), len(self.numbers))


def cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


@lru_cache(maxsize=4096)
def _stretches(mask: int) -> tuple[tuple[int, int], ...]:
    """The runs of neighbouring GPUs in a mask: first, count."""
    found: list[tuple[int, int]] = []
    first = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        count = (~mask & (mask + 1)).bit_length() - 1
        found.append((first + skip, count))
        first += skip + count
        mask >>= count
    return tuple(found)


def first_rows(nodes: Sequence[Node]) -> list[int]:
    """Each GPU has a row, node after node: the row of each node's GPU 0, and the number of rows."""
    return [0, *accumulate(node.gpus for node in nodes)]


def rectangles(placement: Placement, rows: Sequence[int]) -> list[tuple[int, int]]:
    """The rows a placement covers as (first, count), neighbours joined across nodes."""
    joined: list[tuple[int, int]] = []
    for node, mask in sorted(placement.slices):
        for first, count in _stretches(mask):
            top = rows[node] + first
            if joined and sum(joined[-1]) == top:
                joined[-1] = (joined[-1][0], joined[-1][1] + count)
            else:
                joined.append((top, count))
    return joined


def count_rectangles(run: RunRecord, enough: int) -> int:
    """How many a run would need; stops counting once it is enough."""
    rows = first_rows(run.nodes)
    count = 0
    for stint in run.stints:
        count += len(rectangles(stint.placement, rows))
        if count >= enough:
            break
    return count


def budgets(counts: Sequence[int], total: int) -> list[int]:
    """Equal parts of the total; what a small run leaves over goes to the larger ones."""
    given = [0] * len(counts)
    smallest_first = sorted(range(len(counts)), key=counts.__getitem__)
    for done, index in enumerate(smallest_first):
        given[index] = min(counts[index], total // (len(counts) - done))
        total -= given[index]
    return given


@dataclass(frozen=True, slots=True)
class Selection:
    """The stints drawn, in order of their start, and what share of all GPU time they stand for."""

    stints: Sequence[Stint]
    gpu_time_share: float


def select(run: RunRecord, held: Sequence[float], budget: int) -> Selection:
    """As many stints as the budget of rectangles allows, those with most GPU-seconds first."""
    areas = array("d", [(s[3] - s[2]) * gpus for s, gpus in zip(run.stints, held, strict=True)])
    everything = sum(areas)
    least = nlargest(budget, areas)[-1] if budget and areas else 0.0
    candidates = [index for index, area in enumerate(areas) if area >= least] if budget else []
    candidates.sort(key=areas.__getitem__, reverse=True)
    rows = first_rows(run.nodes)
    kept: list[int] = []
    for index in candidates:
        budget -= len(rectangles(run.stints[index].placement, rows))
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
class Room:
    """How much of the page one run may take."""

    rectangles: int
    cells: int


def drawing(
    run: RunRecord, window: Window, held: Sequence[float], room: Room, texts: Texts
) -> Mapping[str, object]:
    """Everything the page needs to draw one run. `held` are the GPUs of each stint."""
    chosen = select(run, held, room.rectangles)
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


def busy(run: RunRecord, window: Window, cells: int) -> Mapping[str, object]:
    """How busy each GPU was, a letter a bin; each node, where there are too many GPUs."""
    rows = first_rows(run.nodes)
    by_node = cells < FEW_CELLS_PER_ROW * rows[-1]
    count = len(run.nodes) if by_node else rows[-1]
    bins = max(8, min(MAX_CELLS_PER_ROW, cells // max(count, 1)))
    grid = Grid(window, bins, count)
    if by_node:
        _fill_nodes(grid, run)
    else:
        _fill_gpus(grid, run, rows)
    return {"bins": bins, "by_node": by_node, "levels": grid.letters()}


class Grid:
    """Levels by row and bin. A stint within one bin is noted in `inside`; a longer one only where
    it rises and falls, in `rises`, so that it costs the same however many bins it covers."""

    def __init__(self, window: Window, bins: int, rows: int) -> None:
        self.origin, self.scale = window.start_s, bins / window.span_s
        self.stride = bins + 2  # the last instant falls into a bin after the last, and one more
        self.bins = bins
        self.inside = [0.0] * (self.stride * rows)
        self.rises = [0.0] * (self.stride * rows)

    def add(self, cells: Iterable[int], start: Seconds, end: Seconds, height: float) -> None:
        """Rows are given by their first cell."""
        on = (start - self.origin) * self.scale
        off = (end - self.origin) * self.scale
        up, down = int(on), int(off)
        if up == down:
            inside, part = self.inside, (off - on) * height
            for cell in cells:
                inside[cell + up] += part
            return
        up_late, down_late = (on - up) * height, (off - down) * height
        rises = self.rises
        for cell in cells:
            rises[cell + up] += height - up_late
            rises[cell + up + 1] += up_late
            rises[cell + down] -= height - down_late
            rises[cell + down + 1] -= down_late

    def letters(self) -> str:
        """Row after row, rounded, but whatever is not idle gets at least the faintest shade."""
        lines: list[str] = []
        for at in range(0, len(self.rises), self.stride):
            levels = accumulate(self.rises[at : at + self.bins])
            both = map(add, levels, self.inside[at : at + self.bins])
            lines += [
                LEVELS[min(63, int(62 * level + 1.5))] if level > 1e-6 else "A" for level in both
            ]
        return "".join(lines)


def _fill_gpus(grid: Grid, run: RunRecord, rows: Sequence[int]) -> None:
    known: dict[tuple[int, int], list[int]] = {}  # by slice: the first cell of each GPU's row
    for _, placement, start, end in run.stints:
        height = placement.share / WHOLE_GPU
        for piece in placement.slices:
            cells = known.get(piece)
            if cells is None:
                top, mask = rows[piece.node], piece.mask
                gpus = [gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1]
                cells = known[piece] = [(top + gpu) * grid.stride for gpu in gpus]
            grid.add(cells, start, end, height)


def _fill_nodes(grid: Grid, run: RunRecord) -> None:
    part = [1 / (WHOLE_GPU * max(node.gpus, 1)) for node in run.nodes]
    for _, placement, start, end in run.stints:
        for node, mask in placement.slices:
            height = mask.bit_count() * placement.share * part[node]
            grid.add((node * grid.stride,), start, end, height)
