"""Reports go to the file `$DOVETAIL_REPORT`, each appended by a single write.

The kernel does not mix such writes, so ranks, threads and forked children may share the file
without a lock. A disk that is full or gone must never end a training run: it is told once on
stderr, and training goes on without reports.
"""

from __future__ import annotations

import os
import sys

from dovetail.sdk.lines import COOPERATIVE, report_line


def report(step: float | None = None, **metrics: object) -> None:
    """Tell Dovetail how far the job is: `report(step, loss=loss, accuracy=accuracy)`.

    Metrics are numbers, also those of NumPy and PyTorch. NaN and the infinities are allowed and
    arrive as such. Raises TypeError or ValueError if something is not a number, in and outside
    Dovetail; never raises because of the disk.
    """
    line = report_line(step, metrics)
    if _channel.path:
        _channel.append(line)


def announce_cooperation() -> None:
    """Tell Dovetail, once, that this job saves its work itself when it is asked to stop."""
    if _channel.path and not _channel.announced:
        _channel.announced = True
        _channel.append(COOPERATIVE)


class ReportChannel:
    """The report file of this process, open from the first report on. A forked child may use it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.announced = False
        self._file: int | None = None
        self._torn = False
        self._warned = False

    def append(self, line: bytes) -> None:
        try:
            self._write(b"\n" + line if self._torn else line)
        except OSError as problem:
            self._file = None if problem.errno == _BAD_FILE else self._file
            self._warn(str(problem))

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # After half a line (the disk became full) the next one starts afresh, so only one is lost.
        self._torn = os.write(self._file, line) < len(line)
        if self._torn:
            self._warn("the disk took only part of a line")

    def _warn(self, problem: str) -> None:
        if self._warned:
            return
        self._warned = True
        try:
            if sys.stderr is not None:  # print() would take None for stdout
                print(f"{_NO_REPORTS}: {problem}", file=sys.stderr, flush=True)
        except (OSError, ValueError):  # stderr is closed, or on the same full disk
            pass


_NO_REPORTS = "dovetail: no reports, training goes on"
_BAD_FILE = 9  # EBADF: the script has closed all files, as daemons do; open ours again next time
_channel = ReportChannel(os.environ.get("DOVETAIL_REPORT", ""))
