"""Metrics in what a job prints: whatever a regular expression of its user finds; of a trial lines of
JSON, and lines for people that name its study's metric.

A place in the output is counted from its first byte ever, over all launches of the job and over
files that were rotated away since, so it means the same to whoever takes over after a crash.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from dovetail.worlds.local.keeper import pages
from dovetail.worlds.local.watching import matcher
from dovetail.worlds.printed import (
    Sought,
    counts_batches,
    step_in,
    value_in,
    without_colours,
)
from dovetail.worlds.shortage import is_short

LONGEST_LINE = 4096  # of a longer line only the end is looked at
_ANSWER_WITHIN_S = 5.0  # a batch; the matcher's own alarm rings far earlier
_NOT_A_NUMBER = ("NaN", "nan", "inf", "-inf", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class Found:
    """The metrics of one line. `upto` is where the next line begins."""

    step: float | None
    metrics: dict[str, float | str]
    upto: int


# -------------------------------------------------------------------------------- reading the log


def read(log: Path, upto: int, most: int) -> tuple[int, bytes]:
    """The output from there on, and the byte at which it really begins: later, if the oldest is gone."""
    for _ in range(3):  # between two looks the keeper may have turned a page
        begins = pages.bytes_before(str(log))
        found = _looked_up(log, begins, upto, most)
        if log.exists() and pages.bytes_before(str(log)) == begins:
            return found
    return upto, b""


def _looked_up(log: Path, begins: int, upto: int, most: int) -> tuple[int, bytes]:
    """In the newest page, which begins there, the one before it, or the first of all."""
    if upto >= begins:
        with closing(_Opened(log)) as page:
            return upto, page.read(upto - begins, most)
    with closing(_Opened(_beside(log, pages.HEAD))) as page:
        if upto < page.size:
            return upto, page.read(upto, most)
    with closing(_Opened(_beside(log, pages.OLDER))) as page:
        first = begins - page.size
        skip = max(upto - first, 0)
        return first + skip, page.read(skip, most)


def end_of(log: Path) -> int:
    """How much was printed so far, also of what is gone."""
    for _ in range(3):
        begins = pages.bytes_before(str(log))
        with closing(_Opened(log)) as page:
            size = page.size
        if pages.bytes_before(str(log)) == begins:
            break
    return begins + size


def stamp(log: Path) -> tuple[int, int] | None:
    """Changes whenever there is something new in it."""
    try:
        found = os.stat(log, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ino, found.st_size


def _beside(log: Path, suffix: str) -> Path:
    return log.with_name(log.name + suffix)


class _Opened:
    """A file, or nothing at all where there is none. Never a link, nor anything one could wait for:
    the folder may be the job's own."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self.size = 0
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if is_short(error):
                raise
            return
        found = os.fstat(self._fd)
        self.size = found.st_size if stat.S_ISREG(found.st_mode) else 0

    def read(self, skip: int, most: int) -> bytes:
        return os.pread(self._fd, most, skip) if skip < self.size else b""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def whole_lines(data: bytes, start: int, is_all: bool) -> tuple[list[tuple[str, int]], int]:
    """Each line with the place where the next one begins; and the place from where to read on.

    The last one may be half a line: it counts only if there is no more to come.
    """
    found = []
    begins = 0
    while (end := data.find(b"\n", begins)) >= 0:
        found.append((_as_shown(data[begins:end]), start + end + 1))
        begins = end + 1
    if is_all and begins < len(data):
        found.append((_as_shown(data[begins:]), start + len(data)))
        begins = len(data)
    return found, start + begins


def drawn_lines(data: bytes, start: int, is_all: bool) -> tuple[list[tuple[str, int]], int]:
    """The same, and every state of a progress bar; what it was redrawn over ends with `\\r`."""
    found: list[tuple[str, int]] = []
    begins = 0
    for match in _LINE_END.finditer(data):
        line, mark = data[begins : match.start()], "\r" if match[0] == b"\r" else ""
        if line or (not mark and found and found[-1][0].endswith("\r")):
            shown = line[-LONGEST_LINE:].decode(errors="replace")
            found.append((shown + mark, start + match.end()))
        begins = match.end()
    if is_all and begins < len(data):
        found.append((data[begins:][-LONGEST_LINE:].decode(errors="replace"), start + len(data)))
        begins = len(data)
    return found, start + begins


