"""Users' texts in CSV files: spreadsheets would execute a text that begins like a formula.

Such a text gets an apostrophe in front, which spreadsheets read as "this is text" and which we
remove when we read it. Numbers are unchanged.
"""

from __future__ import annotations

import re
from typing import Final

_RUN: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # what spreadsheets take for the beginning of a formula
_MARK: Final = "'"
_NUMBER: Final = re.compile(r"[+-](\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def escaped(text: str) -> str:
    """The text, safe in a cell."""
    return f"{_MARK}{text}" if _would_run(text.lstrip(_MARK)) else text


def unescaped(cell: str) -> str:
    """The original text. A cell that was never escaped is returned unchanged."""
    return cell[1:] if cell[:1] == _MARK and _would_run(cell.lstrip(_MARK)) else cell


def as_cell(text: str) -> str:
    """A text that was never escaped, for readers that will remove an apostrophe."""
    return escaped(text) if text[:1] == _MARK else text


def _would_run(text: str) -> bool:
    return text.startswith(_RUN) and not _NUMBER.fullmatch(text)
