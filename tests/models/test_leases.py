"""Jobs that work in leases of whole steps."""

from dataclasses import replace
from math import inf

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.models.leases import Leased, in_leases
from dovetail.models.speed_table import Hardware, SpeedTable, model_type
from dovetail.testing import arrival, placement

NODES = [Node("n0", 1, kind="v100"), Node("n1", 1, kind="k80")]
FAST, SLOW = placement((0, 1)), placement((1, 1))
TERMS = Leased(steps=10, rates={"v100": 2.0, "k80": 0.3}, usual=2.0, round_s=4.0)


def test_a_lease_is_as_many_whole_steps_as_fit_and_then_it_is_idle() -> None:
    course = TERMS()
    assert course.begin(100.0, FAST, NODES) == (104.0, False)
    told, then = course.reach(104.0)
    assert (told.step, then) == (8.0, (inf, False))
    assert course.halt(110.0) == 4.0
    assert course.begin(110.0, FAST, NODES) == (111.0, True)


def test_a_lease_has_at_least_one_step() -> None:
    assert TERMS().begin(0.0, SLOW, NODES) == (1 / 0.3, False)
    assert replace(TERMS, rates={"k80": 0.1})().begin(0.0, SLOW, NODES) == (10.0, False)


def test_what_is_stopped_keeps_its_whole_steps_and_may_lose_some() -> None:
    course = TERMS()
    course.begin(0.0, FAST, NODES)
    assert course.halt(1.7) == 1.5  # three steps of half a second
    assert course.halt(1.7) == 1.5
    course.lose(1.0)
    assert course.begin(2.0, FAST, NODES) == (6.0, False)
    assert course.reach(6.0)[0].step == 9.0


def test_where_it_was_not_measured_it_does_nothing() -> None:
    assert replace(TERMS, rates={})().begin(0.0, FAST, NODES) == (inf, False)


def test_a_job_without_steps_a_second_is_refused_in_one_line() -> None:
    table = SpeedTable({model_type("resnet"): {Hardware("v100"): 2.0}})
    came = arrival("a", 0.0, 5.0, model="resnet")
    (leased,) = in_leases([came], table, ["v100"], 360.0)
    assert leased.job.amount == 10.0
    with pytest.raises(BadInput, match="job 'a': the speed table has no 'resnet' on 1 k80"):
        in_leases([came], table, ["k80"], 360.0)
