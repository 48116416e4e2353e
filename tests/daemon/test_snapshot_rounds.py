"""A snapshot is written in one round of the loop, what follows from it in another."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest

from dovetail.core.entries import NodeJoined, Submitted
from dovetail.core.journal import encode
from dovetail.core.model import Node
from dovetail.core.state import State
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.snapshots import Request, Snapshots
from dovetail.models.cost import Costs
from dovetail.store import JournalReader, Store, tail
from dovetail.testing import job


def test_the_tail_is_shortened_in_a_round_after_the_snapshot_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "ROOM", 1000)
    path, asked, state = tmp_path / "dovetail.db", SimpleQueue[Request](), State()
    with (
        closing(Store.open(path)) as store,
        closing(JournalReader(path)) as reader,
        closing(AccountProcess(path, reader, Costs())) as account,
    ):
        snapshots = Snapshots(store, reader, account, asked.put, every=100)
        store.add(encode(NodeJoined(0.0, Node("n0", 8)), 0.0).rstrip("\n"))
        for number in range(200):
            store.add(encode(Submitted(0.0, job(f"j{number}")), 0.0).rstrip("\n"))
            store.commit()
        long = tail.tail_of(path).stat().st_size
        snapshots.look()
        asked.get(timeout=60)(state, 0.0)
        assert [seq for seq, _ in reader.snapshots()] == [201]
        assert tail.tail_of(path).stat().st_size >= long
        asked.get(timeout=60)(state, 0.0)
        assert tail.tail_of(path).stat().st_size < long
