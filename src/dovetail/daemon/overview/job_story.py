"""What became of one job: its stints with the cost of each interruption, and the metrics it reported.

Read from the journal, and read on from there when it is asked for again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from threading import Lock
from typing import Any, Final, final

from dovetail.api.job_row import TOTALS, JobRow
from dovetail.api.page_row import MetricCurve, StintCost
from dovetail.core.model import WHOLE_GPU, JobId, Node, Seconds
from dovetail.daemon.clock import Clock
from dovetail.daemon.gpus_told import held
from dovetail.daemon.overview.stints import GpuStay, StintBook
from dovetail.store import JournalReader

_AT_ONCE = 50_000  # entries
_KEPT = 16  # stories
_MOST_POINTS = 2_000  # of a metric; then every second goes
_MOST_METRICS = 40
_BEFORE_S = 60.0  # the wall clock may have been set since


@dataclass(slots=True)
class _Curve:
    at: list[float] = field(default_factory=list)
    steps: list[float | None] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stride: int = 1
    count: int = 0
    odd: int = 0  # values that were no finite numbers

    def add(self, at: float, step: float | None, value: float) -> None:
        self.count += 1
        if self.count % self.stride:
            return
        self.at.append(at)
        self.steps.append(step)
        self.values.append(value)
        if len(self.values) >= _MOST_POINTS:
            self.at, self.steps, self.values = self.at[1::2], self.steps[1::2], self.values[1::2]
            self.stride *= 2


class StoryOfJob:
    """One job's, as far as the journal was read."""

    def __init__(self, job_id: JobId, seq: int, unix: Any, nodes: Sequence[Node]) -> None:
        self._nodes: Final = nodes
        self.job_id: Final = job_id
        self.seq = seq
        self.curves: Final[dict[str, _Curve]] = {}
        self._unix: Final = unix
        self._book: Final = StintBook()
        self._costs: Final[list[tuple[Seconds, dict[str, Any]]]] = []

    def read(self, lines: list[str]) -> None:
        self._book.read(line for line in lines if self._is_mine(line))
        for line in lines:
            entry = json.loads(line)
            if entry.get("reported") == self.job_id:
                self._report(entry)
            elif self.job_id in (entry.get("saved"), entry.get("restored"), entry.get("failed")):
                self._costs.append((entry["at"], entry))

    def _is_mine(self, line: str) -> bool:
        entry = json.loads(line)
        return bool(entry.get(next(name for name in entry if name != "at")) == self.job_id)

    def _report(self, entry: dict[str, Any]) -> None:
        for name, value in entry["metrics"].items():
            if name in TOTALS or (name not in self.curves and len(self.curves) >= _MOST_METRICS):
                continue  # how many steps there are is no curve
            curve = self.curves.setdefault(name, _Curve())
            if isinstance(value, int | float) and isfinite(value):
                curve.add(self._unix(entry["at"]), entry.get("step"), value)
            else:
                curve.odd += 1

    def metrics(self) -> list[MetricCurve]:
        return [
            MetricCurve(name=name, at=own.at, steps=own.steps, values=own.values, odd=own.odd)
            for name, own in self.curves.items()
        ]

    def stints(self) -> list[StintCost]:
        """What giving way took is told when it is over, perhaps after the next stint has begun."""
        stints = [*self._book.closed, *self._book.open.values()]
        told = [self._stint(stint) for stint in stints]
        for at, entry in self._costs:
            if "restored" in entry:
                began = [i for i, own in enumerate(stints) if own.since <= at]
                if began:
                    told[began[-1]].restore_s = entry["seconds"]
                continue
            ended = [i for i, own in enumerate(stints) if own.until is not None and own.until <= at]
            if ended:
                _add_cost(told[ended[-1]], entry)
        return told

    def _stint(self, stint: GpuStay) -> StintCost:
        return StintCost(
            since=self._unix(stint.since),
            until=None if stint.until is None else self._unix(stint.until),
            on=held(stint.on, self._nodes),
            share=stint.on.share / WHOLE_GPU,
            end=stint.end,
            rung="",
            save_s=None,
            restore_s=None,
            lost_s=0.0,
        )


def _add_cost(stint: StintCost, entry: dict[str, Any]) -> None:
    stint.lost_s += float(entry.get("lost_s") or 0.0)
    if "saved" in entry:
        stint.rung, stint.save_s = entry["rung"], entry["seconds"]


@final
class Stories:
    def __init__(self, reader: JournalReader, clock: Clock, nodes: Sequence[Node]) -> None:
        self._nodes: Final = nodes
        self._reader: Final = reader
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._kept: Final[OrderedDict[str, StoryOfJob]] = OrderedDict()

    def of(self, row: JobRow) -> StoryOfJob:
        with self._lock:
            story = self._kept.pop(row.id, None) or self._begun(row)
            self._kept[row.id] = story
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            for lines, upto in self._new(story):
                story.read(lines)
                story.seq = upto
            return story

    def _begun(self, row: JobRow) -> StoryOfJob:
        at = row.submitted_at - self._clock.epoch - _BEFORE_S
        first = self._reader.seq_before(at)
        return StoryOfJob(JobId(row.id), first, self._clock.unix, self._nodes)

    def _new(self, story: StoryOfJob) -> Iterator[tuple[list[str], int]]:
        last = self._reader.last_seq()
        for first in range(story.seq, last, _AT_ONCE):
            upto = min(first + _AT_ONCE, last)
            yield self._reader.lines_with(f'"{story.job_id}"', first, upto), upto
