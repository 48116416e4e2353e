"""When a trial's turn will come, in the eyes of its study's rule."""

from __future__ import annotations

from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.text.counting import counted
from dovetail.tune.board import Mirror
from dovetail.tune.live import make_rule
from dovetail.tune.study import RUNNING
from dovetail.workloads.study.track import StudyTrack


def turn_text(state: State, study: StudyTrack, track: Track) -> str:
    """It waits for its turn: who of its study is before it."""
    design = study.design
    said = f"it waits for its turn in study {design.name!r}, in which {design.rule} decides"
    rank, waiting = rank_of(state, study, track)
    if rank is None:
        return said
    if rank == 1:
        return f"{said}; it is the next of {counted(waiting, 'trial')} that wait"
    return f"{said}; it is number {rank} of {counted(waiting, 'trial')} that wait"


def rank_of(state: State, study: StudyTrack, track: Track) -> tuple[int | None, int]:
    """As if one slot after the other came free now; None if the rule would leave one empty before.
    Also how many wait."""
    own = Mirror(study).sync(state).study
    waiting = len(own.waiting())
    try:
        rule = make_rule(study.design.rule)
        for rank in range(1, waiting + 1):
            chosen = rule.pick(own, None)
            if chosen is None:
                return None, waiting
            if chosen.number == track.job.member:
                return rank, waiting
            chosen.standing = RUNNING
    except Exception:  # a rule of somebody else's; the loop says what is wrong with it
        return None, waiting
    return None, waiting
