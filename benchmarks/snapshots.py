"""How long a snapshot holds the loop: a journal of many jobs, and a loop that goes on meanwhile."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from benchmarks.crowd import Crowd
from dovetail.core.entries import NodeJoined, Submitted, Woke
from dovetail.core.journal import encode
from dovetail.core.model import Job
from dovetail.core.state import State
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.snapshots import Request, Snapshots
from dovetail.models.cost import Costs
from dovetail.store import JournalReader, Store

TRACKS = 52_000
_BETWEEN_S = 0.002  # two turns of the loop


def longest_turn_ms() -> tuple[float, float]:
    """Of the loop while a snapshot is taken, and of as many without one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dovetail.db"
        with closing(Store.open(path)) as store, closing(JournalReader(path)) as reader:
            _fill(store)
            asked: SimpleQueue[Request] = SimpleQueue()
            account = AccountProcess(path, reader, Costs())
            snapshots = Snapshots(store, account, asked.put, every=10)
            turns = [_turn(store, snapshots, asked) for _ in range(12)]  # the first opens the books
            while not list(reader.snapshots()):
                turns.append(_turn(store, snapshots, asked))
            last, during = reader.oldest_snapshot(), list[float]()
            while reader.oldest_snapshot() == last:
                during.append(_turn(store, snapshots, asked))
            usual = [_turn(store, None, asked) for _ in during]
    return 1000.0 * max(turns + during), 1000.0 * max(usual)


def _fill(store: Store) -> None:
    state, _ = Crowd(1250, TRACKS, asking=True).state_and_world(1)
    jobs: list[Job] = [track.job for track in state.tracks.values()][:TRACKS]
    for node in state.room.nodes:
        store.add(encode(NodeJoined(0.0, node), 0.0).rstrip("\n"))
    for job in jobs:
        store.add(encode(Submitted(0.0, job), 0.0).rstrip("\n"))
    store.commit()


def _turn(store: Store, snapshots: Snapshots | None, asked: SimpleQueue[Request]) -> float:
    """What the loop does for one event: heed what it was asked, note, commit, look."""
    sleep(_BETWEEN_S)
    began = perf_counter()
    try:
        asked.get_nowait()(State(), 0.0)
    except Empty:
        store.add(encode(Woke(0.0), 0.0).rstrip("\n"))
    store.commit()
    if snapshots is not None:
        snapshots.look()
    return perf_counter() - began
