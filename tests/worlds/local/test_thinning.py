from __future__ import annotations

from dovetail.worlds.agent import ThinnedReport
from dovetail.worlds.local.watching.thinning import (
    BURST_BYTES,
    BYTES_PER_S,
    MOST_NAMES,
    Thinner,
    bytes_of,
)


def reports(first: int, number: int) -> list[ThinnedReport]:
    return [
        ThinnedReport(step, {"loss": 1.0 / (step + 1)}, step)
        for step in range(first, first + number)
    ]


def test_an_ordinary_job_keeps_every_report() -> None:
    thinner = Thinner()
    kept = [one for second in range(2000) for one in thinner.kept(reports(second, 1), second)]
    assert [one.step for one in kept] == list(range(2000))
    assert not any(one.left_out for one in kept)


def test_the_first_and_the_last_are_kept_and_those_between_are_counted() -> None:
    thinner = Thinner()
    kept = [one for i in range(20) for one in thinner.kept(reports(1000 * i, 1000), i / 20)]
    was_thinning = thinner.is_thinning
    kept += thinner.rest()
    assert (was_thinning, thinner.is_thinning) == (True, False)
    assert (kept[0].step, kept[-1].step, kept[-1].upto) == (0, 19_999, 19_999)
    assert len(kept) + sum(one.left_out for one in kept) == 20_000
    assert sum(map(bytes_of, kept)) <= BURST_BYTES + BYTES_PER_S + bytes_of(kept[-1])


def test_what_waits_is_kept_when_there_are_bytes_for_it_again() -> None:
    thinner = Thinner()
    list(thinner.kept(reports(0, 20_000), 0.0))
    assert list(thinner.kept((), 0.1)) == []
    (late,) = thinner.kept((), 10.0)
    assert late.step == 19_999
    assert list(thinner.kept((), 11.0)) == []


def test_reports_that_are_put_together_keep_the_latest_of_each_metric() -> None:
    thinner = Thinner()
    list(thinner.kept(reports(0, 20_000), 0.0))
    (late,) = thinner.kept([ThinnedReport(None, {"accuracy": 0.5}, 7)], 10.0)
    assert (late.step, late.metrics, late.upto) == (
        *(19_999, {"loss": 1.0 / 20_000, "accuracy": 0.5}, 7),
    )


def test_a_job_has_so_many_metrics_and_no_more() -> None:
    thinner = Thinner()
    many = [ThinnedReport(i, {f"{i}-{j}": 0.0 for j in range(90)}, i) for i in range(50)]
    names = {name for one in thinner.kept(many, 0.0) for name in one.metrics}
    assert len(names) == MOST_NAMES
