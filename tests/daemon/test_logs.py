from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path

import pytest

from dovetail.daemon import logs
from dovetail.worlds.local.folders import LogFile
from dovetail.worlds.local.keeper.pages import LogPages


def collected(log: Path, is_over: threading.Event, tail: int | None = None) -> bytes:
    async def collect() -> bytes:
        return b"".join([chunk async for chunk in logs.follow(LogFile(log), tail, is_over.is_set)])

    return asyncio.run(collect())


@pytest.mark.parametrize("pause_s", [0.0, 0.002])
def test_a_log_is_followed_through_its_rotations(tmp_path: Path, pause_s: float) -> None:
    """The reader keeps up, so nothing is missing and nothing comes twice."""
    path, over = tmp_path / "log", threading.Event()
    lines = [b"line %d\n" % number for number in range(300 if pause_s else 30)]

    def write() -> None:
        log = LogPages(str(path), 2000)
        for line in lines:
            log.write(line)
            time.sleep(pause_s)
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    found = collected(path, over)
    writer.join()
    assert found == b"".join(lines)


def test_one_who_comes_late_gets_what_is_left_in_order(tmp_path: Path) -> None:
    path, over = tmp_path / "log", threading.Event()
    log = LogPages(str(path), 2000)
    written = b"".join(b"line %d\n" % number for number in range(500))
    log.write(written)
    log.close()
    over.set()
    found = collected(path, over)
    head, mark, rest = parted(found)
    assert (len(head), written.startswith(head), written.endswith(rest)) == (250, True, True)
    assert 875 < len(rest) <= 1750
    assert mark == len(written) - len(head) - len(rest)
    assert b"".join(logs.whole(LogFile(path), None)) == found


def parted(found: bytes) -> tuple[bytes, int, bytes]:
    """What is before the mark, how much it says is gone, and what is behind it."""
    match = re.search(rb"\n\[dovetail: ([\d,]+) bytes of output are gone here: [^]]+\]\n", found)
    assert match is not None
    return found[: match.start()], int(match[1].replace(b",", b"")), found[match.end() :]


@pytest.mark.parametrize("tail", [0, 1, 10, 249, 250, 251, 1000, 1001, 1500, 1990, 5000])
def test_a_tail_spans_all_files(tmp_path: Path, tail: int) -> None:
    path, whole = tmp_path / "log", bytes(range(199)) * 10
    log = LogPages(str(path), 2000)
    log.write(whole)
    assert sorted(own.name for own in tmp_path.iterdir() if own.name != "log.before") == [
        *("log", "log.1", "log.head")
    ]
    assert b"".join(logs.whole(LogFile(path), tail)) == whole[len(whole) - min(tail, len(whole)) :]


def test_a_reader_who_is_too_slow_is_told_what_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log, reading = LogPages(str(path), 2000), logs.Reading(LogFile(path), 0)
    log.write(b"a" * 200)
    assert reading.next() == (0, b"a" * 200)
    log.write(b"b" * 5000)
    assert reading.next() == (0, b"b" * 50)  # of the beginning, which is kept
    missing, chunk = reading.next()
    assert chunk == b"b" * 875
    assert 250 + missing + 875 <= 5200 <= 250 + missing + 1750
    assert reading.next()[0] == 0


def test_who_counts_is_told_where_the_rest_begins(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogPages(str(path), 2000)
    log.write(b"a" * 5000)

    async def collect(start: int) -> bytes:
        return b"".join(
            [chunk async for chunk in logs.unbroken(LogFile(path), start, lambda: True)]
        )

    assert (logs.first_after(LogFile(path), 0), asyncio.run(collect(0))) == (0, b"a" * 250)
    start = logs.first_after(LogFile(path), 250)
    assert start == 250 + 4 * 875
    assert len(asyncio.run(collect(start))) == 5000 - start
    assert (logs.first_after(LogFile(path), 5000), asyncio.run(collect(5000))) == (5000, b"")
    assert logs.first_after(LogFile(path), -10) == 4990


def test_a_log_that_grows_faster_than_it_is_read_comes_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000)
    read = 0
    for chunk in logs.whole(LogFile(path), None):
        read += len(chunk)
        with open(path, "ab") as file:
            file.write(b"y" * 200_000)
    assert read < 300_000


def test_the_last_line_keeps_letters_of_any_script_but_nothing_that_steers(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\nRuntimeError: bööm \x1b[31m日本\x07\n\n")
    assert logs.last_line(LogFile(tmp_path / "log")) == "RuntimeError: bööm 日本?"


def test_a_link_in_place_of_a_log_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    assert list(logs.whole(LogFile(tmp_path / "log"), None)) == []


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(logs.whole(LogFile(tmp_path / "log"), 10)) == []
