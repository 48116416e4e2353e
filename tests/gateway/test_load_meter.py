"""What a gateway says of the load."""

from __future__ import annotations

import pytest

from dovetail.gateway.load import LoadMeter


def test_requests_in_work_are_counted_over_time_and_not_at_the_instant_of_the_summary() -> None:
    meter = LoadMeter(None, 0.0)
    meter.work(2, 0.5)  # two, for a quarter of a second
    meter.work(-2, 0.75)
    meter.work(1, 1.0)
    told = meter.summary(1.0)
    assert told.mean_in_flight == pytest.approx(0.5)
    assert told.in_flight == 1
    assert meter.summary(3.0).mean_in_flight == pytest.approx(1.0)


def test_the_tail_is_that_of_the_percentile_of_the_slo() -> None:
    meter = LoadMeter(0.2, 0.0, percentile=50)
    for milliseconds in range(1, 102):
        meter.answer(milliseconds / 1e3, milliseconds / 1e3)
    told = meter.summary(1.0)
    assert told.tail_s == pytest.approx(0.051)
    assert told.p99_s == pytest.approx(0.1)
