"""Why a job is where it is, until when, and what would change it. In one screen.

Everything is found on a likeness of the live state: there it can be tried out without consequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from dovetail.core.model import WHOLE_GPU, JobId, Shape, gpus_of
from dovetail.core.room import Pool, Room
from dovetail.core.state import State
from dovetail.core.track import Phase, Track
from dovetail.daemon.errors import NotFound
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.copy import Asked, Likeness
from dovetail.daemon.foresight.forecast import QueueForecast, forecast_with
from dovetail.daemon.foresight.intervals import Span
from dovetail.daemon.foresight.queue_order import PlaceInLine, standing
from dovetail.daemon.foresight.trial_turns import turn_text
from dovetail.daemon.foresight.unblocking import ChangeTrial
from dovetail.daemon.foresight.wording import folded, labelled, shortened, span_text
from dovetail.daemon.history.job_rows import phase_of
from dovetail.daemon.holds import LIMITED
from dovetail.daemon.users.limits import ALL, Allowed
from dovetail.policies.placement import consolidated
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.times import clock_near
from dovetail.workloads.study.kind import studies_of

MOST_LINES = 24
_SHOWN = 3  # jobs ahead that are named
_MOST_METRICS = 4

# Reasons, the most fundamental first.
HELD, DEPENDS, NEVER, TURN, QUOTA, CLUSTER, ROOM, HOST, BEHIND, SOON = (
    *("held", "depends", "never", "turn", "quota", "cluster", "room", "host", "behind", "soon"),
)
_RUNGS = {
    "cuda-suspend": "its GPU memory was moved to host memory (cuda-suspend)",
    "freeze": "it was frozen where it stood (freeze)",
    "cooperative": "it saved its work and stopped (cooperative)",
    "kill": "it was ended, and will begin anew (kill)",
}


def why(service: Asked, job_id: str, allowed: Allowed = ALL) -> dict[str, Any]:
    """The `text`, and its parts as fields. Ended jobs are told from their last row."""
    likeness = likenesses.take(service, JobId(job_id))
    state = likeness.state()
    track = state.tracks.get(JobId(job_id))
    if track is None:
        return _ended(_row_of_ended(service, job_id), service.clock.unix(likeness.now))
    forecast = forecast_with(service, likeness, job_id)
    asked = _Case(service, likeness, state, track, forecast, allowed)
    return asked.waits() if track.placement is None else asked.runs()


def _row_of_ended(service: Asked, job_id: str) -> dict[str, Any]:
    row = service.job(job_id)
    if row.get("ended_at") is None:
        raise NotFound(f"job {job_id} has only just been submitted; ask again")
    return row


@dataclass(frozen=True, slots=True)
class Reason:
    tier: str
    text: str


class _Case:
    """One job, and all that is known around it."""

    def __init__(
        self,
        service: Asked,
        likeness: Likeness,
        state: State,
        track: Track,
        forecast: QueueForecast,
        allowed: Allowed,
    ) -> None:
        self._allowed: Final = allowed
        self._unix: Final = service.clock.unix
        self._likeness: Final = likeness
        self._state: Final = state
        self._track: Final = track
        self._forecast: Final = forecast
        self._now: Final = self._unix(likeness.now)
        self._policy: Final = likeness.policy_on(state)

    # ------------------------------------------------------------------------------------- waiting

    def waits(self) -> dict[str, Any]:
        track, state = self._track, self._state
        line = standing(self._likeness, state, self._policy, track, self._forecast)
        trial = ChangeTrial(self._likeness, state, track, self._allowed)
        study = studies_of(state).of(track)
        about_to = study is None and not track.barred and trial.starts()
        reason = Reason(SOON, "it is about to be started") if about_to else self._reason(line)
        may_change = reason.tier in (QUOTA, CLUSTER, ROOM, HOST, BEHIND)
        changes = [change.row() for change in trial.found()] if may_change else []
        limited = track.held.startswith(LIMITED)
        if reason.tier == HELD and not limited and trial.starts(released=True):
            changes = [{"change": "if it were resumed", "field": "resume", "value": True}]
        start = self._forecast.start(track.job.id) if not track.held else None
        found = {
            **self._head(reason),
            "since": self._unix(track.waiting_since),
            "needs": str(track.shape),
            "free": free_text(state.room, track.shape),
            "in_use_by": self._holders(),
            "gave_way": self._gave_way(),
            "ahead": {
                "number": len(line.ahead),
                "first": list(line.ahead[:_SHOWN]),
                "why": line.because,
            },
            "would_start": changes,
            "start": None if start is None else start.row(),
            **self._expected_end(),
            "waits_for": self._waits_for(),
        }
        return {**found, "text": _screen(self._waiting_lines(found, line, start))}

    def _head(self, reason: Reason) -> dict[str, Any]:
        return {
            "id": self._track.job.id,
            "phase": phase_of(self._track),
            "policy": self._likeness.policy,
            "reason": reason.tier,
            "because": reason.text,
            "limited": self._forecast.limited,
        }

    def _reason(self, line: PlaceInLine) -> Reason:
        """The first that applies, the most fundamental first."""
        track, state = self._track, self._state
        room, shape = state.room, track.shape
        if track.held:
            return Reason(HELD, track.held)
        if track.awaits:
            others = ", ".join(track.awaits[:5]) + (" …" if len(track.awaits) > 5 else "")
            return Reason(DEPENDS, f"it comes after job {others}, which must finish first")
        never = state.unplaceable.get(track.job.id)
        if never:
            return Reason(NEVER, never)
        if track.stranded:
            text = f"{track.stranded}; it waits until the cluster can run it again"
            return Reason(CLUSTER, text)
        study = studies_of(state).of(track)
        if study is not None and any(trial.since >= 0 for trial in study.trials.values()):
            return Reason(TURN, turn_text(state, study, track))
        if room.tenants and not room.within_quota(shape):
            quota = room.tenants[shape.tenant].gpu_quota
            held = room.held[shape.tenant]
            return Reason(
                QUOTA, f"tenant {shape.tenant!r} holds {held:g} of the {quota:g} GPUs of its quota"
            )
        return self._reason_of_room(line)

    def _reason_of_room(self, line: PlaceInLine) -> Reason:
        room, shape = self._state.room, self._track.shape
        pools = room.eligible(shape)
        usable = max([_usable(room, pool) for pool in pools], default=0)
        if usable < shape.gpus:
            return Reason(
                CLUSTER,
                f"it needs {shape}, and {usable} can be used at all now: "
                "the others are closed or used by processes that are not ours",
            )
        place = getattr(self._policy, "place", consolidated)
        if place(room, shape) is not None:
            holds_back = getattr(self._policy, "holds_back", "")
            if not line.ahead and holds_back:
                return Reason(BEHIND, f"there is room, but {holds_back}")
            first = f"job {line.ahead[0]}" if line.ahead else "who is to run first"
            how = f"{first} goes first" + (" and does not fit" if line.blocks else "")
            return Reason(BEHIND, f"there is room for it, but {how}")
        free = max([pool.free for pool in pools], default=0)
        if free >= shape.gpus and shape.share == WHOLE_GPU:
            return Reason(HOST, "there are GPUs, but not the CPUs or memory that it needs beside")
        if shape.share != WHOLE_GPU:
            return Reason(ROOM, f"it needs {shape}, and no GPU has as much left")
        return Reason(ROOM, f"it needs {counted(shape.gpus, 'GPU')}, and {_count_free(free)}")

    def _holders(self) -> list[str]:
        """Who has GPUs that it could use, the first to end first."""
        room = self._state.room
        pools = room.eligible(self._track.shape)
        rows = []
        for job_id, other in self._state.running.items():
            assert other.placement is not None
            if room.pool_of[other.placement.slices[0].node] in pools and other.holds:
                end = self._forecast.end(job_id)
                rows.append((inf if end is None else end.expected, other.sequence, job_id))
        return [job_id for _, _, job_id in sorted(rows)]

    def _holders_text(self, ids: Sequence[str]) -> str:
        parts = []
        for job_id in ids[:_SHOWN]:
            end = self._forecast.end(job_id)
            until = f" until about {clock_near(end.expected, self._now)}" if end else ""
            parts.append(f"{self._who(job_id, '')}{until}")
        more = f", and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        return "; ".join(parts) + more

    def _gave_way(self) -> dict[str, Any] | None:
        """For a job that has run: for whom it made room, and what that took."""
        track = self._track
        if not track.resumed:
            return None
        taker = next(self._takers(), None)
        return {
            "to": None if taker is None else taker.job.id,
            "rung": track.rung,
            "save_s": track.saved_in_s if track.saved_in_s >= 0 else None,
            "parked_bytes": track.parked_bytes,
            "preemptions": track.preemptions,
            "reason": track.reason,
        }

    def _takers(self) -> Iterator[Track]:
        """Those that were given GPUs at the very moment at which it lost its own."""
        at = self._track.waiting_since
        for track in (*self._state.running.values(), *self._state.past):
            if track.started_at == at and track is not self._track:
                yield track

    def _waits_for(self) -> dict[str, Any] | None:
        """Whose end, or whose giving way, lets it start, as far as can be foreseen."""
        release = self._forecast.releases.get(self._track.job.id)
        if release is None:
            return None
        end = self._forecast.end(release.job_id) if release.ended else None
        belief = self._forecast.beliefs.get(release.job_id)
        return {
            "job": release.job_id,
            "ends": release.ended,
            "expected": end.row() if end is not None else None,
            "rests_on": belief.source if belief is not None else "",
        }

    def _expected_end(self) -> dict[str, Any]:
        end = self._forecast.end(self._track.job.id)
        belief = self._forecast.beliefs.get(self._track.job.id)
        return {
            "end": None if end is None else end.row(),
            "rests_on": belief.source if belief is not None else "",
        }

    def _waiting_lines(
        self, found: Mapping[str, Any], line: PlaceInLine, start: Span | None
    ) -> Iterator[str]:
        track, now = self._track, self._now
        yield from folded(f"{self._who(track.job.id)} waits: {found['because']}.")
        since = f"{found['phase']} since {clock_near(found['since'], now)}"
        in_line = not track.barred and found["reason"] != TURN
        place = f", place {len(line.ahead) + 1:,} in line" if in_line else ""
        yield f"{since} ({duration_text(now - found['since'])}){place}; policy {found['policy']}"
        yield ""
        if found["gave_way"]:
            yield from labelled("gave way", self._gave_way_text(found["gave_way"]))
        yield from labelled("needs", found["needs"])
        yield from labelled("free now", found["free"])
        if found["in_use_by"] and not track.barred:
            yield from labelled("in use by", self._holders_text(found["in_use_by"]))
        if line.ahead and in_line:
            named = ", ".join(self._who(job_id, "") for job_id in line.ahead[:_SHOWN])
            more = " …" if len(line.ahead) > _SHOWN else ""
            yield from labelled("ahead", f"{line.because}: {named}{more}")
        yield from self._start_lines(found, start)
        for i, change in enumerate(found["would_start"]):
            yield from labelled("" if i else "at once", change["change"])

    def _start_lines(self, found: Mapping[str, Any], start: Span | None) -> Iterator[str]:
        track, now = self._track, self._now
        label = "goes on" if track.resumed else "starts"
        if track.held:
            yield from labelled(label, _held_until(track))
            return
        if start is None:
            limited = f": {found['limited']}" if found["limited"] else ""
            yield from labelled(label, f"unknown{limited}")
            return
        text = f"expected {span_text(start, now)}"
        waits_for = found["waits_for"]
        if waits_for is not None:
            verb = "ends" if waits_for["ends"] else "gives way"
            text += f", when {self._who(waits_for['job'])} {verb}"
        yield from labelled(label, text)
        if waits_for is not None and waits_for["ends"]:
            yield from labelled("", f"that rests on {waits_for['rests_on']}")
        end = self._forecast.end(track.job.id)
        if end is not None:
            yield from labelled("ends", f"expected {span_text(end, now)}, from {found['rests_on']}")
        if found["limited"]:
            yield from labelled("note", found["limited"])

    def _gave_way_text(self, gave_way: Mapping[str, Any]) -> str:
        track = self._track
        to = f"to {self._who(gave_way['to'])}" if gave_way["to"] is not None else ""
        parts = [to] if to and track.phase is Phase.SUSPENDED else []
        if track.rung in _RUNGS:
            parts.append(f"{_RUNGS[track.rung]}, which took {duration_text(track.saved_in_s)}")
        if track.parked_bytes:
            parts.append(f"{track.parked_bytes / 1e9:.3g} GB wait in host memory")
        if track.reason:
            parts.append(track.reason)
        times = f"{track.preemptions} times so far" if track.preemptions > 1 else ""
        return "; ".join([*parts, times] if times else parts) or "to others"

    # ------------------------------------------------------------------------------------- running

    def runs(self) -> dict[str, Any]:
        track = self._track
        starting = track.phase is Phase.STARTING
        text = "its processes are being brought up" if starting else "it has its GPUs"
        gives_way = self._forecast.gives_way.get(track.job.id)
        found = {
            **self._head(Reason("starting" if starting else "running", text)),
            "since": self._unix(track.started_at),
            "first_start": self._unix(track.first_start_at),
            "where": self._where(),
            "progress": self._progress(),
            "gives_way": None
            if gives_way is None
            else {"expected": gives_way[0], "to": gives_way[1]},
            "cannot_give_way": track.pinned,
            **self._expected_end(),
        }
        return {**found, "text": _screen(self._running_lines(found))}

    def _where(self) -> str:
        track = self._track
        assert track.placement is not None
        by_node: dict[int, list[str]] = {}
        for n, gpu in gpus_of(track.placement):
            by_node.setdefault(n, []).append(str(gpu))
        places = [
            f"{'GPU' if len(gpus) == 1 else 'GPUs'} {', '.join(gpus)} of {self._node(n)}"
            for n, gpus in by_node.items()
        ] or [f"node {self._node(track.placement.slices[0].node)}"]
        share = track.placement.share
        return "; ".join(places) + (f" (a share of {share / WHOLE_GPU:g})" if share < 1000 else "")

    def _node(self, n: int) -> str:
        return self._state.room.nodes[n].id

    def _progress(self) -> str:
        track = self._track
        if track.reported_at < 0:
            return ""
        parts = [f"step {track.step:g}"] if track.step is not None else []
        for name, value in list(track.metrics.items())[:_MOST_METRICS]:
            shown = f"{value:.4g}" if isinstance(value, float | int) else shortened(str(value), 20)
            parts.append(f"{shortened(name, 20)} {shown}")
        ago = duration_text(self._now - self._unix(track.reported_at))
        return f"{', '.join(parts)} ({ago} ago)"

    def _running_lines(self, found: Mapping[str, Any]) -> Iterator[str]:
        track, now = self._track, self._now
        verb = "is being started" if track.phase is Phase.STARTING else "runs"
        yield from folded(f"{self._who(track.job.id)} {verb} on {found['where']}.")
        text = f"since {clock_near(found['since'], now)} ({duration_text(now - found['since'])})"
        if found["first_start"] < found["since"]:
            text += f", for the first time at {clock_near(found['first_start'], now)}"
        yield f"{text}; policy {found['policy']}"
        yield ""
        if found["progress"]:
            yield from labelled("progress", found["progress"])
        end = self._forecast.end(track.job.id)
        if end is None:
            yield from labelled("ends", "unknown")
        else:
            yield from labelled("ends", f"expected {span_text(end, now)}")
            yield from labelled("", f"that rests on {found['rests_on']}")
        if track.job.time_limit_s is not None:
            left = track.job.time_limit_s - track.held_by(self._likeness.now)
            yield from labelled("limit", f"it is stopped in {duration_text(left)} if it still runs")
        yield from self._giving_way_lines(found)
        if found["limited"]:
            yield from labelled("note", found["limited"])

    def _giving_way_lines(self, found: Mapping[str, Any]) -> Iterator[str]:
        track, now = self._track, self._now
        if track.held:
            yield from labelled("pause", f"{track.held}: it gives way as soon as it can")
        if found["gives_way"] is not None:
            at, to = found["gives_way"]["expected"], found["gives_way"]["to"]
            whom = f" to {self._who(to)}" if to is not None else ""
            yield from labelled("gives way", f"expected {clock_near(at, now)}{whom}")
        if track.pinned:
            yield from labelled("stays", f"it cannot be made to give way: {track.pinned}")
        if track.preemptions:
            took = (
                f", {duration_text(track.saved_in_s)} the last time"
                if track.saved_in_s >= 0
                else ""
            )
            times = counted(track.preemptions, "time")
            yield from labelled("gave way", f"{times} so far{took}")

    # --------------------------------------------------------------------------------------- names

    def _who(self, job_id: str, word: str = "job ") -> str:
        """Job 41 (train.py, ana)."""
        track = self._state.tracks.get(JobId(job_id))
        if track is None:
            track = next((t for t in self._state.past if t.job.id == job_id), None)
        if track is None:
            return f"{word}{job_id}"
        names = [shortened(track.job.name, 24), shortened(track.job.user, 16)]
        known = ", ".join(name for name in names if name)
        return f"{word}{job_id} ({known})" if known else f"{word}{job_id}"


# ------------------------------------------------------------------------------------ what is free


def free_text(room: Room, shape: Shape) -> str:
    """By kind, of what the job may use."""
    by_kind: dict[str, tuple[int, int]] = {}
    strangers = closed = 0
    for pool in room.eligible(shape):
        free, total = by_kind.get(pool.kind, (0, 0))
        there = [n for n in pool.members if n not in room.gone]
        total += sum(room.nodes[n].gpus for n in there)
        by_kind[pool.kind] = (free + pool.free, total)
        strangers += sum(room.occupied.get(n, 0).bit_count() for n in there)
        closed += sum(room.nodes[n].gpus for n in there if not room.open[n])
    parts = [
        f"{free} of {total} {'slots' if kind == 'cpu' else f'GPUs of kind {kind}'}"
        for kind, (free, total) in list(by_kind.items())[:4]
    ]
    left = max(room.shares.values(), default=0)
    if shape.share != WHOLE_GPU and left:
        parts.append(f"{left / WHOLE_GPU:g} of a shared one")
    if strangers:
        parts.append(f"{strangers} in use by processes that are not ours")
    if closed:
        parts.append(f"{closed} on closed nodes")
    return "; ".join(parts) or "no GPU that it may use"


def _usable(room: Room, pool: Pool) -> int:
    """GPUs that are ours to give, whoever has them now."""
    return sum(
        room.nodes[n].gpus - room.occupied.get(n, 0).bit_count()
        for n in pool.members
        if room.open[n]
    )


def _count_free(free: int) -> str:
    return {0: "none is free", 1: "1 is free"}.get(free, f"{free} are free")


# ------------------------------------------------------------------------------------------- ended


def _ended(row: Mapping[str, Any], now: float) -> dict[str, Any]:
    phase = str(row["phase"])
    names = ", ".join(shortened(str(row[k]), 24) for k in ("name", "user") if row.get(k))
    who = f"job {row['id']}" + (f" ({names})" if names else "")
    lines = [*folded(f"{who} has {'been ' if phase == 'cancelled' else ''}{phase}."), ""]
    if row.get("reason"):
        lines += labelled("why", str(row["reason"]))
    if row.get("exit_code") is not None:
        lines += labelled("exit code", str(row["exit_code"]))
    lines += _times_of_ended(row, now)
    found = {
        "id": row["id"],
        "phase": phase,
        "reason": "ended",
        "because": row.get("reason") or phase,
        "exit_code": row.get("exit_code"),
        "ended_at": row.get("ended_at"),
    }
    return {**found, "text": _screen(lines)}


def _times_of_ended(row: Mapping[str, Any], now: float) -> Iterator[str]:
    ended, started = row.get("ended_at"), row.get("started_at")
    if ended is None:
        return
    yield from labelled("ended", clock_near(ended, max(now, ended)))
    if started is None:
        yield from labelled("ran", "never")
        return
    text = (
        f"{duration_text(row.get('run_s') or 0.0)}, begun at {clock_near(started, max(now, ended))}"
    )
    yield from labelled("ran", text)
    if row.get("preemptions"):
        yield from labelled("gave way", counted(int(row["preemptions"]), "time"))
    if (row.get("attempts") or 0) > 1:
        yield from labelled("attempts", str(row["attempts"]))


# ------------------------------------------------------------------------------------------ screens


def _screen(lines: Iterable[str]) -> str:
    kept = list(lines)
    if len(kept) > MOST_LINES:
        kept = [*kept[: MOST_LINES - 1], "…"]
    return "\n".join(kept)


def _held_until(track: Track) -> str:
    if track.held.startswith(LIMITED):
        return "not before the limit allows; see `dovetail limit`"
    return "not before it is let go; see `dovetail resume`"
