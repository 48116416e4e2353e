"""Who ran when on which GPU, within what a page can hold.

A page holds some ten thousand stints. A larger run shows those that held most GPU time, over a
coarse picture of how busy each GPU was with all of them, so that no busy GPU looks idle.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate
from math import ceil, log10

from dovetail.app.report.binning import Window
from dovetail.app.report.distribution import waited
from dovetail.app.report.series import gpus_held
from dovetail.core.model import WHOLE_GPU, Node, Placement
from dovetail.traces.record import RunRecord, Stint

MAX_RECTANGLES = 40_000  # over all runs of a page
MAX_CELLS = 1_500_000  # busy fractions over all runs of a page, a byte each
MAX_CELLS_PER_ROW = 400
FEW_CELLS_PER_ROW = 24  # with fewer than this, a row stands for a node instead of a GPU
MAX_TEXT = 80  # a job id longer than this is cut
LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Texts:
    """Each text once; elsewhere it is a number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - 1] + "…"
        return self.numbers.setdefault(text, len(self.numbers))


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


def select(run: RunRecord, budget: int) -> Selection:
    """As many stints as the budget of rectangles allows, those with most GPU-seconds first."""
    areas = array("d", [(end - start) * gpus_held(at) for _, at, start, end in run.stints])
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


def drawing(
    run: RunRecord, window: Window, budget: int, cells: int, texts: Texts
) -> Mapping[str, object]:
    """Everything the page needs to draw one run."""
    chosen = select(run, budget)
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
        "busy": None if complete else busy(run, window, cells),
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
    """How busy each GPU was, or each node where there are too many GPUs, as text: a letter a bin."""
    rows = first_rows(run.nodes)
    by_node = cells < FEW_CELLS_PER_ROW * rows[-1]
    count = len(run.nodes) if by_node else rows[-1]
    bins = max(8, min(MAX_CELLS_PER_ROW, cells // max(count, 1)))
    rises = _node_rises(run, window, bins) if by_node else _gpu_rises(run, window, bins, rows)
    stride = bins + 2
    lines = (accumulate(rises[at : at + bins]) for at in range(0, count * stride, stride))
    return {
        "bins": bins,
        "by_node": by_node,
        "levels": "".join(_letter(level) for line in lines for level in line),
    }


def _letter(level: float) -> str:
    """Rounded, but whatever is not idle gets at least the faintest shade."""
    if level < 1e-6:
        return LEVELS[0]
    return LEVELS[min(63, max(1, round(level * 63)))]


def _gpu_rises(run: RunRecord, window: Window, bins: int, rows: Sequence[int]) -> array[float]:
    """Where the level of each GPU rises and falls, as in `mean_levels`."""
    stride = bins + 2
    rises = array("d", bytes(8 * stride * rows[-1]))
    origin, scale = window.start_s, bins / window.span_s
    for _, (slices, share), start, end in run.stints:
        height = share / WHOLE_GPU
        on = (start - origin) * scale
        off = (end - origin) * scale
        up, down = int(on), int(off)
        up_late, down_late = (on - up) * height, (off - down) * height
        up_now, down_now = height - up_late, height - down_late
        for node, mask in slices:
            for first, count in _stretches(mask):
                top = (rows[node] + first) * stride
                for row in range(top, top + count * stride, stride):
                    rises[row + up] += up_now
                    rises[row + up + 1] += up_late
                    rises[row + down] -= down_now
                    rises[row + down + 1] -= down_late
    return rises


def _node_rises(run: RunRecord, window: Window, bins: int) -> array[float]:
    """The same for whole nodes."""
    stride = bins + 2
    rises = array("d", bytes(8 * stride * len(run.nodes)))
    origin, scale = window.start_s, bins / window.span_s
    part = [1 / (WHOLE_GPU * max(node.gpus, 1)) for node in run.nodes]
    for _, (slices, share), start, end in run.stints:
        on = (start - origin) * scale
        off = (end - origin) * scale
        up, down = int(on), int(off)
        for node, mask in slices:
            height = mask.bit_count() * share * part[node]
            row = node * stride
            rises[row + up] += height * (1 - on + up)
            rises[row + up + 1] += height * (on - up)
            rises[row + down] -= height * (1 - off + down)
            rises[row + down + 1] -= height * (off - down)
    return rises
