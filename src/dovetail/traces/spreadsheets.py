"""Texts of users in CSV files: spreadsheets would run what begins like a formula.

Such a text gets an apostrophe before it, which spreadsheets take as "this is text" and we take off
again when we read it. Numbers stay as they are."""

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
    """As it is safe in a cell."""
    return f"{_MARK}{text}" if _would_run(text.lstrip(_MARK)) else text


def unescaped(cell: str) -> str:
    """As it was. Of a cell that nobody has escaped: the cell."""
    return cell[1:] if cell[:1] == _MARK and _would_run(cell.lstrip(_MARK)) else cell


def as_cell(text: str) -> str:
    """A text that nobody has escaped, for those who will take an apostrophe off."""
    return escaped(text) if text[:1] == _MARK else text


def _would_run(text: str) -> bool:
    return text.startswith(_RUN) and not _NUMBER.fullmatch(text)
