"""Two users of one machine: root, who runs the tests, and nobody. Real sockets, real credentials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
_CALL = """
import http.client, os, socket, sys
path, method, page, body, *groups = sys.argv[1:]
os.setgroups([int(own) for own in groups])
os.setgid(65534)
os.setuid(65534)
connection = http.client.HTTPConnection("dovetail", timeout=120)
connection.sock = socket.socket(socket.AF_UNIX)
try:
    connection.sock.connect(path)
    connection.request(method, page, body or None, {"content-type": "application/json"})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except OSError as error:
    print(type(error).__name__)
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


def call_as_nobody(
    path: Path, page: str, method: str = "GET", body: str = "", groups: Sequence[int] = ()
) -> str:
    """What another user of this machine gets: a status and an answer, or the error of the system."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CALL, str(path), method, page, body, *map(str, groups)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def as_nobody(
    path: Path, method: str, page: str, body: Any = None, groups: Sequence[int] = ()
) -> tuple[int, Any]:
    """The same, with JSON on both sides."""
    text = "" if body is None else json.dumps(body)
    status, _, answer = call_as_nobody(path, page, method, text, groups).partition(" ")
    return int(status), json.loads(answer)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody can look into; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="dovetail-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


_CALLS = """
import http.client, json, os, socket, sys, time
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
def call(method, page, body):
    connection = http.client.HTTPConnection("dovetail", timeout=120)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(sys.argv[1])
    text = None if body is None else json.dumps(body)
    connection.request(method, page, text, {"content-type": "application/json"})
    answer = connection.getresponse()
    if "event-stream" not in answer.getheader("content-type", ""):
        return answer.status, answer.read().decode()
    said, until = b"", time.monotonic() + 1.0
    connection.sock and connection.sock.settimeout(1.0)
    try:
        while time.monotonic() < until:
            said += answer.read1(1 << 20)
    except OSError:
        pass
    return answer.status, said.decode()
print(json.dumps([call(*one) for one in json.load(sys.stdin)]))
"""


def calls_as_nobody(path: Path, calls: list[tuple[str, str, Any]]) -> list[tuple[int, str]]:
    """The status and the answer of each; of a stream what comes within a second."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CALLS, str(path)],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(status, answer) for status, answer in json.loads(done.stdout)]
