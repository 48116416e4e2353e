"""Requests to one replica in order of time."""

from __future__ import annotations

from math import inf

from dovetail.serving.language.replica import LanguageReplica
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel


def replayed(
    model: LanguageModel, sequences: list[Sequence]
) -> tuple[LanguageReplica, list[Sequence]]:
    """The replica afterwards, and the sequences with their times filled in."""
    replica = LanguageReplica(model)
    for sequence in sequences:
        while replica.ends_s <= sequence.arrived_s:
            replica.turn(replica.ends_s)
        replica.arrive(sequence.arrived_s, sequence)
        if replica.ends_s == sequence.arrived_s:
            replica.turn(sequence.arrived_s)
    while replica.ends_s < inf:
        replica.turn(replica.ends_s)
    return replica, sequences
