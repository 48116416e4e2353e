"""Learning curves for a terminal: axes, all curves, the best above the others.

Drawn by braille characters, two by four dots in each. plotext, the library for this, takes longer to
import than the whole command runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil, floor, isfinite, log10
from typing import Final, NamedTuple, TypeAlias

from dovetail.text.tables import columns_of, cut, padded, paint

Point: TypeAlias = tuple[float, float]

PLAIN, RUNNING, BEST = 1, 2, 3  # layers: the best lies above
_STYLES = ["yellow", "dim", "cyan", "green"]  # of the target, and of each layer
_MARKS = {BEST: "●"}  # where there are no colours
_NARROWEST, _LOWEST = 24, 6
_MOST_PIECES = 60_000  # of curves, in all; a terminal shows far fewer
_DECADES = 100.0  # values that differ that much are shown on a logarithmic scale
# of a linear scale: if half of the values lie that close to the best, a log scale helps
_CROWDED = 0.15
_FEW_TIMES = 5.0  # values that differ less look alike on both scales
_ROOM = 0.05  # of a scale, beyond its ends
_STEPS = (1.0, 2.0, 5.0, 10.0)
ACROSS, DOWN = 2, 4  # dots of one character
_BLANK = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of the dot


class Curve(NamedTuple):
    """Points from left to right; a value that is not finite is a gap in the curve."""

    points: Sequence[Point]
    layer: int = PLAIN


class Titles(NamedTuple):
    across: str
    up: str
    note: str = ""  # about the best value
    rule: str = ""  # about the target


class Scale(NamedTuple):
    low: float
    high: float
    is_log: bool = False

    def part(self, value: float) -> float:
        """0 at the lower end, 1 at the upper end, and outside that range beyond them."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = log10(low), log10(high), log10(max(value, low))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def ticks(self, most: int) -> list[float]:
        """About so many round numbers; the two ends if fewer than two round ones fit."""
        found = self._powers() if self.is_log else self._round_numbers(most)
        skip = ceil(len(found) / max(most, 1))
        found = found[::skip] if skip > 1 else found
        return found if len(found) > 1 else [self.low, self.high]

    def _round_numbers(self, most: int) -> list[float]:
        step = _round_step((self.high - self.low) / max(most - 1, 1))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [float(f"{number * step:.10g}") for number in range(first, last + 1)]

    def _powers(self) -> list[float]:
        first, last = ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def _round_step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return power * next(step for step in _STEPS if step * power >= rough * 0.9999)


def chart(
    curves: Sequence[Curve],
    titles: Titles,
    size: tuple[int, int],
    *,
    until: float = 0.0,
    target: float | None = None,
    minimise: bool = True,
    colours: bool = False,
) -> list[str]:
    """Lines that fill `size` (columns, lines); none if it is too small to draw in."""
    columns, lines = size
    if columns < _NARROWEST or lines < _LOWEST:
        return []
    values = [y for curve in curves for _, y in curve.points if isfinite(y)]
    if not values:
        return [cut(f"{titles.up}: no value has been reported yet", columns)]
    rows = lines - 3
    up = scale_of(values, target, minimise)
    last = max(curve.points[-1][0] for curve in curves if curve.points)
    across = Scale(0.0, max(until, last, 1.0))
    labels = _labels(up, rows)
    gutter = max(map(columns_of, labels.values()), default=0)
    canvas = Canvas(columns - gutter - 2, rows)
    if target is not None and up.low <= target <= up.high:
        canvas.rule(_height(canvas, up, target), "╌")
    _draw(canvas, curves, across, up)
    drawn = canvas.lines(_STYLES if colours else None, {} if colours else _MARKS)
    off = sum(1 for value in values if not up.low <= value <= up.high)
    return [
        _title(titles, up, off, columns, colours),
        *(_labelled(labels.get(row, ""), gutter, line) for row, line in enumerate(drawn)),
        *_bottom(across, titles.across, gutter, columns),
    ]


# ------------------------------------------------------------------------------------------- scales


def scale_of(values: Sequence[float], target: float | None, minimise: bool) -> Scale:
    """Values far worse than nearly all others, as of a diverged trial, do not set the scale."""
    ordered = sorted(values if target is None else [*values, target], reverse=not minimise)
    usual = sorted((ordered[0], ordered[ceil(0.98 * (len(ordered) - 1))]))
    if ordered[0] > 0 and ordered[-1] > 0 and _spreads(ordered, usual):
        furthest = 10.0 ** _worst([log10(value) for value in ordered])
        low, high = sorted((ordered[0], (min if minimise else max)(ordered[-1], furthest)))
        return Scale(low, high, is_log=True)
    low, high = sorted((ordered[0], _worst(ordered)))
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(low) / 2 or 0.5
        return Scale(low - room, high + room)
    return Scale(low, high)


