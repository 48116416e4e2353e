"""GPUs by number, as people write them: `0,2-3`."""

from __future__ import annotations

from dovetail.core.errors import BadInput

MOST = 4096


def gpu_numbers(text: str) -> list[int]:
    """Rising, each once."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = first, last if dash else first
        if not (_is_number(low) and _is_number(high) and int(low) <= int(high)):
            raise BadInput(f"{text!r} names no GPUs; write numbers, as in 0,2-3")
        found.update(range(int(low), int(high) + 1))
    return sorted(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 5 and int(text) < MOST
