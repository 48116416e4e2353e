"""`dovetail notebook`, with a server that starts and answers as Jupyter does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from typed_box import Box
from waiting import LONG_S, until

_SERVER = """#!/usr/bin/env python3
import http.server, sys
assert sys.argv[1:] == ["--no-browser", "--ip=127.0.0.1", "--some=option"], sys.argv
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("[I] Jupyter Server is running at:", flush=True)
print(f"[I] http://127.0.0.1:{server.server_port}/lab?token=0123456789abcdef", flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("bin")
    (folder / "jupyter-lab").write_text(_SERVER)
    (folder / "jupyter-lab").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("home"))
    box.well("up", "--slots", 1)
    yield box
    box.well("down", "--cancel")


def started(box: Box, path: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        box.command("notebook", *words, "--", "--some=option"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
    )


def running(box: Box) -> list[str]:
    return [row["id"] for row in box.json("queue")]


def test_the_link_is_printed_once_it_answers_and_ctrl_c_ends_it(
    box: Box, path: str, tmp_path: Path
) -> None:
    shown = started(box, path, tmp_path)
    assert shown.stdout is not None
    link = shown.stdout.readline().strip()
    assert link.endswith("/lab?token=0123456789abcdef")
    with urlopen(link.replace("/lab", "/"), timeout=LONG_S) as answer:
        assert answer.status == 200
    (job,) = running(box)
    assert box.json("show", job)["name"] == "notebook"
    shown.send_signal(signal.SIGINT)
    shown.communicate(timeout=LONG_S)
    box.in_phase(job, "cancelled")


def test_it_ends_when_the_command_is_gone_for_as_long_as_told(
    box: Box, path: str, tmp_path: Path
) -> None:
    shown = started(box, path, tmp_path, "--linger", "1s")
    assert shown.stdout is not None
    assert shown.stdout.readline().startswith("http")
    (job,) = running(box)
    shown.kill()
    shown.communicate(timeout=LONG_S)
    assert "terminal" in box.in_phase(job, "cancelled")["reason"]
    until(lambda: not running(box))


def test_without_jupyter_it_says_how_to_get_it(box: Box, tmp_path: Path) -> None:
    shown = started(box, "/usr/bin:/bin", tmp_path)
    _, said = shown.communicate(timeout=LONG_S)
    assert shown.returncode == 127
    assert "there is no Jupyter in the PATH of this job: pip install jupyterlab" in said
