"""The truth about the jobs of a simulation: where each runs, how fast, and when that will end."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, TypeAlias, final

from dovetail.core.entries import Event, Paced, Reported, Started
from dovetail.core.errors import UnfinishedRun
from dovetail.core.model import WHOLE_GPU, Job, Node, Placement, Seconds, gpus_of
from dovetail.models.course import Course, Milestone
from dovetail.models.workload import Arrival, Going

Speed: TypeAlias = Callable[[Job, Placement, Sequence[Node]], float]
Interference: TypeAlias = Callable[[Job, Job, str], float]

heappush: Final = heapq.heappush  # final, so that compiled code need not look it up

FINISH: Final = 0
FAIL: Final = 1
STARTED: Final = 2
CANCEL: Final = 3
NODE: Final = 4
GIVE_UP: Final = 5  # a cancellation that depends on how far the job is
TELL: Final = 6  # a milestone on a job's course

GONE: Final = -1  # the stint of a job that has ended
_IDLE_TURNS: Final = 100_000  # preemptions before any work was done: then nothing will come of it


@final
class SimulatedJob:
    """The truth about one job that has not ended."""

    __slots__ = (
        *(
            "arrival",
            "attempt",
            "attempt_s",
            "course",
            "done_s",
            "job",
            "next",
            "placement",
            "rate",
        ),
        *("remaining_s", "saved_s", "special", "starting", "stint", "working_since"),
    )

    def __init__(self, arrival: Arrival) -> None:
        self.arrival: Final = arrival
        self.job: Final = arrival.job
        self.remaining_s = arrival.work_s  # work left as of the start of the current stint
        self.done_s = 0.0  # work done and not lost
        self.saved_s = 0.0  # of this: safe, because it was saved at the last preemption
        self.attempt = 0
        self.attempt_s = 0.0  # work done in this attempt
        self.stint = 0  # changes with every start and stop, and with the end: older rows are stale
        self.placement: Placement | None = None
        self.working_since = 0.0
        self.rate = 1.0
        self.starting = False  # is it to be told yet that it is at work?
        maker = arrival.course
        self.course: Course | None = None if maker is None else maker()
        self.next: Milestone | None = None  # on that course
        # Is there more to come of a stint than its end, by the rate it began with?
        self.special: Final = not (
            maker is None and arrival.cancel_after_s is None and not arrival.failures
        )

    @property
    def gone(self) -> bool:
        return self.stint == GONE


# time, order of making, what, whose (or None for a node), the stint or the number of the node event
Row: TypeAlias = tuple[Seconds, int, int, SimulatedJob | None, int]


def is_stale(row: Row) -> bool:
    """Has the job ended, or gone on in another way, since this was noted?"""
    life = row[3]
    return life is not None and life.stint != row[4] and (row[2] != CANCEL or life.gone)


class Stints:
    """Every job that has not ended, and what is to come of it, in order of time."""

    def __init__(
        self, speed: Speed | None, interference: Interference | None, now: Seconds
    ) -> None:
        self._nodes: Final[list[Node]] = []
        self._speed: Final = speed
        self._interference: Final = interference
        self._lives: Final[dict[str, SimulatedJob]] = {}
        self._rows: Final[list[Row]] = []
        self._made = 0
        self._now: Seconds = now
        self._idle_turns = 0
        # By (node, GPU): still saving until then; and the jobs on one that is shared.
        self._busy: Final[dict[tuple[int, int], Seconds]] = {}
        self._sharers: Final[dict[tuple[int, int], list[SimulatedJob]]] = {}
        # What happened at once when we acted; told with what comes next.
        self._reports: Final[list[Event]] = []

    def take_up(self, going: Going) -> None:
        """A job whose life began before this world did."""
        life = self._lives[going.job.id] = SimulatedJob(Arrival(self._now, going.job, going.left_s))
        life.stint = int(going.has_run)
        placement = going.placement
        if placement is None:
            return
        life.placement = placement
        life.rate = going.speed
        life.working_since = self._now if going.works_from is None else going.works_from
        if placement.share != WHOLE_GPU:
            self._share(life, placement)
        if going.works_from is not None:
            self._push_start(life)
        self._push_end(life)

    def _report_start(self, events: list[Event], life: SimulatedJob) -> None:
        life.starting = False
        events.append(Started(self._now, life.job.id))
        if life.rate != 1.0 and life.rate > 0:
            events.append(Paced(self._now, life.job.id, life.rate))

    def _is_not_overtaken(self, event: Event) -> bool:
        """A neighbour's change of speed is no news if that one was moved or stopped just after."""
        if not isinstance(event, Paced):
            return True
        life = self._lives.get(event.job_id)
        return life is not None and life.placement is not None and life.rate == event.speed

    def _rate(self, life: SimulatedJob) -> float:
        """How fast the job runs where it is: its placement, and the worst of its neighbours; or as its
        course says, which begins anew there."""
        placement, course = life.placement, life.course
        assert placement is not None
        if course is not None:
            if placement.share < life.job.share:
                beside = [other.course for other in self._beside(life, placement)]
                course.meet(beside, self._shared_rate(life, placement))
            life.next = course.begin(life.working_since, placement, self._nodes)
            return course.speed
        rate = 1.0 if self._speed is None else self._speed(life.job, placement, self._nodes)
        if placement.share < life.job.share:
            rate *= self._shared_rate(life, placement)
        return rate

    def _shared_rate(self, life: SimulatedJob, placement: Placement) -> float:
        """A job on less of a GPU than it asked for: its part, or what is known of the pair."""
        part = placement.share / life.job.share
        if self._interference is None:
            return part
        kind = self._nodes[placement.slices[0].node].kind
        others = [
            self._interference(life.job, other.job, kind) for other in self._beside(life, placement)
        ]
        return min(others, default=1.0)

    def _beside(self, life: SimulatedJob, placement: Placement) -> list[SimulatedJob]:
        """The others on its GPUs, each once for every GPU."""
        sharers = self._sharers
        return [own for gpu in gpus_of(placement) for own in sharers[gpu] if own is not life]

    def _push_start(self, life: SimulatedJob) -> None:
        """Note when it will be at work."""
        life.starting = True
        self._push(life.working_since, STARTED, life, life.stint)

    def _push_end(self, life: SimulatedJob) -> None:
        """Note when the current stint would end by itself."""
        if life.course is not None:
            self._push_next(life)
            return
        left, what = life.remaining_s, FINISH
        failures, cancel_after_s = life.arrival.failures, life.arrival.cancel_after_s
        if life.attempt < len(failures):
            fails_after = max(failures[life.attempt] - life.attempt_s, 0.0)
            if fails_after < left:
                left, what = fails_after, FAIL
        if cancel_after_s is not None:
            done_s = life.arrival.work_s - life.remaining_s
            given_up_after = max(cancel_after_s - done_s, 0.0)
            if given_up_after < left:
                left, what = given_up_after, GIVE_UP
        self._push(life.working_since + left / life.rate, what, life, life.stint)

    def _push_next(self, life: SimulatedJob) -> None:
        """What is next on its course."""
        milestone = life.next
        if milestone is not None and milestone.at < inf:
            self._push(milestone.at, FINISH if milestone.ends else TELL, life, life.stint)

    def _reach(self, events: list[Event], life: SimulatedJob) -> None:
        """A milestone: the job tells of itself, and may go faster or slower from here on."""
        course, job_id = life.course, life.job.id
        assert course is not None
        told, life.next = course.reach(self._now)
        events.append(Reported(self._now, job_id, told.step, told.metrics))
        if course.speed != life.rate:
            life.rate = course.speed
            if life.rate > 0:
                events.append(Paced(self._now, job_id, life.rate))
        self._push_next(life)

    def _push(self, at: Seconds, what: int, life: SimulatedJob | None, number: int) -> None:
        self._made += 1
        heappush(self._rows, (at, self._made, what, life, number))

    def _bank(self, life: SimulatedJob) -> None:
        """Count the work done up to now; what was planned beyond is stale."""
        course = life.course
        if course is None:
            worked = (self._now - life.working_since) * life.rate
        else:
            worked = course.halt(self._now)
        if worked > 0:
            life.remaining_s = max(life.remaining_s - worked, 0.0)
            life.done_s += worked
            life.attempt_s += worked
            self._idle_turns = 0
        life.stint += 1

    def _preempt(self, life: SimulatedJob) -> None:
        placement = life.placement
        assert placement is not None
        self._save(life)
        if self._sharers:
            self._unshare(self._reports, life)
        life.placement = None
        life.starting = False
        self._keep_busy(placement, life.job.interruption.save_s)

    def _save(self, life: SimulatedJob) -> None:
        """It is to give way: what it has done is safe."""
        self._idle_turns += 1
        self._bank(life)
        life.saved_s = life.done_s
        if self._idle_turns > _IDLE_TURNS:
            raise UnfinishedRun(
                f"no job makes progress at t={self._now:g}: each is preempted before it is restored; "
                "give the policy longer turns, or the jobs a smaller cost of interruption"
            )

    def _keep_busy(self, placement: Placement, save_s: Seconds) -> None:
        """These GPUs are in use until the job is saved."""
        if save_s > 0:
            for gpu in gpus_of(placement):
                self._busy[gpu] = max(self._busy.get(gpu, 0.0), self._now + save_s)

    def _kill(self, events: list[Event], life: SimulatedJob) -> Seconds:
        """The job loses its GPUs without warning; the work that is lost with it."""
        self._bank(life)
        if self._sharers:
            self._unshare(events, life)
        life.placement = None
        life.starting = False
        lost = min(life.job.interruption.lost_s, life.done_s - life.saved_s)
        life.done_s -= lost
        life.remaining_s += lost
        if life.course is not None and lost > 0:
            life.course.lose(lost)
        return lost

    def _resize(self, life: SimulatedJob, placement: Placement) -> None:
        self._bank(life)
        if self._sharers:
            self._unshare(self._reports, life)
        life.placement = placement
        if placement.share != WHOLE_GPU:
            self._share(life, placement)
        self._go_on(self._reports, life)

    def _move(self, life: SimulatedJob, placement: Placement, prompt: bool) -> None:
        """Other GPUs: it is saved where it is and restored there."""
        before, now = life.placement, self._now
        assert before is not None
        save_s = 0.0 if life.starting else life.job.interruption.save_s
        self._save(life)
        if self._sharers:
            self._unshare(self._reports, life)
        self._keep_busy(before, save_s)
        at = max(now + save_s, self._physically_free(placement)) if self._busy else now
        life.placement = placement
        if placement.share != WHOLE_GPU:
            self._share(life, placement)
        self._set_to_work(life, at + life.job.interruption.restore_s, prompt)

    def _set_to_work(self, life: SimulatedJob, at: Seconds, prompt: bool) -> None:
        """It has GPUs, and is at work on them then; `prompt`: that need not be told if it is now."""
        life.working_since = at
        life.rate = self._rate(life)
        life.starting = False
        if at > self._now:
            self._push_start(life)
        elif not prompt:
            self._report_start(self._reports, life)
        elif life.rate != 1.0 and life.rate > 0:
            self._reports.append(Paced(self._now, life.job.id, life.rate))
        self._push_end(life)

    def _go_on(self, events: list[Event], life: SimulatedJob) -> None:
        """The job keeps running under changed conditions; its work so far is banked."""
        life.working_since = max(self._now, life.working_since)
        rate = self._rate(life)
        if rate != life.rate:
            life.rate = rate
            if rate > 0:
                events.append(Paced(self._now, life.job.id, rate))
        if life.starting:  # it may be due at this very instant
            self._push_start(life)
        self._push_end(life)

    # -------------------------------------------------------------------------------------- sharing

    def _share(self, life: SimulatedJob, placement: Placement) -> None:
        for gpu in gpus_of(placement):
            self._sharers.setdefault(gpu, []).append(life)
        if self._interference is not None or life.course is not None:
            self._slow_neighbours(self._reports, life, placement)

    def _unshare(self, events: list[Event], life: SimulatedJob) -> None:
        placement = life.placement
        assert placement is not None
        if placement.share == WHOLE_GPU:
            return
        for gpu in gpus_of(placement):
            self._sharers[gpu].remove(life)
            if not self._sharers[gpu]:
                del self._sharers[gpu]
        if self._interference is not None:
            self._slow_neighbours(events, life, placement, left=True)

    def _slow_neighbours(
        self, events: list[Event], life: SimulatedJob, placement: Placement, left: bool = False
    ) -> None:
        """Someone came or went: the others on these GPUs run at another speed from now on."""
        seen: list[SimulatedJob] = []
        for gpu in gpus_of(placement):
            for other in self._sharers.get(gpu, ()):
                if left and other.course is not None and not other.course.heeds_leaving:
                    continue
                if other is not life and other not in seen:
                    seen.append(other)
                    self._bank(other)
                    self._go_on(events, other)

    def _physically_free(self, placement: Placement) -> Seconds:
        """When the last of these GPUs has been saved by the job that had it before."""
        at = self._now
        for gpu in gpus_of(placement):
            until = self._busy.get(gpu, 0.0)
            if until > self._now:  # it stays noted: whoever comes next may have to wait for it too
                at = max(at, until)
            elif until:
                del self._busy[gpu]
        return at
