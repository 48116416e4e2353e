"""Arrays: one description, many jobs that differ by their index."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_MEMBERS = 10_000
LARGEST_INDEX = 10**9
PIECE = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?")
LIMIT = re.compile(r"[0-9]{1,10}")
LONGEST_TEXT = 120_000  # ten thousand indices with their commas


class Array(NamedTuple):
    """The indices in order, and how many may run at once."""

    indices: tuple[int, ...]
    limit: int | None = None


@lru_cache(maxsize=64)
def parse(text: str) -> Array:
    """`0-9`, `1,3,5-20:5`, `0-99%4`, as Slurm writes them. Asked again for each of its members."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"is too long: {len(text):,} characters")
    pieces, percent, limit = text.replace(" ", "").partition("%")
    if percent and not (LIMIT.fullmatch(limit) and int(limit)):
        raise ValueError("does not say after % how many may run at once, such as 0-99%4")
    indices: set[int] = set()
    for piece in pieces.split(","):
        indices.update(_range(piece, MOST_MEMBERS - len(indices)))
    return Array(tuple(sorted(indices)), int(limit) if percent else None)


def _range(piece: str, room: int) -> range:
    match = PIECE.fullmatch(piece)
    if match is None:
        raise ValueError("is not a list of indices, such as 0-9, 1,3,5-20:5 or 0-99%4")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or not step:
        raise ValueError(f"has a range that holds nothing: {piece}")
    if last > LARGEST_INDEX:
        raise ValueError(f"has an index over {LARGEST_INDEX:,}")
    found = range(first, last + 1, step)
    if len(found) > room:
        raise ValueError(f"has too many members; an array has {MOST_MEMBERS:,} at most")
    return found


def array(value: object) -> str:
    """The text of an array that makes sense; a single number is an array of one."""
    found = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(found, str):
        raise ValueError("is not a list of indices, such as 0-9, 1,3,5-20:5 or 0-99%4")
    parse(found)
    return found.strip()
