"""Rounds: a policy that decides only at whole multiples of a time, and nothing in between.

When the next round is due is a note: so a policy decides once in a round, also after the daemon was
restarted. A policy without jobs forgets the note: the next job waits for the next multiple.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from dovetail.core.entries import Action, Note, Wake
from dovetail.core.model import Seconds
from dovetail.core.view import View


class Turn(NamedTuple):
    """Whether the round is due, and what is to be said about the next one with any decision."""

    due: bool
    notes: list[Action]


def turn(view: View, name: str, seconds: Seconds) -> Turn:
    """Rounds of that length of the policy of that name."""
    key, noted = f"{name}:round", view.notes.get(f"{name}:round")
    if not view.tracks:
        return Turn(False, [] if noted is None else [Note(key, None)])
    due = ceil(view.now / seconds) * seconds if noted is None else float(noted)
    if view.now < due:
        news = [Note(key, due)] if noted is None else []
        return Turn(False, [*news, Wake(due)])
    later = (floor(view.now / seconds) + 1) * seconds
    return Turn(True, [Note(key, later), Wake(later)])
