"""Runs a job for a short while in one way, on a machine as full as it will be, and reads its speed from
what it reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import fmean
from time import monotonic

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Node, Seconds
from dovetail.jobfiles.profile_table import Timing
from dovetail.text.counting import counted
from dovetail.worlds.agent import JobTold, ProcessEnded, Tells
from dovetail.worlds.endings import told as told_ending
from dovetail.worlds.local.gpus.power import Meter
from dovetail.worlds.local.runs import ladder
from dovetail.worlds.local.runs.run import Launch, ProcessRun
from dovetail.worlds.local.watching.watcher import Watcher

_LOOK_EVERY_S = 0.2
FEWEST_STEPS = 3  # reports after the first: fewer say nothing of a speed


class NotCalibrated(DovetailError):
    """The job did not show how fast it is."""


@dataclass(frozen=True, slots=True)
class CalibrationWay:
    """So many GPUs of the node for each of so many copies at once."""

    node: Node
    gpus: int
    copies: int

    def __str__(self) -> str:
        what = "slot" if self.node.kind == "cpu" else f"{self.node.kind} GPU"
        beside = f", {self.copies} at once" if self.copies > 1 else ""
        return f"{counted(self.gpus, what)}{beside}"

    def uuids(self, number: int) -> tuple[str, ...]:
        """The GPUs of that copy; none where they are processor slots."""
        first = number * self.gpus
        return tuple(uuid for _, uuid in self.node.labels[first : first + self.gpus])


@dataclass(frozen=True, slots=True)
class Subject:
    """The job that is calibrated: a command, in a folder, with variables of its own."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    pattern: str = ""  # of the lines it prints; "": the SDK, or lines of JSON


