"""The table of what is wanted of a job's processes and what became of them, without any process."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.model import JobId, Placement, Slice
from dovetail.worlds.agent import Work, WorkOutcome
from dovetail.worlds.lives import AFTER, NEXT, Life, News, Place, Want
from dovetail.worlds.local.runs.run import ProcessRun

HERE, THERE = Placement((Slice(0, 1),)), Placement((Slice(0, 2),))
RUN = ProcessRun(Path("/nowhere/1"))
# What may come of each kind of work; a job may also be over at any time.
OUTCOMES = {
    Work.BRING_UP: (
        WorkOutcome.UP,
        WorkOutcome.CALLED_OFF,
        WorkOutcome.NO_ROOM,
        WorkOutcome.NO_SEAT,
        WorkOutcome.NOT_STARTED,
    ),
    Work.GIVE_WAY: (WorkOutcome.PARKED, WorkOutcome.GONE, WorkOutcome.STAYED),
    Work.MOVE: (WorkOutcome.GONE, WorkOutcome.STAYED),
    Work.END: (WorkOutcome.ENDED,),
}


def at_work(want: Want = Want.RUN) -> Life:
    life = Life(JobId("7"), want, HERE if want is Want.RUN else None)
    life.take_up(RUN, Place.AT_WORK, HERE)
    return life


def test_a_job_that_could_not_give_way_and_then_ends_is_not_told_to_have_begun_twice() -> None:
    """It was started again meanwhile; that it stays says already that it is at work."""
    life = giving_way_and_started_again()
    assert life.came(WorkOutcome.STAYED) is News.STAYED
    life.end_unseen()
    assert not life.start_is_news()


def test_one_that_ended_before_it_could_give_way_is_told_to_have_begun() -> None:
    life = giving_way_and_started_again()
    life.end_unseen()
    assert life.came(WorkOutcome.STAYED) is News.OVER
    assert life.start_is_news()


def giving_way_and_started_again() -> Life:
    life = at_work(Want.AWAY)
    assert life.work is Work.GIVE_WAY
    life.busy = True
    life.wish(Want.RUN, THERE)
    return life


def stood(life: Life) -> tuple[Place, Placement | None, Work | None]:
    return life.place, life.stands, life.work


def test_the_tables_know_what_to_do_in_every_case() -> None:
    assert set(NEXT) == set(product(Want, Place))
    assert set(AFTER) == set(WorkOutcome)


@pytest.mark.parametrize("requeue", [False, True])
def test_a_job_that_is_to_end_ends_though_it_could_not_give_way(requeue: bool) -> None:
    life = at_work()
    life.wish(Want.AWAY)
    assert life.work is Work.GIVE_WAY
    life.busy = True
    if requeue:
        life.wish_anew("requeued by ann")
    else:
        life.wish(Want.END)
    assert life.came(WorkOutcome.STAYED) is None
    assert (life.work, life.stands) == (Work.END, HERE)
    assert life.came(WorkOutcome.ENDED) is News.REQUEUED
    assert life.requeued() == ("requeued by ann" if requeue else "")
    assert stood(life) == (Place.ABSENT, None, Work.DROP)


def test_a_job_that_stays_has_its_gpus_again() -> None:
    life = at_work(Want.AWAY)
    assert life.is_leaving
    assert life.came(WorkOutcome.STAYED) is News.STAYED
    assert (life.want, life.booked, life.is_leaving) == (Want.RUN, HERE, False)


def test_a_job_that_is_to_move_saves_itself_and_goes_on_there() -> None:
    life = at_work()
    life.wish_elsewhere(THERE)
    assert (life.work, life.is_leaving) == (Work.MOVE, True)
    assert life.came(WorkOutcome.GONE) is News.SAVED
    assert stood(life) == (Place.ABSENT, None, Work.BRING_UP)
    life.bring_up(RUN, 1.0)
    assert life.came(WorkOutcome.UP) is News.STARTED
    assert stood(life) == (Place.AT_WORK, THERE, None)


def test_a_job_that_does_not_save_itself_keeps_what_it_had() -> None:
    life = at_work()
    life.wish_elsewhere(THERE)
    assert life.came(WorkOutcome.STAYED) is News.STAYED
    assert (life.booked, life.moves, life.work) == (HERE, False, None)


def test_a_job_that_is_to_move_while_it_is_brought_up_moves_then() -> None:
    life = Life(JobId("7"), Want.RUN, HERE)
    life.bring_up(RUN, 1.0)
    life.busy = True
    life.wish_elsewhere(THERE)
    life.came(WorkOutcome.UP)
    assert (life.stands, life.work) == (HERE, Work.MOVE)


@pytest.mark.parametrize("again", [HERE, THERE])
def test_a_job_that_is_preempted_and_started_again_at_one_instant_gives_way_first(
    again: Placement,
) -> None:
    life = at_work()
    life.wish(Want.AWAY)
    life.wish(Want.RUN, again)
    assert life.work is Work.GIVE_WAY
    life.busy = True
    assert life.came(WorkOutcome.PARKED) is News.SAVED
    assert stood(life) == (Place.PARKED, None, Work.BRING_UP)
    life.bring_up(RUN, 1.0)
    assert life.came(WorkOutcome.UP) is News.STARTED
    assert stood(life) == (Place.AT_WORK, again, None)


def test_a_job_that_is_given_other_gpus_while_it_is_brought_up_leaves_those_it_came_to() -> None:
    life = Life(JobId("7"), Want.RUN, HERE)
    life.bring_up(RUN, 1.0)
    life.busy = True
    life.wish(Want.AWAY)
    life.wish(Want.RUN, THERE)
    life.came(WorkOutcome.UP)
    assert (life.stands, life.leaves_first, life.work) == (HERE, True, Work.GIVE_WAY)


def test_who_ended_while_it_was_parked_is_over() -> None:
    life = at_work(Want.AWAY)
    life.busy = True
    life.end_unseen()
    assert life.came(WorkOutcome.PARKED) is News.OVER
    assert life.stands == HERE, "its GPUs are free when its end was looked at"
    assert life.came(WorkOutcome.OVER) is News.OVER
    assert stood(life) == (Place.ABSENT, None, Work.DROP)


def test_who_is_to_line_up_again_does_not_run_before_its_processes_are_gone() -> None:
    life = at_work()
    life.wish_anew("requeued by ann")
    life.wish(Want.RUN, THERE)
    assert life.work is Work.END


@given(data=st.data())
def test_whatever_comes_in_whatever_order_nobody_is_lost(data: st.DataObject) -> None:
    """After any wishes and outcomes, once an end is wanted and the work is done, it is forgotten."""
    life = Life(JobId("7"), Want.RUN, HERE)
    for _ in range(data.draw(st.integers(0, 12))):
        _one_signal(life, data)
        _one_piece_of_work(life, data)
        if life.work is Work.DROP:
            return
        assert life.work or not life.is_leaving, "it keeps others off GPUs for good"
    life.wish(Want.END)
    for _ in range(3):
        _one_piece_of_work(life, data, is_last=True)
    assert life.work is Work.DROP
    assert life.stands is None


def _one_signal(life: Life, data: st.DataObject) -> None:
    signal = data.draw(
        st.sampled_from(("run", "away", "share", "move", "end", "anew", "lost", "none"))
    )
    if signal == "run":
        life.wish(Want.RUN, data.draw(st.sampled_from((HERE, THERE))))
    elif signal == "away":
        life.wish(Want.AWAY)
    elif signal == "share" and life.booked is not None and life.want is Want.RUN:
        life.rebook(data.draw(st.sampled_from((HERE, THERE))))
    elif signal == "move" and life.booked is not None and life.want is Want.RUN:
        life.wish_elsewhere(data.draw(st.sampled_from((HERE, THERE))))
    elif signal == "end":
        life.wish(Want.END)
    elif signal == "anew":
        life.wish_anew("again")
    elif signal == "lost" and life.booked is not None and life.want is Want.RUN:
        life.lose_booking()


def _one_piece_of_work(life: Life, data: st.DataObject, is_last: bool = False) -> None:
    work = life.work
    if work is None or work is Work.DROP:
        return
    if work is Work.BRING_UP:
        life.bring_up(life.run or RUN, 1.0)
    life.busy = True
    if not is_last:
        _one_signal(life, data)
    if life.place is not Place.ABSENT and data.draw(st.booleans()):
        life.end_unseen()
    came = data.draw(st.sampled_from(OUTCOMES[work]))
    if life.came(came) is News.OVER or life.ended:
        life.came(WorkOutcome.OVER)
