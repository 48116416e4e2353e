"""How busy each GPU was: the picture under the stints when there are too many stints to draw. Each GPU
has a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import add

from dovetail.core.model import WHOLE_GPU, Node, Placement, Seconds
from dovetail.reports.binning import Window
from dovetail.results.record import RunRecord

MAX_CELLS = 800_000  # busy fractions over all runs of a page, a byte each
MAX_CELLS_PER_ROW = 400
FEW_CELLS_PER_ROW = 24  # with fewer, a row is a node instead of a GPU
LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def busy(run: RunRecord, window: Window, cells: int) -> Mapping[str, object]:
    """How busy each GPU was, one letter per bin; each node, if there are too many GPUs."""
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
    """Levels by row and bin. A stint within one bin is added to `inside`; a longer one only where
    it begins and ends, to `rises`, so that it costs the same however many bins it covers."""

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
        """Row after row, rounded; anything not idle gets at least the faintest shade."""
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
