"""How long a snapshot holds the loop: a journal of many jobs, and a loop that goes on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, thread_time

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
_DESCRIPTION = "x" * 400  # what a job's command, folder and variables take
_BETWEEN_S = 0.002  # two rounds of the loop


@dataclass(frozen=True)
class Rounds:
    """Of the loop, in milliseconds by the clock, and of its own processor time."""

    for_snapshots: list[tuple[float, float]] = field(default_factory=list)  # writing, following up
    beside: list[tuple[float, float]] = field(default_factory=list)  # noting while one is taken
    without: list[tuple[float, float]] = field(default_factory=list)  # noting at other times


def measured_rounds(snapshots: int = 3) -> Rounds:
    """While so many snapshots are taken, and as long without any."""
    rounds = Rounds()
    with _journal() as (store, reader, account):
        asked: SimpleQueue[Request] = SimpleQueue()
        keeper = Snapshots(store, reader, account, asked.put, every=10)
        for _ in range(snapshots):
            last = _last_snapshot(reader)
            while _last_snapshot(reader) == last:
                _round(store, keeper, asked, rounds)
            for _ in range(50):  # what follows from it
                _round(store, keeper, asked, rounds)
        rounds.without.extend([_noted(store) for _ in rounds.beside])
    return rounds


def _last_snapshot(reader: JournalReader) -> int:
    return max([seq for seq, _ in reader.snapshots()], default=0)


@contextmanager
def _journal() -> Iterator[tuple[Store, JournalReader, AccountProcess]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dovetail.db"
        with (
            closing(Store.open(path)) as store,
            closing(JournalReader(path)) as reader,
            closing(AccountProcess(path, reader, Costs())) as account,
        ):
            _fill(store)
            yield store, reader, account


def _fill(store: Store) -> None:
    state, _ = Crowd(1250, TRACKS, asking=True).state_and_world(1)
    jobs: list[Job] = [track.job for track in state.tracks.values()][:TRACKS]
    for node in state.room.nodes:
        store.add(encode(NodeJoined(0.0, node), 0.0).rstrip("\n"))
    for job in jobs:
        store.add(encode(Submitted(0.0, job), 0.0).rstrip("\n"))
        store.put_spec(job.id, _DESCRIPTION)
    store.commit()


def _round(store: Store, keeper: Snapshots, asked: SimpleQueue[Request], rounds: Rounds) -> None:
    """What the loop does for one event: heed what it was asked, or note; commit, look."""
    try:
        request = asked.get_nowait()
    except Empty:
        rounds.beside.append(_noted(store, keeper))
        return
    sleep(_BETWEEN_S)
    began, cpu_began = perf_counter(), thread_time()
    request(State(), 0.0)
    store.commit()
    keeper.look()
    rounds.for_snapshots.append(_since(began, cpu_began))


def _noted(store: Store, keeper: Snapshots | None = None) -> tuple[float, float]:
    sleep(_BETWEEN_S)
    began, cpu_began = perf_counter(), thread_time()
    store.add(encode(Woke(0.0), 0.0).rstrip("\n"))
    store.commit()
    if keeper is not None:
        keeper.look()
    return _since(began, cpu_began)


def _since(began: float, cpu_began: float) -> tuple[float, float]:
    return 1000.0 * (perf_counter() - began), 1000.0 * (thread_time() - cpu_began)
