"""What is wanted of a job's processes and what became of them: one table.

Signals come in: entries of the journal say what is wanted, and threads say what came of their work.
Instructions go out: work to be done (see `stage`) and news to be told (see `telling`). Nothing else
changes a `Life`; after each signal it is checked. Only the world's own thread looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from dovetail.core.model import JobId, Placement, Seconds
from dovetail.worlds.agent import Run, Work, WorkOutcome


class Want(Enum):
    RUN = "run"
    AWAY = "away"  # off the GPUs, nothing lost
    END = "end"


class Place(Enum):
    """The place of a job's processes."""

    ABSENT = "absent"
    AT_WORK = "at work"
    PARKED = "parked"


class News(Enum):
    """The news for the journal."""

    STARTED = "started"
    DISPLACED = "displaced"  # it lines up again, and was not charged
    FAILED = "failed"
    SAVED = "saved"
    STAYED = "stayed"
    REQUEUED = "requeued"  # its processes are gone, as was asked: it lines up again
    OVER = "over"  # how, is to be found out


# What is to be done, by what is wanted and where the processes are.
NEXT: Final[Mapping[tuple[Want, Place], Work | None]] = {
    (Want.RUN, Place.ABSENT): Work.BRING_UP,
    (Want.RUN, Place.PARKED): Work.BRING_UP,
    (Want.RUN, Place.AT_WORK): None,
    (Want.AWAY, Place.ABSENT): Work.DROP,
    (Want.AWAY, Place.PARKED): None,
    (Want.AWAY, Place.AT_WORK): Work.GIVE_WAY,
    (Want.END, Place.ABSENT): Work.DROP,
    (Want.END, Place.PARKED): Work.END,
    (Want.END, Place.AT_WORK): Work.END,
}


class Aftermath(NamedTuple):
    """The job's place and want after an outcome. None: unchanged."""

    place: Place | None
    leaves: bool  # the GPUs it stood on
    want: Want | None
    news: News | None


# What became of it, by what came of the work.
AFTER: Final[Mapping[WorkOutcome, Aftermath]] = {
    WorkOutcome.UP: Aftermath(Place.AT_WORK, False, None, News.STARTED),
    WorkOutcome.CALLED_OFF: Aftermath(None, True, None, None),
    WorkOutcome.NO_ROOM: Aftermath(Place.PARKED, True, Want.AWAY, News.DISPLACED),
    WorkOutcome.NO_SEAT: Aftermath(Place.ABSENT, True, Want.AWAY, News.DISPLACED),
    WorkOutcome.NOT_STARTED: Aftermath(Place.ABSENT, True, Want.END, News.FAILED),
    WorkOutcome.PARKED: Aftermath(Place.PARKED, True, None, News.SAVED),
    WorkOutcome.GONE: Aftermath(Place.ABSENT, True, None, News.SAVED),
    WorkOutcome.STAYED: Aftermath(Place.AT_WORK, False, Want.RUN, News.STAYED),
    WorkOutcome.ENDED: Aftermath(Place.ABSENT, True, None, News.REQUEUED),
    WorkOutcome.OVER: Aftermath(Place.ABSENT, True, Want.END, News.OVER),
}


def _nobody(life: Life) -> None:
    return None


