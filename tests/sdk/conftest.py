"""A small Dovetail for training scripts: the folder and the variables that a job gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Desk:
    """Where one job runs, and what it has reported so far."""

    folder: Path

    @property
    def reports(self) -> Path:
        return self.folder / "reports.jsonl"

    @property
    def stop(self) -> Path:
        return self.folder / "stop"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DOVETAIL_REPORT": str(self.reports),
            "DOVETAIL_STOP": str(self.stop),
            "DOVETAIL_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
        }

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Python with these words, as a job; further variables by name."""
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0, **more: str) -> tuple[str, str]:
        """What it printed on stdout and stderr, once it has ended with this code."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (process.returncode, out, err)
        return out, err

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.reports.read_text().splitlines()]

    def reported(self) -> list[dict[str, Any]]:
        """The lines that are reports, not words between the SDK and Dovetail."""
        return [line for line in self.lines() if "dovetail" not in line]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
