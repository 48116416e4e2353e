"""How many GPUs of which kind, by when: our policies against the authors' own programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import (
    allocation_deadline,
    allocation_gavel,
    allocation_goodput,
    allocation_pollux,
)
from benchmarks.lines import Line

PARTS: tuple[Callable[[], Iterator[Line]], ...] = (
    allocation_pollux.measured,
    allocation_deadline.measured,
    allocation_gavel.measured,
    allocation_goodput.measured,
)


def measured() -> Iterator[Line]:
    """Against the results that the authors' simulators gave, job by job (docs/allocation.md)."""
    for part in PARTS:
        yield from part()
