"""The same policy decides the same, whether jobs are simulated or real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from forty_jobs import CONTESTS, Contest, Ground, compare, measured_alone
from live_box import box


@pytest.mark.parametrize("contest", CONTESTS, ids=str)
def test_forty_jobs_start_and_stop_in_the_same_order_and_end_as_soon(
    contest: Contest, tmp_path: Path
) -> None:
    processes = Ground(box)
    alone = measured_alone(processes, tmp_path / "alone", contest.tick_s)
    compare(processes, contest, alone, tmp_path)
