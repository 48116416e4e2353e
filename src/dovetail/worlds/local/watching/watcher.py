"""The eyes of the local world: ends of processes, reports of jobs, strangers on GPUs.

One thread that sleeps until a watched process ends; while jobs run it also looks at their report
files ten times a second, and at their output where that may hold reports. A job is heard in one of
the two: in its report file from the first report there on, else in its output. What the watcher
sees goes into the world's inbox; it decides nothing. When something goes wrong it says so and looks
again: as long as the daemon lives, somebody watches.
"""

from __future__ import annotations

import json
import logging
import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from time import monotonic, sleep
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.agent import JobTold, ProcessEnded, Run, Tells, ThinnedReport
from dovetail.worlds.local.watching import output
from dovetail.worlds.local.watching.output import Found, Matcher, MetricReader
from dovetail.worlds.local.watching.thinning import Thinner
from dovetail.worlds.shortage import at_once, is_short, patiently

_LOOK_EVERY_MS = 100
_LOOK_AT_TRIALS_EVERY_MS = 25  # a study decides after each step: meanwhile a trial runs on
_PROBE_EVERY_S = 5.0
_LOOK_AGAIN_S = 1.0  # after something went wrong
_SETTLES_IN_S = 1.0  # a job that has just started does not yet show what it is like
HELLO = b'"dovetail"'  # in a report: the SDK says what the job can do
_LINES_AT_ONCE = 500  # of one job: the others want to be heard too
_BYTES_AT_ONCE = 1 << 18
# What a job has left to read when it ends, of files that may have any length.
_ALL_WITHIN_S, _MUCH_WITHIN_S = 10.0, 1.0
_MUCH_BYTES = 1 << 24
_OUTPUT_WITHIN_S = 0.5  # a round, for the lines of one job
_LONGEST_LINE = 1 << 16
_MOST_METRICS = 100
_LARGEST_STEP = 2.0**53  # beyond, counting by one is lost in rounding

log = logging.getLogger("dovetail.local")


class _Watched:
    """A launch, and how far its job was heard. `upto` is as in Reported."""

    def __init__(self, run: Run, tells: Tells, upto: int, step: float) -> None:
        self.run: Final = run
        self.tells: Final = tells
        self.reported = max(upto, 0)  # how far its report file is read
        self.printed = max(-upto, 0)  # and its output
        self.step = step  # its last one
        self.log_as_read: tuple[int, int] | None = None
        self.thinner: Final = Thinner()
        self.reader: Final = (
            MetricReader(tells.sought) if tells.sought and not tells.pattern else None
        )
        # Both are read until one of them holds the first report; but what is printed for people may
        # be printed by who then reports in earnest.
        self.reads_reports = (upto >= 0 or self.reader is not None) and not tells.pattern
        self.reads_output = upto <= 0 and tells.log is not None
        self.first_printed: list[ThinnedReport] = []  # not told yet: perhaps it reports in earnest
        self.has_printed = upto < 0
        self.tell_printed_at = 0.0  # monotonic

    @property
    def must_be_looked_at(self) -> bool:
        return self.reads_output or self.thinner.is_thinning

    def skip_to_the_end(self) -> None:
        """Skip all but as much as one read takes."""
        if self.reads_reports:
            with suppress(OSError):
                size = os.stat(self.tells.reports).st_size
                self.reported = max(self.reported, size - _BYTES_AT_ONCE)
        if self.reads_output and self.tells.log is not None:
            self.printed = max(self.printed, output.end_of(self.tells.log) - _BYTES_AT_ONCE)