def ways(node: Node, counts: Sequence[int] = (), alone: bool = False) -> list[CalibrationWay]:
    """One, two, four … GPUs, or those numbers; as many copies as fill the node, or one alone."""
    if not counts:
        counts = [2**power for power in range(node.gpus.bit_length())]
    return [
        CalibrationWay(node, count, 1 if alone else max(node.gpus // count, 1))
        for count in counts
        if count <= node.gpus
    ]


def calibrate(
    subject: Subject,
    way: CalibrationWay,
    folder: Path,
    seconds: Seconds = 20.0,
    patience_s: Seconds = 300.0,
    tell: Callable[[str], object] = lambda _: None,
) -> Timing:
    """Until every copy has stepped for so many seconds. Nobody may report nothing for so long."""
    copies = [WatchedCopy() for _ in range(way.copies)]
    inbox: SimpleQueue[object] = SimpleQueue()
    uuids = [uuid for number in range(way.copies) for uuid in way.uuids(number)]
    began = monotonic()
    with (
        closing(Meter(uuids)) as meter,
        _running(subject, way, folder, inbox, copies, began) as runs,
    ):
        drawn: list[tuple[Seconds, float]] = [(0.0, 0.0)]  # joules by time
        while True:
            _listen(inbox, copies, began)
            now = monotonic() - began
            drawn.append((now, meter.joules()))
            if enough(copies, seconds, now) or any(c.ended_at is not None for c in copies):
                break
            _check_patience(copies, now, patience_s, subject)
            tell(_progress(copies, seconds, now))
        _await_all_ended(inbox, copies, began)
        gone_in_s = _end_first(runs)
        watts = _watts(copies, drawn, way) if meter.knows else None
    found = pace(copies)
    if found is None:
        raise NotCalibrated(_why_not(copies, runs, subject))
    startup_watts = _startup_watts(copies, drawn, way) if meter.knows else None
    return Timing(
        way.node.kind,
        way.gpus,
        found.steps_per_s,
        found.startup_s,
        found.shutdown_s or gone_in_s,
        watts,
        startup_watts,
    )


# ------------------------------------------------------------------------------------- processes


@contextmanager
def _running(
    subject: Subject,
    way: CalibrationWay,
    folder: Path,
    inbox: SimpleQueue[object],
    copies: Sequence[WatchedCopy],
    began: float,
) -> Iterator[list[ProcessRun]]:
    watcher = Watcher(inbox.put, lambda: None)
    watcher.start()
    runs: list[ProcessRun] = []
    try:
        for number, copy in enumerate(copies):
            copy.launched_at = monotonic() - began
            runs.append(_launch(subject, way, number, folder, watcher))
        yield runs
    finally:
        for run in runs:
            ladder.end(run, 0.0)
        watcher.stop()


def _launch(
    subject: Subject, way: CalibrationWay, number: int, folder: Path, watcher: Watcher
) -> ProcessRun:
    own = folder / f"{way.node.kind}-{way.gpus}-{number}"
    (own / "checkpoints").mkdir(parents=True)
    environment, reports, log = own / "env.json", own / "reports.jsonl", own / "log"
    environment.write_text(json.dumps(dict(subject.environment)))
    environment.chmod(0o600)
    reports.touch()
    variables = {
        "CUDA_VISIBLE_DEVICES": ",".join(way.uuids(number)),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "DOVETAIL_GPUS": str(way.gpus),
        "DOVETAIL_REPORT": str(reports),
        "DOVETAIL_CHECKPOINT_DIR": str(own / "checkpoints"),
        "DOVETAIL_STOP": str(own / "run" / "stop"),
        "DOVETAIL_RESUMED": "0",
    }
    run = ProcessRun(own / "run")
    run.launch(Launch(subject.argv, subject.cwd, environment, log, variables))
    if not run.wait_until_begun():
        raise NotCalibrated(run.trouble() or "the system did not let the command begin")
    watcher.watch(JobId(str(number)), run, Tells(reports, log, subject.pattern), 0, 0)
    return run


def _listen(inbox: SimpleQueue[object], copies: Sequence[WatchedCopy], began: float) -> None:
    """What was told until now; waits a moment if it is nothing."""
    timeout: float | None = _LOOK_EVERY_S
    while True:
        try:
            fact = inbox.get(timeout=timeout) if timeout else inbox.get_nowait()
        except Empty:
            return
        timeout = None
        now = monotonic() - began
        if isinstance(fact, JobTold):
            for report in fact.reports:
                copies[int(fact.job_id)].hear(now, report.step)
        elif isinstance(fact, ProcessEnded):
            copies[int(fact.job_id)].ended_at = now


def _await_all_ended(
    inbox: SimpleQueue[object], copies: Sequence[WatchedCopy], began: float
) -> None:
    """If they end by themselves, all about now: what ending takes belongs to their time."""
    until = monotonic() + 1.0
    while any(copy.ended_at is not None for copy in copies) and monotonic() < until:
        if all(copy.ended_at is not None for copy in copies):
            return
        _listen(inbox, copies, began)


def _end_first(runs: Sequence[ProcessRun]) -> Seconds:
    """What it takes one of them to be gone, beside the others: its GPU memory must be given back."""
    began = monotonic()
    ladder.end(runs[0], 0.0)
    return monotonic() - began


# ----------------------------------------------------------------------------------------- watts


def _watts(
    copies: Sequence[WatchedCopy], drawn: Sequence[tuple[Seconds, float]], way: CalibrationWay
) -> float | None:
    """Of one copy's GPUs, while all were at work."""
    starts = [copy.reports[0][0] for copy in copies if copy.reports]
    if len(starts) < len(copies):
        return None
    at_work = [(at, joules) for at, joules in drawn if at >= max(starts)]
    return _mean_watts(at_work, way)


def _startup_watts(
    copies: Sequence[WatchedCopy], drawn: Sequence[tuple[Seconds, float]], way: CalibrationWay
) -> float | None:
    first = min(copy.reports[0][0] for copy in copies)
    return _mean_watts([(at, joules) for at, joules in drawn if at <= first], way)


def _mean_watts(drawn: Sequence[tuple[Seconds, float]], way: CalibrationWay) -> float | None:
    if len(drawn) < 2 or drawn[-1][0] <= drawn[0][0]:
        return None
    return (drawn[-1][1] - drawn[0][1]) / (drawn[-1][0] - drawn[0][0]) / way.copies


# ---------------------------------------------------------------------------------------- words


def _progress(copies: Sequence[WatchedCopy], seconds: Seconds, now: Seconds) -> str:
    firsts = [copy.reports[0][0] for copy in copies if copy.reports]
    if len(firsts) < len(copies):
        return f"starting, {now:.0f} s"
    steps = sum(len(copy.reports) for copy in copies)
    left_s = max(seconds - (now - max(firsts)), 0.0)
    return f"{counted(steps, 'report')}, {left_s:.0f} s to go"


def _check_patience(
    copies: Sequence[WatchedCopy], now: Seconds, patience_s: Seconds, subject: Subject
) -> None:
    heard = max([copy.reports[-1][0] for copy in copies if copy.reports], default=0.0)
    if now - heard < patience_s:
        return
    if heard:
        raise NotCalibrated(
            f"the command reported nothing more for {patience_s:g} s; let it report more often, or "
            "wait longer with --patience"
        )
    raise NotCalibrated(_silent(f"in {patience_s:g} s", subject))


def _silent(when: str, subject: Subject) -> str:
    if subject.pattern:
        return f"the command printed nothing {when} that --pattern {subject.pattern!r} finds"
    return (
        f"the command reported nothing {when}; let it call sdk.report(step, loss=…), print lines such "
        'as {"step": 3, "loss": 0.5}, or name a --pattern'
    )


def _why_not(copies: Sequence[WatchedCopy], runs: Sequence[ProcessRun], subject: Subject) -> str:
    for run in runs:
        ending = run.ending()
        if ending is not None and ending.code != 0 and ending.signal is None:
            last = _last_line(run.folder.parent / "log")
            return f"the command failed: {told_ending(ending)}{f' ({last})' if last else ''}"
    fewest = min(len(copy.reports) for copy in copies)
    if not fewest:
        return _silent("before it ended", subject)
    return (
        f"the command ended after {counted(fewest, 'report')}, too early to tell its "
        f"speed: let it do more steps, more than {FEWEST_STEPS + 1}"
    )


def _last_line(log: Path) -> str:
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    return next((line[:200] for line in reversed(lines) if line), "")


@dataclass
class WatchedCopy:
    """One process of the job. Times are seconds since the first of them was launched."""

    launched_at: Seconds = 0.0
    reports: list[tuple[Seconds, float]] = field(default_factory=list)  # when, and which step
    ended_at: Seconds | None = None

    def hear(self, at: Seconds, step: float | None) -> None:
        before = self.reports[-1][1] if self.reports else 0.0
        self.reports.append((at, before + 1.0 if step is None else step))

    def within(self, start: Seconds, end: Seconds) -> list[tuple[Seconds, float]]:
        return [(at, step) for at, step in self.reports if start <= at <= end]


@dataclass(frozen=True, slots=True)
class MeasuredPace:
    """How fast copies of the job ran side by side, and what starting and ending them took."""

    steps_per_s: float
    startup_s: Seconds  # until the first step began
    shutdown_s: Seconds  # from the last step to the end of the process; 0 if that was not seen
    reports: int


def window(copies: Sequence[WatchedCopy]) -> tuple[Seconds, Seconds] | None:
    """While all of them were at work: from the last first report until the first of them ended."""
    if not all(copy.reports for copy in copies):
        return None
    start = max(copy.reports[0][0] for copy in copies)
    ends = [copy.reports[-1][0] for copy in copies if copy.ended_at is not None]
    return start, min(ends, default=max(copy.reports[-1][0] for copy in copies))


def enough(copies: Sequence[WatchedCopy], seconds: Seconds, now: Seconds) -> bool:
    """Has each told enough, for long enough?"""
    span = window(copies)
    if span is None or now - span[0] < seconds:
        return False
    return all(len(copy.within(*span)) > FEWEST_STEPS for copy in copies)


def pace(copies: Sequence[WatchedCopy]) -> MeasuredPace | None:
    """The mean over the copies; None if they told too little."""
    span = window(copies)
    if span is None:
        return None
    heard = [copy.within(*span) for copy in copies]
    speeds = [_speed(own) for own in heard]
    known = [speed for speed in speeds if speed is not None]
    if len(known) < len(copies) or any(len(own) <= FEWEST_STEPS for own in heard):
        return None
    startups = [_startup(copy, speed) for copy, speed in zip(copies, known, strict=True)]
    shutdowns = [
        copy.ended_at - copy.reports[-1][0] for copy in copies if copy.ended_at is not None
    ]
    return MeasuredPace(
        fmean(known), fmean(startups), fmean(shutdowns or [0.0]), sum(len(own) for own in heard)
    )


def _speed(heard: Sequence[tuple[Seconds, float]]) -> float | None:
    if len(heard) < 2:
        return None
    (began, first), (ended, last) = heard[0], heard[-1]
    return (last - first) / (ended - began) if ended > began and last > first else None


def _startup(copy: WatchedCopy, speed: float) -> Seconds:
    """The first report tells of steps that took their time, too: as many as lie between others."""
    (first_at, first), (_, last) = copy.reports[0], copy.reports[-1]
    between = (last - first) / (len(copy.reports) - 1)
    return max(first_at - copy.launched_at - between / speed, 0.0)
