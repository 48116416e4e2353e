"""From the track of a job to its row: the same for a job that runs and for one that has ended, whose row
is kept in the transaction of the entry that ended it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, cast

from dovetail.api.job_row import GivingWay, JobRow, MeasuredSpeed, Report, UsedTold
from dovetail.api.job_row import Phase as PhaseName
from dovetail.api.wire import text_of
from dovetail.core.model import WHOLE_GPU, JobId, Node, Seconds
from dovetail.core.paces import latest_first
from dovetail.core.track import Phase, Track
from dovetail.core.view import ENDS, WAITS, View
from dovetail.daemon.clock import Clock
from dovetail.daemon.gpus_told import held
from dovetail.daemon.holds import AFTER, BENCHED, held_text
from dovetail.store import EndedJob, Store
from dovetail.worlds.world import UsedByJob


def row_of(track: Track, clock: Clock, nodes: Sequence[Node]) -> JobRow:
    job = track.job
    return JobRow(
        id=job.id,
        name=job.name,
        user=job.user,
        tenant=job.tenant,
        phase=phase_of(track),
        exit_code=0 if track.phase is Phase.FINISHED else track.exit_code,
        gpus=gpus_of(track),
        share=job.share / WHOLE_GPU,
        kinds=list(job.kinds),
        priority=job.priority,
        preemptions=track.preemptions,
        attempts=track.attempts + (1 if track.first_start_at >= 0 and _still_counts(track) else 0),
        submitted_at=clock.unix(track.submitted_at),
        started_at=_at(track.first_start_at, clock),
        ended_at=_at(track.ended_at, clock),
        run_s=track.held_by(clock()) if track.ended_at < 0 else track.held_s,
        lost_gpu_s=track.lost_gpu_s,
        placement=[] if track.placement is None else held(track.placement, nodes),
        last_report=_last_report_of(track, clock),
        preemption=_preemption_of(track),
        reason=reason_of(track, clock.unix(clock())),
        time_limit_s=job.time_limit_s,
        deadline=clock.unix(job.deadline) if job.deadline is not None else None,
        after=list(job.after),
        after_any=list(job.after_any),
        after_failed=list(job.after_failed),
        group=job.group,
        model=job.model,
        trial=job.member,
        alike=list(job.alike),
        amount=job.amount,
        speeds=speeds_of(track, clock),
    )


def gpus_of(track: Track) -> int:
    """As many as it asked for; of a job with options as many as it was given."""
    placement = track.placement or track.left
    return placement.gpus if track.job.options and placement is not None else track.job.gpus


def _still_counts(track: Track) -> bool:
    """Has the present attempt begun and not been counted as failed?"""
    return track.phase is not Phase.FAILED or track.attempts == 0


def phase_of(track: Track) -> PhaseName:
    return cast(PhaseName, "failed" if track.phase is Phase.REFUSED else track.phase.value)


def reason_of(track: Track, now: float) -> str:
    """Why it is where it is, if there is more to say than its phase; `now` in seconds since 1970."""
    if track.ended_at < 0:
        if track.held:
            return held_text(track.held, track.job.id, now)
        if track.awaits:
            return f"{AFTER} {', '.join(track.awaits)}"
        if track.stranded:
            return track.stranded
        if track.benched:
            return BENCHED
        if track.stays and track.placement is not None:
            return f"cannot give way: {track.stays}"
    return track.reason


def _last_report_of(track: Track, clock: Clock) -> Report | None:
    if track.reported_at < 0:
        return None
    return Report(
        at=clock.unix(track.reported_at),
        step=track.step,
        metrics=dict(track.metrics),
        left_out=track.reports_left_out,
    )


def _preemption_of(track: Track) -> GivingWay | None:
    if track.saved_in_s < 0:
        return None
    return GivingWay(
        rung=track.rung,
        save_s=track.saved_in_s,
        restore_s=track.restored_in_s if track.restored_in_s >= 0 else None,
        parked_bytes=track.parked_bytes,
    )


def speeds_of(track: Track, clock: Clock) -> list[MeasuredSpeed]:
    return [
        MeasuredSpeed(**{**pace._asdict(), "at": clock.unix(pace.at)})
        for pace in latest_first(track.paces)
    ]


def used_told(used: UsedByJob | None) -> UsedTold | None:
    return None if used is None else UsedTold(**used._asdict())


def _at(at: float, clock: Clock) -> float | None:
    return clock.unix(at) if at >= 0 else None


def _key(track: Track) -> str:
    return f"failures of {track.job.id}"


class Ledger:
    """An index of the state: told of every end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        on_end: Callable[[Track], None],
        used_by: Callable[[JobId], UsedByJob | None],
    ) -> None:
        self.watches = WAITS | ENDS
        self._failed: Final[dict[str, list[Seconds]]] = {}
        self._nodes: Sequence[Node] = ()
        self._store: Final = store
        self._clock: Final = clock
        self._on_end: Final = on_end
        self._used_by: Final = used_by

    def build(self, view: View) -> Ledger:
        self._nodes = view.room.nodes
        return self

    def waits(self, track: Track) -> None:
        """An attempt may have failed, and the next one is to come."""
        if track.attempts:
            failed = self._failures(track)
            if len(failed) > len(self._failed.get(track.job.id, ())):
                self._failed[track.job.id] = failed
                self._store.set_meta(_key(track), json.dumps(failed))

    def _failures(self, track: Track) -> list[Seconds]:
        """After how long each attempt died, also one that we were not told of in time."""
        known = self._failed.get(track.job.id)
        if known is None:
            known = json.loads(self._store.meta(_key(track)) or "[]")
        new = track.attempts - len(known)
        if new <= 0:
            return known
        return [*known, *[0.0] * (new - 1), max(track.held_s - sum(known), 0.0)]

    def ends(self, track: Track) -> None:
        job, at = track.job, self._clock.unix(track.ended_at)
        told = row_of(track, self._clock, self._nodes)
        told.used = used_told(self._used_by(job.id)) if track.first_start_at >= 0 else None
        if track.attempts:
            told.failures = self._failures(track)
            self._failed.pop(job.id, None)
        # The entry that ends it is added to the journal right after this.
        seq = self._store.last_seq + 1
        self._store.add_ended(EndedJob(job.id, seq, at, job.user, job.name, text_of(told)))
        self._on_end(track)