def _spreads(ordered: Sequence[float], usual: Sequence[float]) -> bool:
    """Does a logarithmic scale separate values that a linear one would draw on top of each other?"""
    low, high = usual
    if high >= _DECADES * low:
        return True
    middle = ordered[len(ordered) // 2]
    return high >= _FEW_TIMES * low and abs(middle - ordered[0]) < _CROWDED * (high - low)


def with_room(scale: Scale) -> Scale:
    """The scale with a little room at its ends, so that the best does not lie on the axis."""
    if not isfinite(2 * (scale.high - scale.low)):
        return scale  # there are no numbers beyond
    if scale.is_log:
        beyond = (scale.high / scale.low) ** _ROOM
        return Scale(scale.low / beyond, scale.high * beyond, is_log=True)
    beyond = _ROOM * (scale.high - scale.low)
    low = scale.low - beyond
    return Scale(max(low, 0.5 * scale.low) if scale.low > 0 else low, scale.high + beyond)


def _worst(ordered: Sequence[float]) -> float:
    """The worst value on the scale, from values from best to worst: at most four times as far as
    nine in ten of them go."""
    best, common, worst = ordered[0], ordered[(len(ordered) - 1) * 9 // 10], ordered[-1]
    furthest = common + 3 * (common - best)
    return furthest if common != best and abs(worst - best) > abs(furthest - best) else worst


def _labels(up: Scale, rows: int) -> dict[int, str]:
    """The label before each row."""
    ticks = up.ticks(max(rows // 2, 2))
    return {round((1 - up.part(tick)) * (rows - 1)): f"{tick:.3g}" for tick in ticks}


# ------------------------------------------------------------------------------------------ drawing


def _draw(canvas: Canvas, curves: Sequence[Curve], across: Scale, up: Scale) -> None:
    most = max(_MOST_PIECES // len(curves), 2)
    for curve in sorted(curves, key=lambda curve: curve.layer):
        before: tuple[int, int] | None = None
        for x, y in _thinned(curve.points, canvas.width if curve.layer == BEST else most):
            if not isfinite(y):
                before = None
                continue
            place = (round(across.part(x) * (canvas.width - 1)), _height(canvas, up, y))
            canvas.line(before or place, place, curve.layer)
            before = place


def _labelled(label: str, gutter: int, line: str) -> str:
    return f"{padded(label, gutter, right=True)} {'┤' if label else '│'}{line}".rstrip()


def _height(canvas: Canvas, up: Scale, value: float) -> int:
    """Dots from the top. A tick stands in the middle of its row, so half a row is left over."""
    return round((1 - up.part(value)) * (canvas.height - DOWN)) + DOWN // 2 - 1


def _thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    stride = ceil(len(points) / most)
    return points if stride <= 1 else [*points[::stride], points[-1]]


def _title(titles: Titles, up: Scale, off: int, columns: int, colours: bool) -> str:
    told = titles.up + (", log scale" if up.is_log else "") + titles.rule
    told += f" ({off:,} off the scale)" if off else ""
    note = f"● {titles.note}" if titles.note else ""
    room = columns - columns_of(note) - 2
    if not note or room < columns_of(told):
        return cut(told, columns)
    return f"{padded(told, room)}  {paint(note, 'green' if colours else '')}"


def _bottom(across: Scale, title: str, gutter: int, columns: int) -> list[str]:
    """The axis, and below it its numbers, with the title at the end."""
    width = columns - gutter - 2
    axis, numbers = ["─"] * width, [" "] * (width + 1)
    end = width - columns_of(title) - 1
    for tick in across.ticks(max(width // 10, 2)):
        label = f"{tick:.6g}"
        place = round(across.part(tick) * (width - 1))
        start = max(place - len(label) // 2, 0)
        if start + len(label) <= end and tick.is_integer():  # there is no half step
            axis[place] = "┬"
            numbers[start : start + len(label)] = label
    numbers[end + 1 :] = cut(title, width)
    return [f"{' ' * gutter} └{''.join(axis)}", f"{' ' * gutter}  {''.join(numbers)}".rstrip()]


class Canvas:
    """Characters hold dots, and the number of the highest layer that has dots there."""

    def __init__(self, columns: int, rows: int) -> None:
        self.width: Final = columns * ACROSS
        self.height: Final = rows * DOWN
        self._dots: Final = [[0] * columns for _ in range(rows)]
        self._layers: Final = [[0] * columns for _ in range(rows)]
        self._marks: Final[list[list[str]]] = [[""] * columns for _ in range(rows)]

    def dot(self, x: int, y: int, layer: int) -> None:
        """Counted from the upper left."""
        row, column = y // DOWN, x // ACROSS
        layers = self._layers[row]
        if layer >= layers[column]:
            if layer > layers[column]:
                self._dots[row][column] = 0  # a lower layer would only blur it
                layers[column] = layer
            self._dots[row][column] |= _BITS[y % DOWN][x % ACROSS]

    def line(self, start: tuple[int, int], end: tuple[int, int], layer: int) -> None:
        (x, y), (to_x, to_y) = start, end
        length = max(abs(to_x - x), abs(to_y - y), 1)
        for part in range(length + 1):
            self.dot(x + (to_x - x) * part // length, y + (to_y - y) * part // length, layer)

    def rule(self, y: int, mark: str) -> None:
        """A line across the whole width, behind everything."""
        self._marks[y // DOWN] = [mark] * (self.width // ACROSS)

    def lines(self, styles: list[str] | None, marks: dict[int, str]) -> list[str]:
        """Layer n in style n; without styles, a layer that has a mark is drawn with it."""
        return [self._line(row, styles, marks) for row in range(len(self._dots))]

    def _line(self, row: int, styles: list[str] | None, marks: dict[int, str]) -> str:
        cells = zip(self._layers[row], self._dots[row], self._marks[row], strict=True)
        if styles is None:
            return "".join(marks.get(layer) or _cell(dots, mark) for layer, dots, mark in cells)
        runs = groupby(cells, key=lambda cell: cell[0])
        return "".join(_painted(list(run), styles[layer]) for layer, run in runs)


def _painted(cells: list[tuple[int, int, str]], style: str) -> str:
    text = "".join(_cell(dots, mark) for _, dots, mark in cells)
    return text if text.isspace() else paint(text, style)


def _cell(dots: int, mark: str) -> str:
    return chr(_BLANK + dots) if dots else mark or " "