class Watcher:
    """Call `watch` when a job's processes are up; `forget` is implied by their end."""

    def __init__(
        self,
        post: Callable[[object], None],
        probe: Callable[[], None],
        restless: bool = False,
        reports_lag_s: float = 0.0,
    ) -> None:
        """`reports_lag_s`: reports are brought by somebody, who says so (`look_at`), and by so much
        they may come later than what was printed after them. Then nobody is looked at in vain, and
        what is printed for people, and rounded, does not win by coming first."""
        self._reports_lag_s: Final = reports_lag_s
        self._post: Final = post
        self._new: set[JobId] = set()  # who was looked at for the last time before that
        self._with_log: set[JobId] = set()  # whose output is looked at, too
        self._probe: Final = probe  # called now and then while jobs run, or always
        self._restless: Final = restless
        self._lock: Final = threading.Lock()
        self._watched: dict[JobId, _Watched] = {}
        self._poll: Final = select.poll()
        self._by_fd: dict[int, JobId] = {}
        self._unseen: set[JobId] = (
            set()
        )  # watched, without a descriptor that would tell of their end
        self._bell, self._ring = os.pipe()
        self._poll.register(self._bell, select.POLLIN)
        self._probe_at = 0.0
        self._over = False
        self.trouble = ""  # what last went wrong, as long as it does
        self._matcher: Final = Matcher()
        self._thread: Final = threading.Thread(target=self._keep_on, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over = True
        os.write(self._ring, b".")
        self._thread.join(5.0)
        self._matcher.stop()

    def watch(self, job_id: JobId, run: Run, tells: Tells, upto: int, step: float) -> None:
        """From now on, until its processes end. A run that has ended already is told at once."""
        watched = _Watched(run, tells, upto, step)
        if not self._see_to(job_id, watched):
            self._finish(job_id, watched)
            return
        self._probe_at = monotonic() + _SETTLES_IN_S
        os.write(self._ring, b".")

    def _see_to(self, job_id: JobId, watched: _Watched) -> bool:
        """False: its processes have ended. That they cannot be looked at says nothing."""
        try:
            pidfd: int | None = watched.run.pidfd()
        except ProcessLookupError:
            return False
        except OSError as error:
            log.warning("job %s is looked at now and then: %s", job_id, error)
            pidfd = None
        with self._lock:
            self._watched[job_id] = watched
            self._new.add(job_id)
            if watched.tells.log is not None:
                self._with_log.add(job_id)
            if pidfd is None:
                self._unseen.add(job_id)
            else:
                self._unseen.discard(job_id)
                self._by_fd[pidfd] = job_id
                self._poll.register(pidfd, select.POLLIN)
        return True

    def look_at(self, job_id: JobId) -> None:
        """It has reported something. From any thread."""
        self._look_next_at(job_id)
        os.write(self._ring, b".")

    def _look_next_at(self, job_id: JobId) -> None:
        with self._lock:
            self._new.add(job_id)

    def _read_on(self, job_id: JobId, watched: _Watched) -> None:
        if self._read(job_id, watched) or watched.must_be_looked_at:
            self._look_next_at(job_id)

    def read_now(self) -> None:
        """Post all that was reported so far. Before `start`."""
        for job_id, watched in self._watched.items():
            self._read_all(job_id, watched)

    def _keep_on(self) -> None:
        while not self._over:
            stumbled = [error for part in self._parts() if (error := _error_of(part))]
            self.trouble = f"{type(stumbled[0]).__name__}: {stumbled[0]}" if stumbled else ""
            for error in stumbled:
                log.error("the watcher stumbled and looks again", exc_info=error)
            if stumbled:
                sleep(_LOOK_AGAIN_S)

    def _parts(self) -> Iterator[Callable[[], object]]:
        """One round: at whoever has ended, what is reported, and now and then at all the rest."""
        yield self._hear_of_ends
        for job_id in list(self._unseen):
            yield partial(self._look_for, job_id)
        with self._lock:
            new, self._new = self._new, set()
        for job_id in new if self._reports_lag_s else list(self._watched):
            if (watched := self._watched.get(job_id)) is not None:
                yield partial(self._read_on, job_id, watched)
        if (self._watched or self._restless) and monotonic() > self._probe_at:
            self._probe_at = monotonic() + _PROBE_EVERY_S
            yield self._probe

    def _hear_of_ends(self) -> None:
        for fd, _ in self._poll.poll(self._patience_ms()):
            if fd == self._bell:
                os.read(self._bell, 4096)
            else:
                self._see_end(fd)

    def _look_for(self, job_id: JobId) -> None:
        watched = self._watched[job_id]
        if not self._see_to(job_id, watched):
            with self._lock:
                self._unseen.discard(job_id)
                self._with_log.discard(job_id)
                del self._watched[job_id]
            self._finish(job_id, watched)

    def _patience_ms(self) -> float | None:
        if not self._watched:
            return 1000 * _PROBE_EVERY_S if self._restless else None
        return _LOOK_AT_TRIALS_EVERY_MS if self._with_log else _LOOK_EVERY_MS

    def _see_end(self, fd: int) -> None:
        """A keeper has ended: the job's end is read, now or as soon as possible."""
        with self._lock:
            job_id = self._by_fd.pop(fd)
            self._unseen.add(job_id)
            self._poll.unregister(fd)
        os.close(fd)
        self._watched[job_id].run.is_alive()  # waits for it, if it is a child of ours

    def _finish(self, job_id: JobId, watched: _Watched) -> None:
        """Tells all its reports, then its end."""
        patiently(lambda: self._read_all(job_id, watched, is_over=True), f"job {job_id}'s end")
        if rest := list(watched.thinner.rest()):
            self._post(JobTold(job_id, rest))
        self._post(ProcessEnded(job_id, watched.run))

    def _read_all(self, job_id: JobId, watched: _Watched, is_over: bool = False) -> None:
        """What is there. Of more than can be read in a moment the end: the files are the job's user's,
        who can let them be of any length, or grow for ever, while all the others wait."""
        began, first = monotonic(), watched.reported + watched.printed
        while self._read(job_id, watched, is_over):
            is_much = watched.reported + watched.printed - first > _MUCH_BYTES
            if monotonic() > began + (_MUCH_WITHIN_S if is_much else _ALL_WITHIN_S):
                log.warning("job %s has more to read than there is time for: its end", job_id)
                watched.skip_to_the_end()
                self._read(job_id, watched, is_over)
                return

    def _tell(self, job_id: JobId, watched: _Watched, reports: Sequence[ThinnedReport]) -> None:
        """Tells those reports that are kept, with earlier ones that waited."""
        was_thinning = watched.thinner.is_thinning
        if kept := list(watched.thinner.kept(reports, monotonic())):
            self._post(JobTold(job_id, kept))
        if watched.thinner.is_thinning and not was_thinning:
            log.warning("job %s reports more than is kept: some are put together", job_id)

    def _read(self, job_id: JobId, watched: _Watched, is_over: bool = False) -> bool:
        """Reads new data; true if there may be more at once."""
        more = watched.reads_reports and self._read_reports(job_id, watched)
        if watched.reads_output:
            more = self._read_output(job_id, watched, is_over) or more
            self._tell_first_printed(job_id, watched, is_over)
        if watched.thinner.is_thinning:
            self._tell(job_id, watched, ())
        return more

    def _read_reports(self, job_id: JobId, watched: _Watched) -> bool:
        try:
            if os.stat(watched.tells.reports).st_size <= watched.reported:
                return False
            with open(watched.tells.reports, "rb", opener=at_once) as file:
                file.seek(watched.reported)
                data = file.read(_BYTES_AT_ONCE)
        except BlockingIOError:
            return False
        except OSError as error:
            if is_short(error):
                raise
            return False
        if HELLO in data:
            self._probe_at = 0.0  # it says what it can do: that may change who can give way
        reports, upto = parse_reports(data, watched.reported, _LINES_AT_ONCE, job_id)
        progressed = upto > watched.reported
        watched.reported = upto
        if reports:
            watched.reads_output = False
            watched.first_printed.clear()
            self._tell(job_id, watched, reports)
        return progressed

    def _read_output(self, job_id: JobId, watched: _Watched, is_over: bool) -> bool:
        assert watched.tells.log is not None
        as_is = output.stamp(watched.tells.log)
        if as_is == watched.log_as_read and not is_over:
            return False
        start, data = output.read(watched.tells.log, watched.printed, _BYTES_AT_ONCE)
        is_full = len(data) == _BYTES_AT_ONCE
        split = output.drawn_lines if watched.reader else output.whole_lines
        lines, upto = split(data, start, is_over and not is_full)
        if is_full and not lines:  # a line without end: its end will do
            upto = start + len(data) - output.LONGEST_LINE
        progressed = upto > watched.printed
        watched.log_as_read = None if progressed else as_is
        until = monotonic() + _OUTPUT_WITHIN_S
        for batch in _batches(lines):
            if monotonic() > until:
                return True
            watched.printed = batch[-1][1]
            if found := self._found(job_id, watched, batch):
                watched.reads_reports = watched.reader is not None
                self._tell_printed(job_id, watched, _counted(watched, found))
        watched.printed = upto
        return progressed

    def _tell_printed(
        self, job_id: JobId, watched: _Watched, reports: Sequence[ThinnedReport]
    ) -> None:
        if watched.has_printed or not (self._reports_lag_s and watched.reads_reports):
            self._tell(job_id, watched, reports)
            return
        if not watched.first_printed:
            watched.tell_printed_at = monotonic() + self._reports_lag_s
        watched.first_printed += reports

    def _tell_first_printed(self, job_id: JobId, watched: _Watched, is_over: bool) -> None:
        if watched.first_printed and (is_over or monotonic() >= watched.tell_printed_at):
            watched.has_printed = True
            self._tell(job_id, watched, watched.first_printed)
            watched.first_printed = []

    def _found(
        self, job_id: JobId, watched: _Watched, lines: Sequence[tuple[str, int]]
    ) -> Sequence[Found]:
        if watched.reader is not None:
            return watched.reader.found(lines)
        if not watched.tells.pattern:
            return output.from_json(lines)
        if not watched.reads_output:
            return ()
        texts, pattern = [line for line, _ in lines], watched.tells.pattern
        groups = patiently(lambda: self._matcher.groups(pattern, texts), f"job {job_id}'s output")
        if isinstance(groups, str):
            watched.reads_output = False
            log.warning("job %s: no more metrics by its metric_pattern: %s", job_id, groups)
            return ()
        return output.from_groups(groups, lines)


def _error_of(part: Callable[[], object]) -> Exception | None:
    """An error in one part does not stop the other parts."""
    try:
        part()
    except Exception as error:
        return error
    return None


def _batches(lines: Sequence[tuple[str, int]]) -> Iterator[Sequence[tuple[str, int]]]:
    for first in range(0, len(lines), _LINES_AT_ONCE):
        yield lines[first : first + _LINES_AT_ONCE]


def _counted(watched: _Watched, found: Sequence[Found]) -> list[ThinnedReport]:
    """Where a line does not say which step it was, it was the next one that is due."""
    sought = watched.tells.sought
    reports = []
    for one in found:
        is_step = sought is None or sought.metric in one.metrics
        every = 0 if not is_step else 1 if sought is None else sought.every
        step = one.step if one.step is not None else watched.step + every
        watched.step = step if is_step else watched.step
        reports.append(ThinnedReport(step, one.metrics, -one.upto))
    return reports


# ------------------------------------------------------------------------------------ what they say


def parse_reports(
    data: bytes, start: int, most: int, job_id: str
) -> tuple[list[ThinnedReport], int]:
    """The reports in whole lines of the data, and the place in the file where the next one begins."""
    reports: list[ThinnedReport] = []
    upto = start
    while len(reports) < most:
        end = data.find(b"\n", upto - start)
        if end < 0:
            if len(data) - (upto - start) > _LONGEST_LINE:
                log.warning(
                    "job %s: a report longer than %d bytes is left out", job_id, _LONGEST_LINE
                )
                upto = start + len(data)
            break
        line = data[upto - start : end]
        upto = start + end + 1
        report = _report(line, upto, job_id)
        if report is not None:
            reports.append(report)
    return reports, upto


def _report(line: bytes, upto: int, job_id: str) -> ThinnedReport | None:
    if not line.strip():
        return None
    try:
        said = json.loads(line) if len(line) <= _LONGEST_LINE else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        log.warning("job %s: a report is not one JSON object a line: %.80r", job_id, line)
        return None
    if "dovetail" in said:  # the SDK says what the job can do: read where it matters
        return None
    step = _step(said.pop("step", None), job_id)
    metrics = {
        str(name)[:200]: _value(value)
        for name, value in list(said.items())[:_MOST_METRICS]
        if _is_number(value) and str(name).isprintable()
    }
    return ThinnedReport(step, metrics, upto)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("NaN", "nan", "inf", "-inf", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: Any) -> float | str:
    """What JSON cannot say as a number is kept as text."""
    try:
        number = float(value)
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    return number if isfinite(number) else str(number)


def _step(value: Any, job_id: str) -> float | None:
    if value is None:
        return None
    if _is_number(value) and not isinstance(value, str) and abs(value) <= _LARGEST_STEP:
        return value if isinstance(value, int) else float(value)
    log.warning("job %s: a step of %.40r is left out", job_id, value)
    return None
