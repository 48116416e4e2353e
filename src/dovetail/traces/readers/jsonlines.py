"""JSON lines as a table: one object per line, with the same names as the columns of our CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TextIO

from dovetail.traces.readers.cells import CellError, Row, clipped, header_of, plain
from dovetail.traces.readers.columns import COLUMNS, ENDS, UNITS, resolved, unused
from dovetail.traces.readers.rows import Complaints
from dovetail.traces.spreadsheets import as_cell

BLANK = ""
ALL = (*COLUMNS, *ENDS)


class JsonTable:
    """Objects may leave out different keys, so the header is every column there is."""

    def __init__(self, source: str, first: str, skipped: int, rest: TextIO) -> None:
        self.header = header_of(source, ALL)
        self.line = skipped
        self._lines = chain([first], rest)
        self._position: dict[str, int | None] = {}

    def rows(self, complaints: Complaints) -> Iterator[Row]:
        for line in self._lines:
            self.line += 1
            if not line.isspace():
                try:
                    row = self._row(line)
                except ValueError as error:  # the errors of the json module are ValueErrors, too
                    complaints.add(self.line, str(error))
                else:
                    yield row

    def _row(self, line: str) -> Row:
        row = [BLANK] * len(ALL)
        for key, value in _parsed(line).items():
            place = self._place(key)
            if place is not None:
                if row[place]:
                    raise CellError(f"{key!r} and another key both mean {ALL[place]!r}")
                text = _text(key, value)
                unit = UNITS.get(plain(key))
                row[place] = repr(_in_own_unit(key, text, unit[1])) if unit and text else text
        return row

    def _place(self, key: str) -> int | None:
        """The column of a key; None for unknown keys."""
        if key not in self._position:
            found = resolved(header_of(self.header.source, [key])).index
            self._position[key] = ALL.index(next(iter(found))) if found else None
        return self._position[key]

    def notes(self) -> list[str]:
        strange = [key for key, place in self._position.items() if place is None]
        return unused(strange, ALL.index("gpus") in self._position.values())


def _in_own_unit(key: str, text: str, convert: Callable[[str], float]) -> float:
    try:
        return convert(text)
    except ValueError as error:
        raise CellError(f"column {key!r}: {clipped(text)!r} {error}") from None


def _parsed(line: str) -> dict[str, object]:
    import json

    try:
        value = json.loads(line)
    except RecursionError:
        raise CellError("the object is nested too deeply") from None
    except ValueError as error:
        raise CellError(f"this is not a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise CellError(f"{clipped(line.strip())!r} is not a JSON object")
    return value


def _text(key: str, value: object) -> str:
    if isinstance(value, str):
        return as_cell(value)
    if value is None:
        return BLANK
    if isinstance(value, list):
        return "|".join(_text(key, part) for part in value)
    if isinstance(value, int | float):
        return repr(value)
    raise CellError(f"{key!r} holds {clipped(repr(value))}; give a number, a text or a list")
