"""A picture made of braille characters: two by four dots in each.

Our own: plotext, the library for this, takes longer to import than the whole command runs.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from dovetail.text.tables import paint

ACROSS, DOWN = 2, 4  # dots of one character
_BLANK = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of the dot


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
