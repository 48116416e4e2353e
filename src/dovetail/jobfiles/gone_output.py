"""What is said in place of output that is no longer there, by the daemon and by who follows a log."""

from __future__ import annotations


def gone_text(number: int) -> str:
    return (
        f"[dovetail: {number:,} bytes of output are gone here: of a long log the beginning and the "
        "end are kept]"
    )
