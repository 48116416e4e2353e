"""Ten years of a thousand jobs a day: does a daemon still start, list, look back and add up at once?

The years are written by the store itself, as a daemon would have left them: a row of every job, what
each hour had cost, and of the last weeks entries, descriptions and run folders. Then the commands are
run as people run them, each as a whole process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.lines import Line
from dovetail.api.wire import plain
from dovetail.core import snapshot
from dovetail.core.entries import (
    Finished,
    JournalEntry,
    NodeJoined,
    Start,
    Started,
    Submitted,
)
from dovetail.core.journal import encode
from dovetail.core.model import Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.daemon.history.job_rows import row_of
from dovetail.models.cost import Costs
from dovetail.results.charges import Charges
from dovetail.store import EndedJob, Store
from dovetail.store.sqlite_tables import connect, create, put_meta

DAY_S, HOUR_S = 86400.0, 3600.0
YEARS, PER_DAY = 10, 1000
LIMIT_S = 1.0
_ENTRIES_FOR, _FOLDERS_FOR = 35, 31  # of the last days
_FILES = ("log", "reports.jsonl", "run", "1/launch.json", "1/keeper.json", "1/lock", "1/exit.json")
_FILLED_IN = ("id", "name", "user", "ended_at", "submitted_at", "started_at")
_MARKS = ("<id>", "<name>", "<user>", "<ended>", "<submitted>", "<started>")
_COSTS = "price = 0.25\n[watts]\ncpu = [100, 150]\n"


def measured() -> Iterator[Line]:
    """Ten years of 1,000 jobs a day: whole commands, in seconds."""
    with tempfile.TemporaryDirectory(prefix="dovetail-years-") as folder:
        home = Path(folder) / "home"
        began = time.monotonic()
        jobs = write_years(home, round(YEARS * 365), PER_DAY)
        size = (home / "dovetail.db").stat().st_size / 1e9
        yield Line(
            f"writing {jobs:,} ended jobs",
            f"{time.monotonic() - began:.0f} s",
            f"{size:.2f} GB",
            True,
        )
        (home / "costs.toml").write_text(_COSTS)
        yield _first_start(Path(folder) / "empty")
        up = ("up", "--slots", "2", "--costs", str(home / "costs.toml"))
        try:
            for words in (
                *(up, ("queue",), ("history",), ("history", "--since", "30d", "--limit", "1000")),
                *(("history", "--name", "job-77"), ("costs",), ("costs", "--since", "1000d")),
            ):
                yield _timed(home, *words)
            yield _cleaned(home)
            yield _timed(home, "queue")
        finally:
            _run(home, "down")


def _first_start(home: Path) -> Line:
    """What a start takes on this machine when there is nothing to take up."""
    took = []
    for _ in range(3):
        took.append(_run(home, "up", "--slots", "2"))
        _run(home, "down")
    return Line("dovetail up, on an empty home", f"{min(took):.2f} s", "to compare", True)


def _timed(home: Path, *words: str) -> Line:
    took = []
    for _ in range(3):
        took.append(_run(home, *words))
        if words[0] == "up" and len(took) < 3:
            _run(home, "down")
    told = " ".join(word for word in words if "/" not in word)
    best = min(took)
    return Line(f"dovetail {told}", f"{best:.2f} s", f"under {LIMIT_S:g} s", best < LIMIT_S)


def _run(home: Path, *words: str) -> float:
    command = [str(Path(sys.executable).parent / "dovetail"), "--home", str(home), *words]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def _cleaned(home: Path) -> Line:
    """What is older than a month goes by itself, some two minutes after the start."""
    until = time.monotonic() + 240
    while time.monotonic() < until and len(list(home.glob("archive/*.gz"))) < 2:
        time.sleep(1)
    archives = len(list(home.glob("archive/*.gz")))
    folders = sum(1 for _ in (home / "runs").iterdir())
    return Line(
        "old entries and folders", f"{archives} archives, {folders:,} left", "gone", archives > 1
    )


# ------------------------------------------------------------------------------------- the years


def write_years(home: Path, days: int, per_day: int) -> int:
    """How many jobs have ended."""
    home.mkdir(parents=True)
    epoch = time.time() - days * DAY_S
    create(home / "dovetail.db", epoch)
    row, recent = _row(), max(days - _ENTRIES_FOR, 0)
    _write_old_days(home / "dovetail.db", row, recent, per_day, epoch)
    number, state = recent * per_day, State(0)
    with closing(Store.open(home / "dovetail.db")) as store:
        _add(store, state, NodeJoined(0.0, Node("here", 2, "cpu")))
        for day in range(recent, days):
            for i in range(per_day):
                number += 1
                at = _end_of(day, i, per_day)
                _add_entries(store, state, number, at)
                if day >= days - _FOLDERS_FOR:
                    _add_folder(home, store, number)
                store.add_ended(_ended(row, number, store.last_seq, epoch + at))
            for key, value in _hours(day, number):
                store.set_meta(key, value)
            store.commit()
            if day >= days - 2:
                _save(store, state, number)
        store.set_meta("next_job", str(number + 1))
    return number


def _end_of(day: int, i: int, per_day: int) -> float:
    return (day + (i + 1) / per_day) * DAY_S - 60.0


def _write_old_days(path: Path, row: str, days: int, per_day: int, epoch: float) -> None:
    """All that is left of them: rows and what each hour had cost. Written in bulk."""
    with closing(connect(path)) as db:
        db.execute("PRAGMA synchronous=OFF")
        for first in range(0, days, 100):
            some = range(first, min(first + 100, days))
            db.execute("BEGIN")
            db.executemany(
                "INSERT INTO ended VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    _ended(
                        row, day * per_day + i + 1, 0, epoch + _end_of(day, i, per_day)
                    ).columns()
                    for day in some
                    for i in range(per_day)
                ),
            )
            for day in some:
                for key, value in _hours(day, (day + 1) * per_day):
                    put_meta(db, key, value)
            db.execute("COMMIT")


def _save(store: Store, state: State, jobs: int) -> None:
    """As a daemon does it, with what has been charged so far."""
    kept = json.loads(store.meta("charged") or "[]")
    kept.append({"seq": store.last_seq, "figures": _figures(jobs)})
    store.set_meta("charged", json.dumps(kept[-2:]))
    store.save_snapshot(store.last_seq, snapshot.take(state))


def _row() -> str:
    """Of a job that has finished, with everything that `history` shows; some of it to be filled in."""
    state = State()
    job = Job(JobId("1"), name="train", user="ada")
    placement = Placement((Slice(0, 1),))
    for entry in (
        *(NodeJoined(0.0, Node("here", 2)), Submitted(1.0, job), Start(job.id, placement)),
        *(Started(2.0, job.id), Finished(100.0, job.id)),
    ):
        track = state.tracks.get(job.id)
        state.record(entry)
    assert track is not None
    row = row_of(track, _Unix(), state.room.nodes)  # type: ignore[arg-type]
    text = json.dumps(plain(row) | dict(zip(_FILLED_IN, _MARKS, strict=True)))
    for mark in _MARKS[3:]:
        text = text.replace(f'"{mark}"', mark)  # numbers
    return text


class _Unix:
    def unix(self, at: float) -> float:
        return at

    def __call__(self) -> float:
        return 0.0


def _ended(row: str, number: int, seq: int, at: float) -> EndedJob:
    name, user = f"job-{number % 1000}", f"user-{number % 20}"
    own = (str(number), name, user, repr(at), repr(at - 1000.0), repr(at - 900.0))
    for mark, value in zip(_MARKS, own, strict=True):
        row = row.replace(mark, value)
    return EndedJob(str(number), seq, at, user, name, row)


def _add_entries(store: Store, state: State, number: int, at: float) -> None:
    job = Job(JobId(str(number)), name=f"job-{number % 1000}", user=f"user-{number % 20}")
    for entry in (
        *(Submitted(at - 30.0, job), Start(job.id, Placement((Slice(0, 1),)))),
        *(Started(at - 20.0, job.id), Finished(at, job.id)),
    ):
        _add(store, state, entry)


def _add(store: Store, state: State, entry: JournalEntry) -> None:
    state.record(entry)
    store.add(encode(entry, state.now).strip())


def _add_folder(home: Path, store: Store, number: int) -> None:
    store.put_spec(str(number), json.dumps({"spec": {"run": "true"}, "workdir": "/", "uid": 0}))
    folder = home / "runs" / str(number)
    (folder / "1").mkdir(parents=True)
    for name in _FILES:
        (folder / name).write_text("{}")


def _hours(day: int, jobs: int) -> Iterator[tuple[str, str]]:
    for hour in range(24 * day, 24 * day + 24):
        yield f"mark {hour:010d}", json.dumps([hour * HOUR_S, _figures(jobs)])


def _figures(jobs: int) -> dict[str, float]:
    return dict.fromkeys(Charges(Costs()).figures(), float(jobs))
