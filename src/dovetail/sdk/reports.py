"""Reports go to the file `$DOVETAIL_REPORT`, each one line of JSON, appended by a single write.

The kernel does not mix such writes, so ranks, threads and forked children may share the file
without a lock. A disk that is full or gone must never end a training run: it is told once on
stderr, and training goes on without reports. Anyone may write such lines: `{"step": 12, "loss": 0.5}`.
Ours are written out by hand: importing `json` takes longer than all of `dovetail.sdk`.
"""

from __future__ import annotations

import os
import sys
from math import isfinite, isnan

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this


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


if TYPE_CHECKING:
    from collections.abc import Mapping

COOPERATIVE = b'{"dovetail": {"cooperative": true}}\n'
RESERVED = "dovetail"
EXACT = 2**53  # whole numbers up to here are the same as floats and as integers


def report_line(step: object, metrics: Mapping[str, object]) -> bytes:
    """The line for one report; TypeError or ValueError if it is not made of numbers."""
    fields = [f"{_name(name)}: {_metric(name, value)}" for name, value in metrics.items()]
    if step is not None:
        fields.insert(0, f'"step": {_step(step)}')
    if not fields:
        raise TypeError("report() needs a step or a metric, such as report(12, loss=0.5)")
    return f"{{{', '.join(fields)}}}\n".encode()


def _name(name: str) -> str:
    if name == RESERVED:
        raise ValueError(f"a metric cannot be named {RESERVED!r}: Dovetail uses that name itself")
    if name.isascii() and name.isidentifier():
        return f'"{name}"'
    import json

    return json.dumps(name)


def _metric(name: str, value: object) -> str:
    number = value if type(value) is float else _number(f"metric {name!r}", value)
    if isfinite(number):
        return repr(number)
    # JSON has no word for these, so they are texts, spelled as Python and C read them.
    return '"NaN"' if isnan(number) else '"inf"' if number > 0 else '"-inf"'


def _step(step: object) -> str:
    if type(step) is int and -EXACT <= step <= EXACT:
        return repr(step)
    number = _number("step", step)
    if not isfinite(number):
        raise ValueError(f"step must be a finite number, not {number}")
    return repr(int(number)) if abs(number) <= EXACT and number.is_integer() else repr(number)


def _number(what: str, value: object) -> float:
    """Any number as a float: also a NumPy or PyTorch scalar, but not the text of a number."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number, not {_kind(value)}")
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except OverflowError:
        raise ValueError(f"{what} is too large: at most about 1.8e308") from None
    except Exception as problem:  # what a framework raises for a tensor of many numbers is its own
        raise TypeError(f"{what} must be one number, not {_kind(value)} ({problem})") from None


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
