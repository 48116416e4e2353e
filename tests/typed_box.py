"""A real daemon in a folder of its own, used as people do: by typing commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from waiting import until


class Said(NamedTuple):
    code: int
    out: str
    err: str


class Box:
    """Type `box("queue")`; `box.json("queue")` reads what it prints."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def command(self, *words: object) -> list[str]:
        typed = ["--home", str(self.home), *map(str, words)]
        return [sys.executable, "-m", "dovetail.cli.main", *typed]

    def __call__(self, *words: object, cwd: Path | None = None, **environment: str) -> Said:
        done = subprocess.run(
            self.command(*words),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def well(self, *words: object, **more: Any) -> str:
        said = self(*words, **more)
        assert said.code == 0, said
        return said.out

    def json(self, *words: object) -> Any:
        return json.loads(self.well(words[0], "--json", *words[1:]))

    def submit(self, *words: object, **more: Any) -> str:
        return self.well("submit", "-q", *words, **more).strip()

    def sh(self, script: str, *options: object) -> str:
        return self.submit(*options, "--", "sh", "-c", script)

    def until(self, job_id: str, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            row: dict[str, Any] = self.json("show", job_id)
            return row if true(row) else {}

        return until(look)

    def in_phase(self, job_id: str, phase: str) -> dict[str, Any]:
        return self.until(job_id, lambda row: row["phase"] == phase)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("home"))
    box.well("up", "--slots", 2, "--policy", "fifo-skip")
    yield box
    box.well("down", "--cancel")


@pytest.fixture
def make_box() -> Iterator[Callable[[Path], Box]]:
    """For tests that start the daemon themselves: none is left behind, even if they fail."""
    made: list[Box] = []

    def make(home: Path) -> Box:
        made.append(Box(home))
        return made[-1]

    yield make
    for box in made:
        box("down", "--cancel")
