"""Jobs that count their steps and tell them."""

from dovetail.core.model import Job, JobId, Node
from dovetail.models.counted import counting
from dovetail.models.course import Course
from dovetail.models.workload import Arrival
from dovetail.testing import placement

HERE = placement((0, 1))
NODES = [Node("n", 1)]


def half(job: Job, place: object, nodes: object) -> float:
    return 0.5


def told(amount: float | None, work_s: float) -> Arrival:
    (found,) = counting([Arrival(0.0, Job(JobId("j"), amount=amount), work_s)], half)
    return found


def begun(amount: float, work_s: float) -> Course:
    make = told(amount, work_s).course
    assert make is not None
    return make()


def test_a_job_tells_its_steps_once_after_a_minute_and_ends_when_its_work_is_done() -> None:
    course = begun(amount=50.0, work_s=100.0)
    assert course.begin(10.0, HERE, NODES) == (70.0, False)
    report, then = course.reach(70.0)
    assert report.step == 15.0
    assert then == (210.0, True)


def test_it_goes_on_from_where_it_was() -> None:
    course = begun(amount=50.0, work_s=100.0)
    course.begin(0.0, HERE, NODES)
    assert course.halt(40.0) == 20.0
    assert course.begin(100.0, HERE, NODES) == (160.0, False)
    course.lose(10.0)
    assert course.reach(160.0)[1] == (280.0, True)


def test_beside_others_it_is_as_slow_as_any_job() -> None:
    course = begun(amount=50.0, work_s=100.0)
    course.meet([None], 0.5)
    assert course.begin(0.0, HERE, NODES) == (60.0, False)
    assert course.speed == 0.25
    assert course.halt(40.0) == 10.0
    assert course.begin(40.0, HERE, NODES) == (100.0, False)  # alone again
    assert course.speed == 0.5


def test_jobs_that_name_no_steps_are_left_as_they_are() -> None:
    assert told(amount=None, work_s=100.0).course is None
