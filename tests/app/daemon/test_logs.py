from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from dovetail.app.daemon import logs
from dovetail.backends.local.keeper import Log


def collected(log: Path, is_over: threading.Event, tail: int | None = None) -> bytes:
    async def collect() -> bytes:
        return b"".join([chunk async for chunk in logs.follow(log, tail, is_over.is_set)])

    return asyncio.run(collect())


@pytest.mark.parametrize("pause_s", [0.0, 0.002])
def test_a_log_is_followed_through_its_rotations(tmp_path: Path, pause_s: float) -> None:
    """The reader keeps up, so nothing is missing and nothing comes twice."""
    path, over = tmp_path / "log", threading.Event()
    lines = [b"line %d\n" % number for number in range(300 if pause_s else 30)]

    def write() -> None:
        log = Log(str(path), 2000)
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
    log = Log(str(path), 2000)
    written = b"".join(b"line %d\n" % number for number in range(500))
    log.write(written)
    log.close()
    over.set()
    found = collected(path, over)
    assert 1000 < len(found) <= 2000
    assert written.endswith(found)
    assert b"".join(logs.whole(path, None)) == found


@pytest.mark.parametrize("tail", [0, 1, 10, 999, 1000, 1001, 1500, 1990, 5000])
def test_a_tail_spans_both_files(tmp_path: Path, tail: int) -> None:
    path = tmp_path / "log"
    path.with_name("log.1").write_bytes(b"a" * 1000)
    path.write_bytes(b"b" * 990)
    whole = b"a" * 1000 + b"b" * 990
    assert b"".join(logs.whole(path, tail)) == whole[len(whole) - min(tail, len(whole)) :]


def test_a_log_that_grows_faster_than_it_is_read_comes_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000)
    read = 0
    for chunk in logs.whole(path, None):
        read += len(chunk)
        with open(path, "ab") as file:
            file.write(b"y" * 200_000)
    assert read < 300_000


def test_the_last_line_keeps_letters_of_any_script_but_nothing_that_steers(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\nRuntimeError: bööm \x1b[31m日本\n\n")
    assert logs.last_line(tmp_path / "log") == "RuntimeError: bööm ?[31m日本"


def test_a_link_in_place_of_a_log_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    assert list(logs.whole(tmp_path / "log", None)) == []


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(logs.whole(tmp_path / "log", 10)) == []
