"""The memory of a run with all its processes, wherever they went: they carry a mark."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

MARK = "DOVETAIL_BENCHMARK_RUN"  # in the environment of every process of a run
_LOOK_EVERY_S = 0.5


class Memory:
    """Looks twice a second while the run lasts; `peak_mb` is what its processes used at most, what
    they share counted once."""

    def __init__(self, mark: str) -> None:
        self.peak_mb = 0.0
        self._mark = f"{MARK}={mark}".encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            self.peak_mb = max(self.peak_mb, sum(map(_proportional_mb, self.processes())))

    def processes(self) -> set[int]:
        """Those with the mark, and their children: keepers have no environment of ours."""
        parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdigit()}
        marked = {pid for pid in parents if self._mark in _environment(pid)}
        return marked | {pid for pid, parent in parents.items() if parent in marked}


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _proportional_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
