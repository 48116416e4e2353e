"""Which of the requests that wait become the next batch: the same rules live and simulated.

Standard library only. `make("clockwork")` gives a rule; `rule.batcher(bounds)` what forms the batches
of one line of requests for one server.
"""

from __future__ import annotations

from dovetail.sdk.batching.forming import (
    BadRule,
    BatchBounds,
    Batcher,
    BatchRule,
    RequestLine,
    Step,
    WaitingRequest,
)
from dovetail.sdk.batching.table import RULES, make

__all__ = [
    "RULES",
    "BadRule",
    "BatchBounds",
    "BatchRule",
    "Batcher",
    "RequestLine",
    "Step",
    "WaitingRequest",
    "make",
]
