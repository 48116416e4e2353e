"""`dovetail top` in a real terminal, and what it draws."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from dovetail.cli.top_screen import TopScene, frame
from dovetail.text.tables import columns_of
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


def _row(number: int, **more: Any) -> dict[str, Any]:
    row = {
        "id": str(number), "name": "名前-\x1b[31m" * 9, "user": "ada", "tenant": "", "group": "",
        "phase": "queued", "exit_code": None, "gpus": 1, "share": 1.0, "kinds": [], "priority": 0.0,
        "preemptions": 0, "attempts": 0, "submitted_at": 0.0, "started_at": None, "ended_at": None,
        "run_s": 0.0, "placement": [], "last_report": None, "reason": "because " * 9, "after": [],
        "time_limit_s": None, "deadline": None,
    }  # fmt: skip
    return {**row, **more}


def _visible(line: str) -> str:
    for code in ("0", "1", "2", "31", "32", "33", "36"):
        line = line.replace(f"\x1b[{code}m", "")
    return line


def test_a_frame_fits_any_terminal_and_jobs_cannot_steer_it() -> None:
    own = {"job": "1", "name": "x" * 99, "user": "ada", "share": 0.5}
    gpus = [
        {"index": i, "uuid": None, "jobs": [own, own] if i % 2 else [], "strangers": i == 2}
        for i in range(16)
    ]
    node = {"id": "box", "kind": "H100", "gpus": gpus, "free": 3, "up": True}
    report = {"at": 0.0, "step": 1e9, "metrics": {"loss\x1b[2J": 0.5, "other": "NaN"}}
    placed = [{"node": 0, "gpus": [1]}]
    running = _row(
        1, phase="running", run_s=5.0, placement=placed, last_report=report,
        expected_end={"expected": time.time() + 60, "low": None, "high": None},
    )  # fmt: skip
    rows = [running, *map(_row, range(2, 99))]
    found = {"running": 1, "waiting": 5000, "policy": "srtf", "trouble": "", "total": 5001}
    for columns, lines in ((200, 60), (100, 30), (80, 24), (40, 10), (20, 5), (5, 2)):
        drawn = frame(TopScene(found, [node], rows, away="gone"), columns, lines, time.time())
        assert len(drawn) <= lines
        for line in drawn:
            shown = _visible(line)
            assert "\x1b" not in shown
            assert columns < 40 or columns_of(shown) <= columns, shown
