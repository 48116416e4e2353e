"""Numbers of things as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def counted(number: int, thing: str) -> str:
    """1 job, 2,000 jobs."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def ids_text(ids: Sequence[str]) -> str:
    """`job 7`, `jobs 7, 8 and 9`, `12 jobs: 1, 2, 3, …`"""
    if len(ids) == 1:
        return f"job {ids[0]}"
    if len(ids) <= 8:
        return f"jobs {', '.join(ids[:-1])} and {ids[-1]}"
    return f"{len(ids):,} jobs: {', '.join(ids[:5])}, …, {ids[-1]}"


def numbers_text(numbers: Iterable[int]) -> str:
    """0-3,6"""
    pieces: list[list[int]] = []
    for number in sorted(numbers):
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1][1:] = [number]
        else:
            pieces.append([number])
    return ",".join("-".join(map(str, piece)) for piece in pieces)


def either(names: Sequence[str]) -> str:
    """A text such as "load", or "load, tail weight or gang mix"."""
    *others, last = names or ("nothing",)
    return f"{', '.join(others)} or {last}" if others else last
