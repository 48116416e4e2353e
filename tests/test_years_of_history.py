"""Years of ended jobs cost nothing at a start, nor when people look. `python -m benchmarks retention`
is the long form."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from benchmarks.retention import write_years

from dovetail.daemon.history import account_process as account
from dovetail.daemon.history.retention import Keep, Retention
from dovetail.store import Filter
from live_box import box


def test_a_daemon_bears_years_of_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "EXACT", 0)  # as for a long journal
    jobs = write_years(tmp_path / "box", days=60, per_day=25)
    began = time.process_time()
    with box(tmp_path / "box") as here:
        assert here.daemon.notices.all == ()
        assert here.service.jobs().total == 0
        assert [row.id for row in here.service.history(Filter(), 2)] == [
            str(jobs),
            str(jobs - 1),
        ]
        found = here.daemon.account.since(0.0, here.daemon.clock())
        assert found["energy_cost"] == jobs - 25  # between the first hour and the last snapshot
        assert time.process_time() - began < 1.0
        retention = Retention(here.home, here.service._parts, here.service, Keep())
        assert retention.remove_old_runs() == 25  # those of the 31st day
        assert retention.prune_journal() > 400
        assert here.job(here.submit("exit 0"))["id"] == str(jobs + 1)
        assert here.job("1")["name"] == "job-1"
