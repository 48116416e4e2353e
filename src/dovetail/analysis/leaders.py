"""Who comes first, said only as far as the runs can tell."""

from __future__ import annotations

from collections.abc import Sequence


def either(names: Sequence[str]) -> str:
    """Such as "load", or "load, tail weight or gang mix"."""
    *others, last = names or ("nothing",)
    return f"{', '.join(others)} or {last}" if others else last


def unsure(names: Sequence[str]) -> str:
    return "; these runs cannot tell which" if len(names) > 1 else ""
