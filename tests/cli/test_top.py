"""`dovetail top` in a real terminal, and what it draws."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from dovetail.api.forecast_row import Expected, Span
from dovetail.api.job_row import JobRow, Jobs
from dovetail.api.machine_row import Gpu, NodeRow, Occupant
from dovetail.cli.daemon.top_keys import TopKeys, after, in_view, typed_keys
from dovetail.cli.daemon.top_screen import TopScene, frame
from dovetail.cli.reach import ListedJob
from dovetail.text.tables import columns_of
from job_samples import a_job
from typed_box import Box
from typed_terminal import Terminal


def test_top_draws_follows_the_size_and_leaves_the_terminal_as_it_was(box: Box) -> None:
    running = box.sh("echo '{\"step\": 3}' >> $DOVETAIL_REPORT; sleep 60", "--name", "at-work")
    box.sh("sleep 60", "--gpus", 2, "--name", "in-the-queue")
    box.until(running, lambda row: row["last_report"])
    terminal = Terminal(box.command("top"))
    terminal.until("at-work")
    terminal.until("step 3")
    terminal.until("in-the-queue")
    terminal.seen = b""
    terminal.resize(10, 40)
    terminal.until("\x1b[H")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.is_sane
    box.well("cancel", "--mine")


def test_keys_choose_filter_sort_look_at_pause_and_cancel_a_job(box: Box) -> None:
    works = box.sh("echo first; echo '\x1b[2Jsaid'; sleep 600", "--name", "works", "--gpus", 2)
    waits = box.sh("sleep 600", "--name", "waits-first", "--gpus", 2)
    more = box.sh("sleep 600", "--name", "waits-second", "--gpus", 1)
    box.in_phase(works, "running")
    terminal = Terminal(box.command("top", "--interval", 0.2), columns=120)
    terminal.until("waits-second")
    terminal.type("l")
    terminal.until(f"job {works}: log")
    terminal.until("?[2Jsaid")
    terminal.type("\x1b")
    terminal.until("filter  s sort")
    terminal.type("/SECOND\r")
    terminal.until("filter: SECOND")
    terminal.type("w")
    terminal.until(f"job {more}: why")
    terminal.type("qc")
    terminal.until(f"cancel job {more}? y/n")
    terminal.type("n")
    terminal.until("left as it is")
    terminal.type("cy")
    terminal.until(f"cancelled job {more}")
    box.in_phase(more, "cancelled")
    terminal.type("\x1b")
    terminal.seen = b""
    terminal.until("1 running, 1 waiting")
    terminal.until("\x1b[J")
    terminal.type("\x1b[F")  # the last one
    terminal.type("p")
    terminal.until(f"paused job {waits}")
    box.until(waits, lambda row: "paused" in row["reason"])
    time.sleep(0.5)
    terminal.type("p")
    terminal.until(f"resumed job {waits}")
    terminal.type("s")
    terminal.until("sorted: longest")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.is_sane
    box.well("cancel", "--mine")


def test_keys_are_read_whatever_is_typed() -> None:
    keys = TopKeys()
    rows = [ListedJob(_row(number, user="ada")) for number in range(3)]
    for data in (b"\xff\xfe\x00\x1b[99;99~", b"\x1b[B\x1b[B\x1b[B", b"/\x7f\x7f\xc3\xa9\r", b"cn"):
        for key in typed_keys(data):
            keys = after(keys, key, in_view(rows, keys))
    assert (keys.filter, keys.types, keys.quits, keys.wish) == ("é", False, False, "")
    assert after(TopKeys(), "c", []).asks == ""
    drawn = frame(TopScene(rows=rows), 80, 24, 0.0, TopKeys(chosen="1"))
    assert sum("\x1b[7m" in line for line in drawn) == 1


def test_interrupting_top_leaves_the_terminal_as_it_was(box: Box) -> None:
    for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)):
        terminal = Terminal(box.command("top"))
        terminal.until("q quits")
        os.kill(terminal.pid, number)
        assert terminal.end() == code
        assert terminal.is_sane


def test_top_without_a_daemon_does_not_touch_the_terminal(tmp_path: Any) -> None:
    terminal = Terminal(Box(tmp_path).command("top"))
    terminal.until("start one: dovetail --home")
    _, status = os.waitpid(terminal.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 69
    assert b"\x1b[?1049h" not in terminal.seen
    os.close(terminal.fd)


def _row(number: int, **more: Any) -> JobRow:
    said = {"name": "名前-\x1b[31m" * 9, "reason": "because " * 9}
    return a_job(id=str(number), **{**said, **more})


def _visible(line: str) -> str:
    for code in ("0", "1", "2", "31", "32", "33", "36"):
        line = line.replace(f"\x1b[{code}m", "")
    return line


def test_a_frame_fits_any_terminal_and_jobs_cannot_steer_it() -> None:
    own = Occupant(job="1", name="x" * 99, user="ada", share=0.5)
    gpus = [
        Gpu(index=i, uuid=None, jobs=[own, own] if i % 2 else [], strangers=i == 2)
        for i in range(16)
    ]
    node = NodeRow(
        id="box", kind="H100", gpus=gpus, free=3, up=True, open=True, gpu_memory_gb=80.0,
        gpu_watts=700.0, cpus=None, memory_gb=None,
    )  # fmt: skip
    report = {"at": 0.0, "step": 1e9, "metrics": {"loss\x1b[2J": 0.5, "other": "NaN"}}
    placed = [{"node": 0, "gpus": [1]}]
    running = _row(1, phase="running", run_s=5.0, placement=placed, last_report=report)
    end = time.time() + 60
    rows = [ListedJob(running, Expected(None, Span(end, end, None)))]
    rows += [ListedJob(_row(number)) for number in range(2, 99)]
    found = Jobs(jobs=[], running=1, waiting=5000, policy="srtf", trouble="", total=5001, notices=0)
    for columns, lines in ((200, 60), (100, 30), (80, 24), (40, 10), (20, 5), (5, 2)):
        drawn = frame(TopScene(found, [node], rows, away="gone"), columns, lines, time.time())
        assert len(drawn) <= lines
        for line in drawn:
            shown = _visible(line)
            assert "\x1b" not in shown
            assert columns < 40 or columns_of(shown) <= columns, shown
