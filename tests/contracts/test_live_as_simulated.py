"""The same policy decides the same, whether jobs are simulated or real processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from forty_jobs import CONTESTS, Contest, Ground, compare, measured_alone
from live_box import box


@pytest.fixture(scope="module")
def compared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[Contest, Future[None]]]:
    """All at once, each on a daemon of its own: their jobs do little but sleep."""
    with ThreadPoolExecutor(len(CONTESTS)) as pool:
        yield {
            contest: pool.submit(_compare, contest, tmp_path_factory.mktemp(str(contest)))
            for contest in CONTESTS
        }


def _compare(contest: Contest, folder: Path) -> None:
    processes = Ground(box)
    compare(processes, contest, measured_alone(processes, folder / "alone", contest.tick_s), folder)


@pytest.mark.parametrize("contest", CONTESTS, ids=str)
def test_forty_jobs_start_and_stop_in_the_same_order_and_end_as_soon(
    contest: Contest, compared: Mapping[Contest, Future[None]]
) -> None:
    compared[contest].result()
