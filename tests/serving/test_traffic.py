"""Made-up traffic has the rate and the shape that its name says."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from dovetail.core.errors import BadInput
from dovetail.serving.language.step_costs import TimesByCount
from dovetail.serving.latency import LatencyPoint, LatencyTable
from dovetail.serving.over_time import MOST_BINS, OverTime
from dovetail.serving.tally import TimeHistogram
from dovetail.serving.traffic.catalogue import make


@pytest.mark.parametrize(
    ("text", "cv"), [("poisson", 1.0), ("bursty:cv=3", 3.0), ("bursty:cv=0.5", 0.5)]
)
def test_gaps_vary_as_asked(text: str, cv: float) -> None:
    times = list(make(f"{text}:rate=100:seconds=1000").arrivals(1))
    assert len(times) == pytest.approx(100_000, rel=0.05)
    gaps = [after - before for before, after in pairwise(times)]
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.1)


def test_a_day_has_its_peak_at_noon() -> None:
    times = list(make("daily:rate=10:seconds=8640:day_s=8640:peak=1.8").arrivals(1))
    assert len(times) == pytest.approx(86_400, rel=0.03)
    hours = [0] * 24
    for at in times:
        hours[int(at / 360)] += 1
    assert hours[12] == pytest.approx(1.8 * 3600, rel=0.07)
    assert hours[0] == pytest.approx(0.2 * 3600, rel=0.2)


def test_tokens_are_spread_around_their_means() -> None:
    made = make("poisson:rate=100:seconds=100:prompt_tokens=500:output_tokens=100")
    requests = list(made.requests("m", 1.0, 1))
    assert fmean(own.prompt_tokens for own in requests) == pytest.approx(500, rel=0.05)
    assert fmean(own.output_tokens for own in requests) == pytest.approx(100, rel=0.05)


def test_traffic_that_cannot_be_is_refused() -> None:
    for text in ("poisson:rate=0", "poisson:seconds=-1", "bursty:cv=0", "daily:peak=3"):
        with pytest.raises(BadInput):
            make(text)
    for text in ("daily:day_s=inf", "daily:day_s=0"):
        with pytest.raises(BadInput):
            make(text)


def test_a_table_is_linear_between_what_was_measured() -> None:
    table = LatencyTable(
        [LatencyPoint(1, 0.006), LatencyPoint(9, 0.022), LatencyPoint(1, 0.01, share=500)]
    )
    assert table.seconds(5, "any", 1000) == pytest.approx(0.014)
    assert table.seconds(13, "any", 1000) == pytest.approx(0.030)  # beyond: as the last two
    assert table.seconds(1, "any", 750) == pytest.approx(0.008)
    assert table.seconds(1, "any", 250) == pytest.approx(0.02)  # below: in proportion


def test_a_table_that_falls_goes_on_level_beyond_its_largest_size() -> None:
    table = LatencyTable([LatencyPoint(1, 0.010), LatencyPoint(2, 0.005)])
    assert table.seconds(8, "any", 1000) == 0.005
    assert TimesByCount(((1, 0.010), (2, 0.005))).at(8) == 0.005


def test_quantiles_are_exact_to_a_twentieth_of_a_percent() -> None:
    times = TimeHistogram()
    for ms in range(1, 10_001):
        times.add(ms / 1e3)
    assert times.quantile(0.5) == pytest.approx(5.0, rel=6e-4)
    assert times.quantile(0.99) == pytest.approx(9.9, rel=6e-4)
    assert times.quantile(1.0) == pytest.approx(10.0, rel=6e-4)
    assert times.mean == pytest.approx(5.0005)


def test_bins_grow_with_the_run_and_lose_nothing() -> None:
    bins = OverTime()
    for second in range(10_000):
        bins.add(float(second), 2, 1)
    assert len(bins.counts) == MOST_BINS
    assert (sum(bins.counts), sum(bins.parts)) == (20_000, 10_000)
