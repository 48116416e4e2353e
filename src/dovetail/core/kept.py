"""Which fields the parts of a state have, and what becomes of each when the state is kept.

The one table behind snapshots, stills and fingerprints: a field that stands in none of its rows fails
a test (`tests/core/test_kept.py`), so that nobody adds one without deciding about it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from dovetail.core.model import Job, JobId
from dovetail.core.shape import Shape
from dovetail.core.track import Track

# ------------------------------------------------------------------------------------------- tracks

TRACK_MADE_OF: Final = ("job", "sequence", "submitted_at", "ticket")  # and of its shape
TRACK_KEPT: Final = (
    *("phase", "waiting_since", "placement", "left", "awaits"),
    *("first_start_at", "started_at", "working_since", "ended_at", "speed", "executed_s"),
    *("held_s", "held_gpu_s", "forgiven_gpu_s", "lost_gpu_s", "preemptions", "attempts", "turn"),
    *("migrations", "reason", "exit_code", "held", "pinned", "process", "run", "rung"),
    *("parked_bytes", "parked_at", "saved_in_s", "restored_in_s", "step", "metrics", "reported_at"),
    *("reported_upto", "reports_left_out", "benched", "stranded", "requeued", "idle_s", "notes"),
    *("resizes", "moves_from", "paces", "window", "keeps", "tied"),
)
TRACK_DERIVED: Final = ("shape", "barred")

TRACK: Final = (*TRACK_MADE_OF, *TRACK_KEPT)
row_of_track: Final = attrgetter(*TRACK)  # of a `Track`
_NEW: Final = Track(Job(JobId("")), Shape(0, Job(JobId("")), ""), 0, 0.0, 0)
NEW_TRACK: Final = tuple([getattr(_NEW, name) for name in TRACK_KEPT])  # all as it begins


def set_kept(track: Track, values: tuple[Any, ...]) -> None:
    """Give a new track what was kept of another: `TRACK_KEPT`, in that order."""
    for name, value, new in zip(TRACK_KEPT, values, NEW_TRACK, strict=True):
        if value is not new and value != new:
            setattr(track, name, value)
    track.bar()


# ------------------------------------------------------------------------- the cluster and the rest

ROOM_KEPT: Final = (
    *("nodes", "drained", "down", "gone", "strangers", "strangers_host", "tenants"),
    *("closed", "vacated", "why_closed"),
)
ROOM_DERIVED: Final = (
    *("index", "pools", "sole", "pool_of", "bit", "free", "count", "shares", "cpus", "memory_gb"),
    *(
        "open",
        "withheld",
        "_sites",
        "_levels",
        "occupied",
        "gpus_up",
        "held",
        "partitioned",
        "tenants_matter",
        "prompt",
        "keeping",
    ),
)
ROOM_PASSING: Final = (  # of one decision, or for speed
    *(
        "changes",
        "_given",
        "_asked",
        "_draft",
        "_confirmed",
        "drafted",
        "share_changes",
        "unsettled",
    ),
    *("found", "found_for", "_lowest", "_single", "first", "watched", "counts_more"),
)
STATE_KEPT: Final = ("now", "policy", "complete", "_sequence", "_tickets")
STATE_PARTS: Final = (
    *("room", "_tracks", "_running", "past", "_kinds", "unplaceable", "limits", "notes"),
)
STATE_DERIVED: Final = (
    *("_dependants", "_shapes", "_simple_shapes", "_lanes", "_remembers", "groups"),
    *("suspended_count", "waiting_count"),
)
STATE_OF_LONG_AGO: Final = (  # kept in part
    *("_seen", "_unfinished", "capacity", "_peak_suspended", "_suspended_since"),
)
STATE_INDEXES: Final = (  # made anew by whoever asks for them
    *("_index_by_spec", "_on_settle", "_on_wait", "_on_run", "_on_end", "_on_due", "_on_park"),
    *("_on_report", "_on_close", "unheeded", "_tell_wait", "_tell_run", "_tell_end"),
)
