"""Python's search for cyclic garbage, in a process whose objects live long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects made and not given back before the young are looked through; rounds of the young before the
# older, and of those before all. By Python's own choice (700, 10, 10) all that came since the start is
# looked through every few hundred decisions, for 20 to 50 ms where thousands of jobs come and go.
_SELDOM = (20_000, 20, 20)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """What there is now is never looked through again, what comes seldom: next to nothing of it is
    cyclic, and the loop waits for each look."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
