"""The line that stands for output that is gone, in the daemon's answers and when a log is followed."""

from __future__ import annotations


def gone_text(number: int) -> str:
    return (
        f"[dovetail: {number:,} bytes of output are gone here: of a long log the beginning and the "
        "end are kept]"
    )
