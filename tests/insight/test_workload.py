"""The numbers behind the pictures of a workload."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from math import log
from random import Random

import pytest

from dovetail.insight.arriving import arriving
from dovetail.insight.tails import tail_of
from dovetail.insight.workload_figures import WorkloadFigures, workload
from dovetail.models.workload import Arrival
from dovetail.testing import arrival, nodes
from dovetail.traces.trace import Trace

DAY_S = 86_400.0
MONDAY = 1_704_067_200.0  # 2024-01-01 00:00, a Monday


def seen(*arrivals: Arrival, began_at: float | None = None, gpus: int = 8) -> WorkloadFigures:
    return workload(Trace(list(arrivals), began_at=began_at), nodes(1, gpus))


def test_a_job_every_hour_of_a_dated_week_is_one_job_an_hour_whenever() -> None:
    work = seen(*(arrival(str(i), i * 3600.0) for i in range(7 * 24)), began_at=MONDAY)
    assert work.arriving is not None
    assert work.arriving.dated
    assert set(work.arriving.by_hour) == {1.0}
    assert set(work.arriving.by_day) == {24.0}
    assert work.arriving.gap_c2 == pytest.approx(0.0)


def test_weekdays_follow_the_calendar() -> None:
    work = seen(arrival("a"), arrival("b", 1.0), arrival("c", 8 * DAY_S), began_at=MONDAY)
    assert work.arriving is not None
    monday, tuesday, wednesday = work.arriving.by_day[:3]
    assert monday == pytest.approx(1.0)  # 2 jobs on two Mondays
    assert tuesday == pytest.approx(24 / 25)  # 1 job in the 25 hours seen of two Tuesdays
    assert wednesday == 0.0


def test_seconds_since_1970_are_dates_and_small_numbers_are_not() -> None:
    import numpy as np

    assert arriving(np.array([MONDAY, MONDAY + 60]), None).dated
    assert not arriving(np.array([0.0, 60.0]), None).dated


def test_the_load_counts_gpus_held_if_nobody_waits() -> None:
    work = seen(arrival("a", 0.0, 3600.0, 4), arrival("b", 7200.0, 3600.0, 2), gpus=8)
    assert work.load is not None
    assert work.load.gpus == (4.0, 0.0)  # what runs on after the last submission is not seen
    assert work.load.overall == pytest.approx((4 * 3600 + 2 * 3600) / (8 * 7200))


def test_the_tail_index_of_a_power_law_is_its_exponent() -> None:
    chance = Random(1)
    jobs = [arrival(str(i), i, 60.0 * (1 - chance.random()) ** (-1 / 1.5)) for i in range(20_000)]
    tail = tail_of(jobs)
    assert tail.index_low is not None
    assert tail.index_high is not None
    assert tail.index_low < 1.5 < tail.index_high


def test_the_longest_of_equal_jobs_have_no_tail_index_and_it_says_why() -> None:
    tail = tail_of([arrival(str(i), i) for i in range(1000)])
    assert tail.index is None
    assert tail.why_no_index == "the longest jobs all run equally long"
    assert tail.c2 == 0.0


def test_the_survival_curve_falls_and_is_short_enough_to_draw() -> None:
    chance = Random(2)
    tail = tail_of([arrival(str(i), i, -100 * log(1 - chance.random())) for i in range(5000)])
    parts = [part for _, part in tail.longer_than]
    assert parts == sorted(parts, reverse=True)
    assert len(parts) <= 200
    assert parts[-1] == 0.0


def test_many_users_are_drawn_as_the_largest_and_all_others_together() -> None:
    jobs = [arrival(str(i), i, 10.0 + i, user=f"u{i}") for i in range(100)]
    work = seen(*jobs)
    assert work.owner == "user"
    assert len(work.owners) == 16
    assert work.owners[0].name == "u99"
    assert work.owners[-1].name == "85 others"
    assert sum(share.jobs for share in work.owners) == 100
    assert work.owners_in_all == 100


def test_a_job_that_is_tried_again_after_its_failure_has_not_failed() -> None:
    work = seen(
        arrival("a", 0.0, failures=(5.0,)),
        arrival("b", 1.0, failures=(5.0,), retries=1),
        arrival("c", 2.0, cancel_at=9.0),
        arrival("d", 3.0),
    )
    assert work.ends == (2, 1, 1)


def test_a_trace_that_tells_nothing_of_endings_is_not_said_to_have_no_failures() -> None:
    work = seen(arrival("a"), arrival("b", 5.0))
    assert work.ends is None
    assert any("how jobs ended" in line for line in work.not_measured)


def test_a_log_that_begins_with_survivors_only_is_pointed_out() -> None:
    week = 7 * DAY_S
    early = [arrival("old", 0.0, 30 * DAY_S)]
    later = [arrival(str(i), week * (1 + i % 6) + i, 600.0) for i in range(600)]
    work = seen(*early, *sorted(later, key=lambda own: own.at))
    assert any("still running when it began" in notice for notice in work.notices)
    assert not seen(*sorted(later, key=lambda own: own.at)).notices


def test_everything_can_be_written_as_json() -> None:
    assert dumps(asdict(seen(arrival("a"), arrival("b", 5.0, user="ann"))))


def test_jobs_that_can_never_run_here_are_told() -> None:
    trace = Trace([arrival("a", gpus=4), arrival("b", 60.0, gpus=900), arrival("c", 90.0)])
    (said,) = workload(trace, nodes(2, 8)).notices
    assert said.startswith("1 of 3 jobs ask for more than the 16 GPUs of the cluster")
    assert not workload(Trace([arrival("a", gpus=16)]), nodes(2, 8)).notices
