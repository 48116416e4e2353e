"""What the policy has said to deadlines, by its own word (`policies.precedence.PromisesDeadlines`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Protocol, TypeVar

from dovetail.api.job_row import DeadlineTold
from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.daemon.active_policy import Chosen, said
from dovetail.daemon.clock import Clock
from dovetail.policies.precedence import DeadlineWord

Answer = TypeVar("Answer")


class _Asked(Protocol):
    """The part of a service that is used here."""

    @property
    def clock(self) -> Clock: ...

    @property
    def chosen(self) -> Chosen: ...

    def look(self, look: Callable[[View, Seconds], Answer]) -> Answer: ...


def promise_of(
    policy: Policy, view: View, track: Track, unix: Callable[[Seconds], float]
) -> DeadlineTold | None:
    """None: it has no deadline, or the policy promises none."""
    if track.job.deadline is None:
        return None
    word: DeadlineWord | None = said(policy, "deadline_word", view, track)
    if word is None:
        return None
    return DeadlineTold(
        id=track.job.id,
        deadline=unix(track.job.deadline),
        promised=word.promised,
        refused=track.phase is Phase.REFUSED,
        ends_by=unix(word.done_at) if word.promised and isfinite(word.done_at) else None,
        gpus=word.gpus if word.promised and word.gpus else None,
        why=word.why,
    )


def promises_of(service: _Asked, ids: Sequence[str]) -> list[DeadlineTold]:
    """Of jobs that were just submitted, some of which may have been refused."""
    policy, unix = service.chosen.policy, service.clock.unix

    def look(view: View, now: Seconds) -> list[DeadlineTold]:
        past = {track.job.id: track for track in view.past}
        tracks = [view.tracks.get(JobId(own)) or past.get(JobId(own)) for own in ids]
        found = [promise_of(policy, view, track, unix) for track in tracks if track is not None]
        return [told for told in found if told is not None]

    return service.look(look)
