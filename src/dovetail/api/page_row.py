"""What an open page is told while things change."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.job_row import JobRow
from dovetail.api.machine_row import Counts, NodeRow
from dovetail.api.wire import about, row


@row
class PageUpdate:
    """What has changed since the update before."""

    seq: int = field(metadata=about("Of the last entry of the journal that it tells of."))
    at: float = field(metadata=about("Seconds since 1970."))
    counts: Counts
    jobs: list[JobRow] = field(
        metadata=about("Those that were submitted, have changed or have ended, as they are now.")
    )
    nodes: list[NodeRow] = field(metadata=about("Those whose GPUs have changed hands."))
    studies: list[str] = field(metadata=about("Ids of those that have changed."))
    services: list[str] = field(metadata=about("Ids of those that have changed."))
    settings: bool = field(metadata=about("Policy, tenants or limits have changed."))
    complete: bool = field(
        metadata=about("False: more has changed than is told here; read the page anew.")
    )