_LINE_END = re.compile(rb"\r?\n|\r(?=[^\n])")  # whether the last `\r` ends a line is not known yet


def _as_shown(line: bytes) -> str:
    """As a terminal would show it in the end: progress bars overwrite themselves."""
    line = line[-LONGEST_LINE:].rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :].decode(errors="replace")


# --------------------------------------------------------------------------- what the lines tell


def from_json(lines: Sequence[tuple[str, int]]) -> list[Found]:
    """Lines that are an object of numbers and nothing else, `{"step": 3, "loss": 0.5}`; lines of
    a log in JSON hold texts, too, and are not meant."""
    found = (_from_json(line, upto) for line, upto in lines if line.lstrip()[:1] == "{")
    return [one for one in found if one is not None]


class MetricReader:
    """Looks for a study's metric in all that one launch of a trial prints."""

    def __init__(self, sought: Sought) -> None:
        self._sought: Final = sought
        self._drawn: float | None = None  # by the progress bar that is being redrawn

    def found(self, lines: Sequence[tuple[str, int]]) -> list[Found]:
        found = (self._heard(without_colours(line), upto) for line, upto in lines)
        return [one for one in found if one is not None]

    def _heard(self, line: str, upto: int) -> Found | None:
        """An object of numbers is heard whatever it tells; a bar only when its value has changed."""
        metric, steps, _ = self._sought
        value = value_in(line, metric)
        if line.endswith("\r") and value is not None and step_in(line, steps) is None:
            # Of an epoch that is not over: only what the bar says in the end counts.
            value = None if counts_batches(line, steps) else value
        is_news = value is not None and str(value) != str(self._drawn)
        if line.endswith("\r"):
            self._drawn = self._drawn if value is None else value
        else:
            self._drawn = None
        told = _from_json(line, upto) if line.lstrip()[:1] == "{" else None
        if value is not None and is_news and (told is None or metric not in told.metrics):
            told = _found({metric: value, **(told.metrics if told else {})}, upto)
        if told is None or told.step is not None:
            return told
        return Found(step_in(line, steps), told.metrics, upto)


def _from_json(line: str, upto: int) -> Found | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not all(map(_is_number, said.values())):
        return None
    return _found({str(name): value for name, value in said.items()}, upto)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value in _NOT_A_NUMBER
    return isinstance(value, int | float) and not isinstance(value, bool)


def from_groups(groups: Sequence[dict[str, str]], lines: Sequence[tuple[str, int]]) -> list[Found]:
    """The numbers in the groups of the expression."""
    found = [_found(texts, upto) for texts, (_, upto) in zip(groups, lines, strict=True) if texts]
    return [one for one in found if one is not None]


def _found(values: dict[str, Any], upto: int) -> Found | None:
    numbers = {
        name: number for name, value in values.items() if (number := _number(value)) is not None
    }
    step = numbers.pop("step", None)
    if step is not None and not isfinite(step):
        step = None
    told = {
        name[:200]: number if isfinite(number) else str(number)
        for name, number in list(numbers.items())[:_MOST_METRICS]
        if name.isprintable()
    }
    return Found(_plain(step), told, upto) if told else None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and len(value) > matcher.MOST_VALUE_CHARACTERS:
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _plain(step: float | None) -> float | None:
    """3 rather than 3.0; beyond 2**53 counting by one is lost in rounding."""
    if step is None or abs(step) > 2.0**53:
        return None
    return int(step) if step.is_integer() else step


_MOST_METRICS: Final = 100


# ------------------------------------------------------------------------------------ the matcher


class Matcher:
    """The process that knows regular expressions; made when first needed. Any thread may ask."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def groups(self, pattern: str, lines: Sequence[str]) -> list[dict[str, str]] | str:
        """The values of the named groups in each line; or in words why they cannot be told."""
        with self._lock:
            answer = self._ask(json.dumps({"pattern": pattern, "lines": lines}))
        if answer is None:
            return "it took too long, or too much memory"
        told: list[dict[str, str]] | str = answer.get("found") or answer.get("trouble", [])
        return told

    def stop(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, request: str) -> dict[str, Any] | None:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        guard = threading.Timer(_ANSWER_WITHIN_S, process.kill)
        guard.start()
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self._end()
            return None
        finally:
            guard.cancel()
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(matcher.__file__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                encoding="utf-8",
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what it did not take any more
                        pipe.close()
