"""The process that keeps the account of costs and takes the snapshots."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dovetail.core import snapshot
from dovetail.core.entries import Finished, NodeJoined, Start, Started, Submitted
from dovetail.core.errors import DovetailError
from dovetail.core.journal import encode
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.daemon.history import account_process
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.history.running_costs import PAST
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.store import JournalReader, Store
from dovetail.testing import job, placement

COSTS = Costs({"gpu": NodeRates(watts=(0.0, 1000.0))}, price=Hourly([0.5]), carbon=Hourly([100.0]))
ENTRIES = (
    NodeJoined(0.0, Node("n0", 1)),
    Submitted(0.0, job("a")),
    Submitted(0.0, job("b")),
    Start(JobId("a"), placement((0, 1))),
    Started(0.0, JobId("a")),
    Finished(7200.0, JobId("a")),
    Start(JobId("b"), placement((0, 1))),
)


@contextmanager
def account_of(folder: Path) -> Iterator[tuple[AccountProcess, Path, State]]:
    path, state = folder / "dovetail.db", State(PAST)
    with closing(Store.open(path)) as store:
        for entry in ENTRIES:
            state.record(entry)
            store.add(encode(entry, state.now).rstrip("\n"))
        store.commit()
        with (
            closing(JournalReader(path)) as reader,
            closing(AccountProcess(path, reader, COSTS)) as account,
        ):
            yield account, path, state


def own_process(account: AccountProcess) -> int:
    assert account._process is not None
    return account._process.pid


def test_a_snapshot_is_that_of_the_journals_state(tmp_path: Path) -> None:
    with account_of(tmp_path) as (account, _, state):
        kept = account.snapshot()
        assert kept == account.last_snapshot()
        assert kept.seq == len(ENTRIES)
        assert snapshot.take(snapshot.restore(kept.text, PAST)) == snapshot.take(state)


def test_costs_are_the_same_by_the_process_and_by_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with account_of(tmp_path) as (account, _, _):
        read = account.since(0.0, 10_800.0), account.mark(10_800.0)
        monkeypatch.setattr(account_process, "EXACT", 0)
        asked = account.since(0.0, 10_800.0), account.mark(10_800.0)
        assert asked == read
        assert read[0]["energy_kwh"] == pytest.approx(3.0)


def test_a_process_that_was_killed_is_started_again(tmp_path: Path) -> None:
    with account_of(tmp_path) as (account, _, _):
        kept, first = account.snapshot(), own_process(account)
        os.kill(first, signal.SIGKILL)
        assert account.snapshot() == kept
        assert own_process(account) != first


def test_a_process_that_nobody_asks_any_more_ends_by_itself(tmp_path: Path) -> None:
    with account_of(tmp_path) as (account, _, _):
        account.snapshot()
        process = account._process
        assert process is not None
        account.close()
        assert process.returncode == 0


def test_no_process_is_started_for_who_asks_when_the_account_is_closed(tmp_path: Path) -> None:
    with account_of(tmp_path) as (account, _, _):
        account.close()
        with pytest.raises(DovetailError, match="since the daemon ends"):
            account.snapshot()
        assert account._process is None


def test_a_journal_that_cannot_be_read_is_said_and_the_process_goes_on(tmp_path: Path) -> None:
    with account_of(tmp_path) as (account, path, _):
        account.snapshot()
        path.rename(tmp_path / "away")
        (tmp_path / "dovetail.db.tail").rename(tmp_path / "tail away")
        before = own_process(account)
        with pytest.raises(DovetailError, match="the account cannot be read"):
            account.prepared_tail()
        assert own_process(account) == before
        (tmp_path / "away").rename(path)
        assert account.snapshot().seq == len(ENTRIES)
