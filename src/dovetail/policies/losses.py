"""What a running job would lose by giving way now, as far as the state knows."""

from __future__ import annotations

from dovetail.core.model import Seconds
from dovetail.core.track import Track

KILLED = "kill"  # the rung by which a job begins anew


def loss_gpu_s(track: Track, now: Seconds) -> float:
    """GPU-seconds: saving and restoring as last measured, else as its user said; and the work that is
    done again, where it was killed the last time, or may be and has never shown that it need not."""
    untried = track.saved_in_s < 0 and track.job.restartable
    again_s = 0.0
    if track.rung == KILLED or untried:
        again_s = min(track.job.interruption.lost_s, track.executed_by(now))
    return track.holds * (track.save_s + track.restore_s + again_s)
