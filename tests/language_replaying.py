"""Requests to one replica in order of time."""

from __future__ import annotations

from math import inf

from dovetail.serving.language.replica import LanguageReplica
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.request import Request


def replayed(
    model: LanguageModel, rule: StepRule, requests: list[Request]
) -> tuple[LanguageReplica, list[Sequence]]:
    """The replica afterwards, and the sequences with their times filled in."""
    replica = LanguageReplica(model, rule)
    sequences = [Sequence(number, request) for number, request in enumerate(requests)]
    for sequence in sequences:
        now = sequence.request.at
        while replica.ends_s <= now:
            replica.turn(replica.ends_s)
        replica.arrive(now, sequence)
        if replica.ends_s == now:
            replica.turn(now)
    while replica.ends_s < inf:
        replica.turn(replica.ends_s)
    return replica, sequences