class Life:
    """One job that has, or is about to have, processes."""

    def __init__(self, job_id: JobId, want: Want, booked: Placement | None = None) -> None:
        self.job_id: Final = job_id
        self.want = want
        self.place = Place.ABSENT
        self.booked = booked  # where it is to run
        self.stands: Placement | None = None  # where it really is, until it has left
        self.run: Run | None = None
        self.watched: Run | None = None  # whose end will be told
        self.moves = False  # it is to save itself and to go on where it is booked
        self.sent_away = False  # from where it is at work, whatever was wanted since
        self.busy = False  # somebody is at work on its processes
        self.ended = False  # its main process has ended and we have not looked at it yet
        self.requeue = ""  # why it is to line up again once its processes have ended
        self.pin = ""  # why it cannot give way, as last told
        self.began_at: Seconds = 0.0
        self.rouse: Callable[[Life], None] = _nobody  # called after every signal
        self._start_told = False
        self._first_step_told = True

    @property
    def is_leaving(self) -> bool:
        """Does it stand on GPUs that are no longer its own?"""
        return self.stands is not None and (self.want is not Want.RUN or self.stands != self.booked)

    @property
    def leaves_first(self) -> bool:
        """Is it at work where it was sent away from, or elsewhere than it is to run by now? One
        decision may preempt a job and start it again."""
        is_to_run = self.place is Place.AT_WORK and self.want is Want.RUN
        return is_to_run and (self.sent_away or self.is_leaving)

    @property
    def work(self) -> Work | None:
        """The next thing to do towards what is wanted, if nobody is at it already."""
        if self.busy or self.ended:
            return None
        if self.moves and self.place is Place.AT_WORK and self.want is Want.RUN:
            return Work.MOVE
        if self.leaves_first:
            return Work.GIVE_WAY
        return NEXT[self.want, self.place]

    # ---------------------------------------------------------------------------------- what is wanted

    def wish(self, want: Want, booked: Placement | None = None) -> None:
        """Want this of the job from now on. A job that is to be requeued ends its processes
        first."""
        self.booked = booked
        self.moves = False
        if want is Want.AWAY and self.place is Place.AT_WORK:
            self.sent_away = True
        if want is Want.END or not self.requeue:
            self.want = want
        self._check()

    def wish_anew(self, reason: str) -> None:
        """End its processes; once they are gone it lines up again."""
        self.requeue = reason
        self.want = Want.END
        self._check()

    def rebook(self, placement: Placement) -> None:
        """The same GPUs with another share or another power limit."""
        self.booked = placement
        if self.stands is not None:
            self.stands = placement
        self._check()

    def wish_elsewhere(self, placement: Placement) -> None:
        """Other GPUs, more or fewer. Whoever has not begun yet begins there."""
        self.moves = self.place is Place.AT_WORK or self.busy
        self.booked = placement
        self._check()

    def lose_booking(self) -> None:
        """The GPUs that it was given stay occupied by another job."""
        self.want, self.booked = Want.AWAY, None
        self._check()

    # ------------------------------------------------------------------------------- what became of it

    def take_up(self, run: Run, place: Place, stands: Placement | None) -> None:
        """Adopt a run as an earlier daemon left it."""
        self.run, self.place, self.stands = run, place, stands
        self._check()

    def bring_up(self, run: Run, now: Seconds) -> None:
        """The job occupies its GPUs from now on, until it has left them."""
        self.run, self.stands, self.began_at = run, self.booked, now
        self._start_told = False
        self._first_step_told = self.place is not Place.ABSENT
        self._check()

    def came(self, outcome: WorkOutcome) -> News | None:
        """Work is over, or the processes have ended. Returns the news for the journal."""
        after = AFTER[outcome]
        self.busy = False
        if self.ended and outcome in (WorkOutcome.PARKED, WorkOutcome.STAYED):
            return News.OVER  # it ended meanwhile, by itself
        if outcome is WorkOutcome.STAYED:
            self._start_told = True  # with that: who stays is at work, also if it ends at once
        if after.place is not None:
            self.place = after.place
            self.ended = self.ended and after.place is not Place.ABSENT
        if after.leaves:
            self.stands = None
        if outcome not in (WorkOutcome.UP, WorkOutcome.CALLED_OFF):
            self.moves = self.sent_away = False
        news = after.news
        if after.want is not None and not self._turns_to(after.want, outcome):
            news = None
        self._check()
        return news

    def _turns_to(self, want: Want, outcome: WorkOutcome) -> bool:
        """Whether the want changes: not if something else is wanted by now. An end stays an end."""
        is_wanted = self.want is not Want.END or want is Want.END
        if outcome in (WorkOutcome.NO_ROOM, WorkOutcome.NO_SEAT):
            is_wanted = self.want is Want.RUN
        if is_wanted:
            self.want = want
            self.booked = self.stands if want is Want.RUN else None
        return is_wanted

    def start_is_news(self) -> bool:
        """Whether nobody was told yet that it has begun. Asked once for each start."""
        told, self._start_told = self._start_told, True
        return not told

    def first_step_is_news(self, came_back: bool) -> bool:
        """Whether a job that was launched again has not told a step before. Asked once for each."""
        told, self._first_step_told = self._first_step_told, True
        return came_back and not told and self.place is Place.AT_WORK and not self.moves

    def end_unseen(self) -> None:
        """Its main process has ended; how, is still to be read."""
        self.ended = True

    def requeued(self) -> str:
        """Why it lines up again now; "" if it does not. Asked once."""
        reason, self.requeue = self.requeue, ""
        return reason

    def _check(self) -> None:
        """What holds after every signal."""
        assert self.want is not Want.RUN or self.booked is not None, f"{self} has nowhere to run"
        assert self.want is not Want.AWAY or self.booked is None, f"{self} is to leave and to run"
        assert self.place is Place.ABSENT or self.run is not None, f"{self} has no processes"
        self.rouse(self)

    def __repr__(self) -> str:
        return f"job {self.job_id} ({self.place.value}, wanted: {self.want.value})"


def overlap(one: Placement, other: Placement) -> bool:
    """Do they have a GPU in common?"""
    masks = dict(one.slices)
    return any(masks.get(piece.node, 0) & piece.mask for piece in other.slices)
