"""Everything that can be asked of a daemon. Called from any thread; carried out on the loop's own.

A question that changes something is answered when the change is on disk.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import isinf
from typing import Any

from dovetail.api.job_row import DeadlineTold, JobDetails, JobRow, Jobs
from dovetail.api.machine_row import PolicyTold
from dovetail.api.tenant_row import LimitRow, Use
from dovetail.core.entries import (
    Amended,
    Cancelled,
    Event,
    GpusClosed,
    GpusOpened,
    Held,
    LimitSet,
    PolicySet,
    Requeued,
    TenantSet,
)
from dovetail.core.errors import BadInput
from dovetail.core.model import EVERYBODY, JobId, Limit, Seconds, Tenant
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.active_policy import said
from dovetail.daemon.closed_gpus import named_gpus, told_closed
from dovetail.daemon.dependencies import over
from dovetail.daemon.history.job_rows import row_of, used_told
from dovetail.daemon.history.submission_records import with_wishes
from dovetail.daemon.holds import HELD_BACK, LIMITED, PAUSED
from dovetail.daemon.named_jobs import meant
from dovetail.daemon.promises import promise_of
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.submitting import Submitting
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import PER_CHANGE
from dovetail.store import Filter


class Service(Submitting):
    # ------------------------------------------------------------------------------ changing jobs

    def cancel(self, ids: Sequence[str], caller: Caller) -> list[str]:
        return self._each(ids, caller, "cancel", self._cancelled)

    @staticmethod
    def _cancelled(track: Track, now: Seconds, caller: Caller) -> Event:
        return Cancelled(now, track.job.id, f"cancelled by {caller.name}")

    def cancel_all(self, caller: Caller) -> None:
        """Everybody's, as they are at that moment: one that ends meanwhile is no mistake."""

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            return [self._cancelled(track, now, caller) for track in view.tracks.values()], None

        self.change(change)

    def pause(self, ids: Sequence[str], caller: Caller) -> list[str]:
        return self._each(ids, caller, "pause", self._paused)

    @staticmethod
    def _paused(track: Track, now: Seconds, caller: Caller) -> Event | None:
        is_held = track.held in (PAUSED, HELD_BACK)
        return None if is_held else Held(now, track.job.id, PAUSED)

    def resume(self, ids: Sequence[str], caller: Caller) -> list[str]:
        """Not past a limit of its user: that lets it go by itself."""

        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            tracks = self._owned(ids, caller, view, "resume", now)
            held = [track for track in tracks if track.held and not track.held.startswith(LIMITED)]
            events = [self.admission.let_go(track, view, now) for track in held]
            return events, [track.job.id for track in tracks]

        return self.change(change)

    def set_priority(self, ids: Sequence[str], priority: float, caller: Caller) -> list[str]:
        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            tracks = self._owned(ids, caller, view, "change", now)
            for track in tracks:
                self._parts.limits.check_priority(priority, caller, view, track.job.priority)
            jobs = [replace(track.job, priority=priority) for track in tracks]
            return [Amended(now, job) for job in jobs], [job.id for job in jobs]

        return self.change(change)

    def set_notify(
        self, ids: Sequence[str], wishes: Mapping[str, Any], caller: Caller
    ) -> list[str]:
        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            tracks = self._owned(ids, caller, view, "change", now)
            for track in tracks:
                if track.job.member is not None:
                    raise Conflict(
                        f"job {track.job.id} is a trial; its study tells, if its file says `notify`"
                    )
            texts = {}
            for track in tracks:
                text = texts[track.job.id] = self._with_wishes(track.job.id, wishes)
                self.intake.charge(caller.name, len(text), view, now)
            for job_id, text in texts.items():
                self._parts.store.put_spec(job_id, text)
            return [], [track.job.id for track in tracks]

        return self.change(change)

    def _with_wishes(self, job_id: str, wishes: Mapping[str, Any]) -> str:
        """What is kept beside the journal, where messages look when something happens."""
        own = self._parts.reader.spec(job_id)
        if own is None:
            raise NotFound(f"nothing is kept of how job {job_id} was submitted")
        return with_wishes(own, wishes)

    def requeue(self, ids: Sequence[str], caller: Caller) -> list[str]:
        """Running and suspended jobs start over from the queue; of those that a name or pattern stands
        for, the ones that run."""

        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            tracks = self._owned(ids, caller, view, "requeue", now)
            for track in [t for t in tracks if t.placement is None and not t.process]:
                tracks.remove(track)
                if track.job.id in ids or not tracks:
                    raise Conflict(
                        f"job {track.job.id} waits already; there is nothing to start over"
                    )
            why = f"requeued by {caller.name}"
            asked = [track for track in tracks if not track.requeued]
            return (
                [Requeued(now, track.job.id, why) for track in asked],
                [track.job.id for track in tracks],
            )

        return self.change(change)

    def _each(
        self,
        ids: Sequence[str],
        caller: Caller,
        verb: str,
        event_for: Callable[[Track, Seconds, Caller], Event | None],
    ) -> list[str]:
        """One transaction: all jobs are changed, or none."""

        def change(view: View, now: Seconds) -> tuple[list[Event], list[str]]:
            tracks = self._owned(ids, caller, view, verb, now)
            events = [event_for(track, now, caller) for track in tracks]
            return [e for e in events if e is not None], [track.job.id for track in tracks]

        return self.change(change)

    def _owned(
        self, ids: Sequence[str], caller: Caller, view: View, verb: str, now: Seconds
    ) -> list[Track]:
        """The jobs that are meant; none of them is touched unless the caller may change all."""
        tracks = [self._live(view, job_id) for job_id in meant(ids, caller, view)]
        for track in tracks:
            caller.check_owns(track.job.user, track.job.id, verb)
        self.intake.charge(caller.name, len(tracks) * PER_CHANGE, view, now)
        return tracks

    def _live(self, view: View, job_id: str) -> Track:
        track = view.tracks.get(JobId(job_id))
        if track is None:
            row = self._ended_row(job_id)
            if row is None:
                raise NotFound(f"there is no job {job_id}")
            raise Conflict(f"job {job_id} {over(row.phase)} already")
        return track

    def mine(self, caller: Caller) -> list[str]:
        """The caller's jobs that have not ended."""

        def look(view: View, now: Seconds) -> list[str]:
            return [t.job.id for t in view.tracks.values() if t.job.user == caller.name]

        return self.look(look)

    # ------------------------------------------------------------------------- policy and tenants

    def set_policy(self, text: str, caller: Caller) -> str:
        if not caller.admin:
            raise NotAllowed("only an administrator may change the policy")

        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            self._parts.chosen.set(text, view)
            view.forget_indexes(but=self._parts.lasting)
            return [PolicySet(now, text)], text

        return self.change(change)

    def policy(self) -> PolicyTold:
        return PolicyTold(policy=self.chosen.text, trouble=self.chosen.trouble)

    def set_limit(self, user: str, values: Mapping[str, float | None], caller: Caller) -> None:
        """Limits that are not among the values stay as they are."""
        if not caller.admin:
            raise NotAllowed(f"only an administrator may set limits; {self._parts.limits.ask}")
        if not self._parts.limits.shared:
            raise BadInput("limits are for a box that several people share: dovetail up --system")

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            before = view.limits.get(user, Limit(user))
            changed: dict[str, Any] = {**asdict(before), **values}
            return [LimitSet(now, Limit(**changed))], None

        self.change(change)
        self.admission.look_soon()

    def limits(self, caller: Caller) -> list[LimitRow]:
        """Limits and their use: everybody's and the caller's; for administrators all users'."""

        def look(view: View, now: Seconds) -> list[LimitRow]:
            known = {EVERYBODY, caller.name}
            if caller.admin:
                known |= {*view.limits, *(track.job.user for track in view.tracks.values())}
            return [self._limit_row(user, view, now) for user in sorted(known)]

        return self.look(look)

    def _limit_row(self, user: str, view: View, now: Seconds) -> LimitRow:
        bounds = asdict(self._parts.limits.of(user, view))
        limits = {name: None if isinf(value) else value for name, value in bounds.items()}
        used = None if user == EVERYBODY else self._use(user, view, now)
        if used is not None and limits["gpu_hours"] is not None:
            used.gpu_hours = self.admission.hours(user, view, now)
        return LimitRow(user=user, **limits, used=used)

    def _use(self, user: str, view: View, now: Seconds) -> Use:
        tracks = [track for track in view.tracks.values() if track.job.user == user]
        at_work = [track for track in tracks if track.placement is not None]
        return Use(
            queued=len(tracks),
            running=len(at_work),
            gpus=sum(track.holds for track in at_work),
            gpu_hours=None,
            megabytes=self.intake.used(user, view, now) / 1e6,
        )

    def set_tenant(self, tenant: Tenant, caller: Caller) -> None:
        if not caller.admin:
            raise NotAllowed(f"only an administrator may set tenants; {self._parts.limits.ask}")
        self.change(lambda view, now: ([TenantSet(now, tenant)], None))

    # ------------------------------------------------------------------------------- closed GPUs

    def close_gpus(self, names: Sequence[str], caller: Caller, why: str, vacate: bool) -> None:
        """Nothing starts there any more; to `vacate` them, who is there gives way."""
        if not caller.admin:
            raise NotAllowed(f"only an administrator may close GPUs; {self._parts.limits.ask}")
        reason = f"by {caller.name}" + (f": {why}" if why else "")

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            gpus = named_gpus(view.room, names).items()
            return [GpusClosed(now, node, mask, reason, vacate) for node, mask in gpus], None

        self.change(change)

    def open_gpus(self, names: Sequence[str], caller: Caller) -> None:
        if not caller.admin:
            raise NotAllowed(f"only an administrator may open GPUs; {self._parts.limits.ask}")

        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            room = view.room
            there = {room.nodes[n].id: m for n, m in room.closed.items() if n not in room.gone}
            gpus = named_gpus(room, names) if names else there
            return [GpusOpened(now, node, mask) for node, mask in gpus.items()], None

        self.change(change)

    # --------------------------------------------------------------------------------- looking at it

    def jobs(self, user: str | None = None, limit: int = 200, name: str | None = None) -> Jobs:
        """First those that run, then those that may start, in the policy's order, then the others."""
        place = self._places()
        """Jobs that have not ended: those that run first, then the queue in order of submission.
        `name` may be a pattern."""
        named = re.compile(fnmatch.translate(name)) if name is not None else None

        def look(view: View, now: Seconds) -> Jobs:
            waiting = [t for t in view.tracks.values() if t.placement is None]
            waiting.sort(key=lambda t: (t.barred, place.get(t.job.id, len(place))))
            tracks = [*view.running.values(), *waiting]
            chosen = [
                track
                for track in tracks
                if (user is None or track.job.user == user)
                and (named is None or named.match(track.job.name))
            ]
            return Jobs(
                jobs=[row_of(track, self.clock, view.room.nodes) for track in chosen[:limit]],
                total=len(chosen),
                running=len(view.running),
                waiting=len(view.tracks) - len(view.running),
                notices=len(self._parts.notices.all),
                policy=self.chosen.text,
                trouble=self.chosen.trouble,
                closed=told_closed(view.room),
            )

        return self.look(look)

    def _places(self) -> dict[JobId, int]:
        """In the policy's line, if it tells one. Put in order here: the loop does not wait."""
        lineup = self.look(lambda view, now: said(self.chosen.policy, "lineup", view))
        order = () if lineup is None else lineup.order()
        return {track.job.id: place for place, track in enumerate(order)}

    def job(self, job_id: str) -> JobDetails:
        def look(view: View, now: Seconds) -> tuple[JobRow | None, DeadlineTold | None]:
            track = view.tracks.get(JobId(job_id))
            if track is None:
                return None, None
            promise = promise_of(self.chosen.policy, view, track, self.clock.unix)
            return row_of(track, self.clock, view.room.nodes), promise

        live, promise = self.look(look)
        row = live or self._ended_row(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        record = self.record(job_id)
        row.used = used_told(self._parts.world.used_by(JobId(job_id))) or row.used
        found = JobDetails(**vars(row), spec=None, workdir=None, log=None, promise=promise)
        if record is None:
            return found
        has_terminal = record.terminal is not None
        found = replace(found, workdir=record.workdir, terminal=has_terminal)
        return replace(found, spec=record.spec, commit=record.commit)

    def owner_of(self, job_id: str) -> str | None:
        """The name of its user; None: there never was such a job, or nobody knows any more."""

        def look(view: View, now: Seconds) -> str | None:
            track = view.tracks.get(JobId(job_id))
            return None if track is None else track.job.user

        found = self.look(look)
        if found is None and (row := self._ended_row(job_id)) is not None:
            found = row.user
        return found

    def history(self, only: Filter, limit: int) -> list[JobRow]:
        return [self.row_of_ended(own) for own in self._parts.reader.history(only, limit)]
