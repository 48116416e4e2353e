"""The journal is cut, zeroed, altered, or parts of it are removed, at random places: every start
succeeds or is refused in one line, and every job that is missing then is named.

`make storm` is the long form: five hundred cuts.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from daemon_process import DaemonProcess, in_memory, killable_daemon
from dovetail.core.errors import DovetailError
from live_box import Box

CUTS = int(os.environ.get("DOVETAIL_STORM_CUTS", "30"))
DB, LOG, INDEX, TAIL = "dovetail.db", "dovetail.db-wal", "dovetail.db-shm", "dovetail.db.tail"


@dataclass(frozen=True)
class Left:
    """What a killed daemon has left: its folder, a log of before, and the jobs it had answered for."""

    home: Path
    log_of_before: bytes
    ids: tuple[str, ...]


@pytest.fixture(scope="module")
def left() -> Iterator[Left]:
    with in_memory() as folder, killable_daemon(folder / "home") as daemon:
        daemon.start()
        ids = [daemon.submit("exit 0", name=f"early-{i}") for i in range(4)]
        for job_id in ids:
            daemon.wait_for(job_id, "finished")
        daemon.stop()  # a snapshot, and all of it in the file
        daemon.start()
        late = _held_jobs(daemon, "one")
        before = (daemon.folder / LOG).read_bytes()
        late += _held_jobs(daemon, "two")
        daemon.kill()
        yield Left(daemon.folder, before, (*ids, *late))


def _held_jobs(daemon: DaemonProcess, name: str) -> list[str]:
    """They would end at once, if ever somebody let them run."""
    blocker = daemon.submit("sleep 1000", resources={"gpus": 2})
    ids = [daemon.submit("exit 0", name=f"{name}-{i}") for i in range(5)]
    daemon.ask("POST", "/v1/jobs/pause", {"ids": ids})
    daemon.ask("POST", "/v1/jobs/cancel", {"ids": [blocker, ids[0]]})
    return [blocker, *ids]


def test_a_journal_damaged_anywhere_starts_or_is_refused_in_one_line_and_names_what_is_missing(
    left: Left,
) -> None:
    outcomes: Counter[str] = Counter()
    with in_memory() as folder:
        for number in range(CUTS):
            home = folder / f"home-{number}"
            shutil.copytree(left.home, home, ignore=shutil.ignore_patterns("*.sock", "door"))
            chance = Random(number)
            harms = [_harm(home, left, chance) for _ in range(chance.choice((1, 1, 2, 3)))]
            outcomes[_start(home, left, f"{number}: {harms}")] += 1
            shutil.rmtree(home, ignore_errors=True)
            if number % 50 == 49:
                print(f"{number + 1} cuts: {dict(outcomes)}")
    print(f"{CUTS} cuts: {dict(outcomes)}")
    assert outcomes["all there"] >= CUTS // 3
    assert outcomes["refused"] <= CUTS // 10
    assert {*outcomes} <= {"all there", "some missing and named", "refused"}


def _start(home: Path, left: Left, harms: str) -> str:
    try:
        here = Box(home)
    except DovetailError as error:
        return "refused" if "\n" not in str(error) else f"refused at length: {error}"
    try:
        told = "\n".join(here.daemon.notices.all)
        known = {row.id for row in here.service.jobs().jobs}
        known |= {row.job_id for row in here.daemon.reader.history()}
    finally:
        here.close()
    missing = [job_id for job_id in left.ids if job_id not in known]
    assert not [own for own in missing if not _is_named(own, told)], (harms, missing, told)
    return f"{'some' if missing else 'all'} {'missing and named' if missing else 'there'}"


def _is_named(job_id: str, told: str) -> bool:
    words = told.replace("(", " ").replace(")", " ").replace(",", " ").replace(":", " ").split()
    return job_id in words


def _harm(home: Path, left: Left, chance: Random) -> str:
    path = home / chance.choice((DB, DB, LOG, LOG, LOG, TAIL))
    kinds = ["removed", "cut", "zeroed", "altered", "emptied"]
    if path.name == LOG:
        kinds += ["of before", "index removed"]
    kind = chance.choice(kinds)
    if path.exists():
        _do(kind, path, left, chance)
    return f"{path.name} {kind}"


def _do(kind: str, path: Path, left: Left, chance: Random) -> None:
    size = path.stat().st_size
    if kind == "removed":
        path.unlink()
    elif kind in ("cut", "emptied"):
        os.truncate(path, chance.randrange(size + 1) if kind == "cut" else 0)
    elif kind == "of before":
        path.write_bytes(left.log_of_before)
    elif kind == "index removed":
        (path.parent / INDEX).unlink(missing_ok=True)
    else:
        content = bytearray(path.read_bytes())
        start = chance.randrange(size or 1)
        length = 4096 if kind == "zeroed" else chance.randrange(1, 64)
        harm = bytes(length) if kind == "zeroed" else chance.randbytes(length)
        content[start : start + length] = harm[: max(size - start, 0)]
        path.write_bytes(content)
