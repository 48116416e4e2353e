"""What was said to a job's deadline, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dovetail.text.counting import counted
from dovetail.text.times import clock_near

_NOTICED_S = 1.0


class _Told(Protocol):
    @property
    def change(self) -> str: ...


class DeadlineSaid(Protocol):
    """As `api.job_row.DeadlineTold` has it."""

    @property
    def id(self) -> str: ...
    @property
    def deadline(self) -> float: ...
    @property
    def promised(self) -> bool | None: ...
    @property
    def refused(self) -> bool: ...
    @property
    def ends_by(self) -> float | None: ...
    @property
    def gpus(self) -> int | None: ...
    @property
    def why(self) -> str: ...
    @property
    def foreseen(self) -> bool | None: ...
    @property
    def would_do(self) -> Sequence[_Told]: ...


def promise_text(said: DeadlineSaid, now: float) -> str:
    """`promised: it ends by 18:40 on 2 GPUs`, or why not and what would do."""
    if said.promised:
        return _kept(said, now)
    told = f"not promised{', and refused' if said.refused else ''}: {said.why}"
    if said.promised is None:
        told = _not_yet(said)
    if said.would_do:
        told += f" (would do: {', or '.join([own.change for own in said.would_do])})"
    return told


def _not_yet(said: DeadlineSaid) -> str:
    if said.foreseen is None:
        return f"not promised yet; dovetail why {said.id} says more when the policy has decided"
    if said.foreseen:
        return "not promised yet, but will be as things stand"
    return f"not promised yet, and as things stand will not be: {said.why}"


def _kept(said: DeadlineSaid, now: float) -> str:
    gpus = f" on {counted(said.gpus, 'GPU')}" if said.gpus else ""
    if said.ends_by is None:
        return f"promised{gpus}"
    by = clock_near(said.ends_by, now)
    if said.ends_by > said.deadline + _NOTICED_S:
        return f"promised, but what was believed has changed: it ends by {by}{gpus}, too late"
    return f"promised: it ends by {by}{gpus}"
