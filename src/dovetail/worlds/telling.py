"""From what was seen of processes to events for the journal."""

from __future__ import annotations

import logging
from typing import Final

from dovetail.core.entries import (
    Displaced,
    Event,
    Failed,
    Finished,
    Interrupted,
    Paced,
    Reported,
    Restored,
    Saved,
    Started,
    Stayed,
    Woke,
)
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.track import Phase, Track
from dovetail.models.power import PowerTable
from dovetail.models.speed import by_kind_and_placement
from dovetail.predict.measured import AsReported
from dovetail.predict.speed import SameEverywhere
from dovetail.worlds.agent import COOPERATE, KILL, Done, JobTold, ProcessEnded, WorkOutcome
from dovetail.worlds.endings import KILLED, REQUEUE_CODES, Ending, exit_code, told
from dovetail.worlds.lives import Life, News, Place, Want, overlap
from dovetail.worlds.pacing import is_news
from dovetail.worlds.stage import ProcessStage, Relimited

_SHORT_RUN_S = 1.0
_MOST_SHORT_RUNS = 20  # in a row that end by asking to be started again: it would never end
_MOST_VANISHED_RUNS = 3  # of a trial that begins anew when its processes were killed from outside

log = logging.getLogger("dovetail.local")


class Teller:
    """Knows what each fact means for the job it is about, and lets the stage go on from there. `now`
    is when it came about: for what has ended while nobody looked, some time ago."""

    def __init__(self, stage: ProcessStage, power: PowerTable) -> None:
        self._stage: Final = stage
        self._speed: Final = by_kind_and_placement({}, power=power)
        self._believed: Final = AsReported(stage.view, SameEverywhere())
        self._short_runs: dict[JobId, int] = {}
        self._vanished_runs: dict[JobId, int] = {}

    def told(self, told: JobTold, now: Seconds) -> list[Event]:
        if told.job_id not in self._stage.view.tracks:
            return []
        events: list[Event] = [
            Reported(
                *(now, told.job_id, report.step, report.metrics, report.upto),
                left_out=report.left_out or None,
            )
            for report in told.reports
        ]
        steps = [report.step for report in told.reports if report.step is not None]
        if not steps:
            return events
        events += self._restored(told.job_id, now)
        return events + self._measured(told.job_id, steps[-1], now)

    def _restored(self, job_id: JobId, now: Seconds) -> list[Event]:
        """The first step of a job that was started again: all before it was coming back."""
        life, track = self._stage.lives.get(job_id), self._stage.view.running.get(job_id)
        if life is None or track is None or not life.first_step_is_news(track.rung == COOPERATE):
            return []
        placement = track.placement
        assert placement is not None
        here = [pace for pace in track.paces if pace.gpus == placement.gpus]
        step_s = 1.0 / here[-1].steps_per_s if here else 0.0
        return [Restored(now, job_id, COOPERATE, max(now - life.began_at - step_s, 0.0))]

    def _measured(self, job_id: JobId, step: float, now: Seconds) -> list[Event]:
        """How fast it is beside its neighbours, when that can be said; and how fast they are taken to
        be that never were alone."""
        life = self._stage.lives.get(job_id)
        if life is None or life.run is None or life.place is not Place.AT_WORK or life.moves:
            return []
        beside = self._stage.neighbours(life)
        paces = self._stage.paces
        part = paces.reported(job_id, life.run.id, beside, now, step)
        if part is not None and self._stage.holds_back:
            self._stage.step_all()  # who is to join it need not wait any longer
        if not beside:
            track = self._stage.view.running.get(job_id)
            return [] if track is None or not track.job.elastic else self._pace(track, now)
        if part is None:
            return []
        like_it = [other for other in beside if paces.alone(other) is None]
        events = [self._slowed(other, part, now) for other in (job_id, *sorted(like_it))]
        return [event for event in events if event is not None]

    def _slowed(self, job_id: JobId, part: float, now: Seconds) -> Event | None:
        """A job that was put beside another makes this part of its usual progress."""
        track = self._stage.view.running.get(job_id)
        if track is None or track.placement is None or track.phase is not Phase.RUNNING:
            return None
        if track.placement.share >= track.job.share:
            return None
        speed = part * self._speed(track.job, track.placement, self._stage.view.room.nodes)
        return Paced(now, job_id, speed) if is_news(speed, track.speed) else None

    def begun_unseen(self, ended: ProcessEnded, now: Seconds) -> list[Event]:
        """The daemon was killed after it had launched the job and before it could say so."""
        life = self._stage.lives.get(ended.job_id)
        if life is None or not ended.run.begun():
            return []
        return self._started(life, self._stage.view.tracks.get(ended.job_id), now)

    def ended(self, ended: ProcessEnded, now: Seconds) -> list[Event]:
        life = self._stage.lives.get(ended.job_id)
        if life is None or life.run is None or life.run.id != ended.run.id:
            return []
        if life.place is Place.ABSENT and not (life.ended or life.busy):
            return []  # that was told already: it gave way by ending
        life.end_unseen()
        return [] if life.busy else self._look_at_end(life, now)

    def done(self, done: Done, now: Seconds) -> list[Event]:
        life = self._stage.lives[done.job_id]
        outcome = done.outcome
        if (
            outcome is WorkOutcome.NOT_STARTED
            and life.run is not None
            and life.run.ending() is not None
        ):
            outcome = WorkOutcome.OVER  # it was, and has ended already
        was_booked = life.booked is not None and not life.moves
        news = life.came(outcome)
        if news is News.STAYED:
            events = self._stays(life, done.trouble, was_booked, now)
        else:
            events = self._told_of(life, news, done, now)
        if life.ended and news is not News.OVER:
            events += self._look_at_end(life, now)
        self._stage.step_all()
        return events

    def _told_of(self, life: Life, news: News | None, done: Done, now: Seconds) -> list[Event]:
        track = self._stage.view.tracks.get(life.job_id)
        if done.outcome is WorkOutcome.ENDED and done.trouble:
            log.error("job %s could not be ended: %s", life.job_id, done.trouble)
        if news is News.STARTED:
            return self._brought_up(life, track, done, now)
        if news is News.FAILED:
            return self._could_not_start(life, track, done.trouble, now)
        if news is News.OVER:
            return self._look_at_end(life, now)
        if news is None or track is None:
            return []
        if news is News.DISPLACED:
            return [Displaced(now, life.job_id, done.trouble)]
        if news is News.SAVED:
            return [_saved(track, done, now)]
        reason = life.requeued()
        lost = track.executed_by(now)
        return [Interrupted(now, life.job_id, reason, lost)] if reason else []

    def _brought_up(self, life: Life, track: Track | None, done: Done, now: Seconds) -> list[Event]:
        if life.watched is not life.run:  # new, or begun by the keeper of a daemon since killed
            self._stage.watch(life)
        if track is None or track.phase is not Phase.STARTING:
            return []
        events = self._started(life, track, now)
        if done.used is not None and track.rung:
            events.append(Restored(now, life.job_id, done.used.rung, done.used.seconds))
        return events + self._pace(track, now)

    def _started(self, life: Life, track: Track | None, now: Seconds) -> list[Event]:
        """Once for each start: what was told a moment ago may not be recorded yet, such as that its
        GPUs are another's."""
        if life.want is Want.AWAY or life.moves or life.leaves_first:
            return []
        if track is None or track.phase is not Phase.STARTING or not life.start_is_news():
            return []
        return [Started(now, life.job_id)]

    def relimited(self, relimited: Relimited, now: Seconds) -> list[Event]:
        """A refused power limit needs a new decision."""
        if relimited.job_id is None:
            return [Woke(now)]
        track = self._stage.view.running.get(relimited.job_id)
        return [] if track is None else self._pace(track, now)

    def _pace(self, track: Track, now: Seconds) -> list[Event]:
        """Its speed by its options, reduced by a power limit; by what it reports, if its number of GPUs
        changes."""
        placement = track.placement
        if placement is None or not placement.slices:
            return []
        speed = self._speed(track.job, placement, self._stage.view.room.nodes)
        if track.job.elastic and not track.job.options:
            kind = self._stage.view.room.nodes[placement.slices[0].node].kind
            speed = self._believed.speed(track.job, kind, placement.gpus, len(placement.slices))
            return [Paced(now, track.job.id, speed)] if is_news(speed, track.speed) else []
        return [] if speed == track.speed else [Paced(now, track.job.id, speed)]

    def _could_not_start(
        self, life: Life, track: Track | None, trouble: str, now: Seconds
    ) -> list[Event]:
        """The system refused (say, a full disk): the job lines up again, or it is told why not."""
        log.error("job %s could not be started: %s", life.job_id, trouble)
        if life.run is not None and life.run.is_alive():  # it was parked and cannot go on
            self._stage.agent.kill(life.run.id)
        if track is None:
            return []
        reason = f"it could not be started: {trouble}"
        return [Failed(now, life.job_id, reason, track.executed_by(now))]

    def _stays(self, life: Life, trouble: str, was_booked: bool, now: Seconds) -> list[Event]:
        """It could not be moved: whoever was given its GPUs lines up again, and so does it itself if
        it was to go on elsewhere by now."""
        log.warning("job %s could not give way: %s", life.job_id, trouble)
        assert life.stands is not None
        others = [
            other
            for other in self._stage.lives.values()
            if other is not life and other.booked is not None
            if overlap(other.booked, life.stands)
        ]
        for other in others:
            other.lose_booking()
        moved = [other.job_id for other in others] + [life.job_id] * was_booked
        reason = f"job {life.job_id} could not give way"
        events: list[Event] = [Displaced(now, job_id, reason) for job_id in moved]
        life.pin = trouble
        return [*events, Stayed(now, life.job_id, life.stands, trouble)]

    def _look_at_end(self, life: Life, now: Seconds) -> list[Event]:
        """The main process ended by itself: what does that mean? Who was adopted may have begun and
        ended before anybody could say that it had begun."""
        assert life.run is not None
        ending, track = life.run.ending(), self._stage.view.tracks.get(life.job_id)
        asked_to_stop = life.run.stop_asked
        life.came(WorkOutcome.OVER)
        events = self._started(life, track, now) if ending is not None else []
        if track is not None:
            events.append(self._outcome(life, track, ending, asked_to_stop, now))
        self._stage.step_all()
        return events

    def _outcome(
        self,
        life: Life,
        track: Track,
        ending: Ending | None,
        asked_to_stop: bool,
        now: Seconds,
    ) -> Event:
        job_id = life.job_id
        if reason := life.requeued():
            return Interrupted(now, job_id, reason, track.executed_by(now))
        if ending is None or ending.from_outside:
            assert life.run is not None
            self._stage.agent.clean_up_after(life.run.id)
            return self._vanished(track, now, "" if ending is None else ending.failure)
        if asked_to_stop:
            return Interrupted(now, job_id, "it saved itself and ended when asked to", 0.0)
        if ending.code in REQUEUE_CODES:
            if self._may_come_again(life, now):
                reason = f"it asked to be started again (exit code {ending.code})"
                return Interrupted(now, job_id, reason, 0.0)
        elif ending.code == 0:
            self._short_runs.pop(job_id, None)
            return Finished(now, job_id)
        lost = 0.0 if self._stage.order_for(job_id).saves_itself else track.executed_by(now)
        reason = told(ending)
        if ending.code in REQUEUE_CODES:
            reason = (
                f"it did nothing but ask to be started again, {_MOST_SHORT_RUNS} times in a row"
            )
        return Failed(now, job_id, reason, lost, exit_code(ending))

    def _may_come_again(self, life: Life, now: Seconds) -> bool:
        """A job that does nothing but ask to be started again would never end."""
        short = now - life.began_at < _SHORT_RUN_S
        runs = self._short_runs.get(life.job_id, 0) + 1 if short else 0
        self._short_runs[life.job_id] = runs
        return runs <= _MOST_SHORT_RUNS

    def _vanished(self, track: Track, now: Seconds, why: str) -> Event:
        reason = why or "its processes were killed from outside, or the machine was restarted"
        lost = track.executed_by(now)
        if track.job.restartable or self._is_tried_again(track.job):
            return Interrupted(now, track.job.id, reason, lost)
        return Failed(now, track.job.id, reason, lost, KILLED)

    def _is_tried_again(self, job: Job) -> bool:
        """A trial of a study may always begin anew; if it is killed again and again, it gives up."""
        times = self._vanished_runs[job.id] = self._vanished_runs.get(job.id, 0) + 1
        return job.member is not None and times <= _MOST_VANISHED_RUNS


def _saved(track: Track, done: Done, now: Seconds) -> Saved:
    used = done.used
    assert used is not None
    lost = track.executed_s if used.rung == KILL else 0.0
    tied = used.tied or None
    return Saved(now, track.job.id, used.rung, used.seconds, used.bytes, used.parked, lost, tied)
