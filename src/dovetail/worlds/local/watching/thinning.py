"""Reports of one job, thinned: who reports thousands of times a second does not fill everybody's disk.

Every report is kept as long as a job has some bytes left, which come back slowly. Then they are put
together, the later value of each metric for the earlier, and kept as one when there are bytes for it
again, or when the job ends. So the first and the last are always kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from dovetail.worlds.agent import ThinnedReport

BURST_BYTES: Final = 1 << 20
BYTES_PER_S: Final = 256.0  # about one report a second, and 22 MB a day
MOST_NAMES: Final = 200  # of metrics of one job
_ENTRY_BYTES = 100  # that any report takes


class Thinner:
    """Thins the reports of one job while it is watched."""

    def __init__(self) -> None:
        self._left: float = BURST_BYTES
        self._as_of: float | None = None
        self._waiting: ThinnedReport | None = None
        self._names: Final[set[str]] = set()

    @property
    def is_thinning(self) -> bool:
        return self._waiting is not None

    def kept(self, reports: Iterable[ThinnedReport], now: float) -> Iterator[ThinnedReport]:
        """The reports to keep now, of these and of those that wait."""
        since = 0.0 if self._as_of is None else max(now - self._as_of, 0.0)
        self._left = min(self._left + since * BYTES_PER_S, BURST_BYTES)
        self._as_of = now
        for report in reports:
            self._waiting = _joined(self._waiting, self._known(report))
            yield from self._affordable()
        yield from self._affordable()

    def rest(self) -> Iterator[ThinnedReport]:
        """All that wait, whatever their size: the job has ended."""
        if self._waiting is not None:
            yield self._waiting
            self._waiting = None

    def _affordable(self) -> Iterator[ThinnedReport]:
        if self._waiting is not None and (size := bytes_of(self._waiting)) <= self._left:
            self._left -= size
            yield from self.rest()

    def _known(self, report: ThinnedReport) -> ThinnedReport:
        """The report with the metrics for which there is room."""
        if len(self._names) + len(report.metrics) <= MOST_NAMES:
            self._names.update(report.metrics)
            return report
        metrics = {}
        for name, value in report.metrics.items():
            if name in self._names or len(self._names) < MOST_NAMES:
                self._names.add(name)
                metrics[name] = value
        return replace(report, metrics=metrics)


def bytes_of(report: ThinnedReport) -> int:
    return _ENTRY_BYTES + sum(len(name) + 24 for name in report.metrics)


def _joined(before: ThinnedReport | None, report: ThinnedReport) -> ThinnedReport:
    if before is None:
        return report
    step = before.step if report.step is None else report.step
    metrics = {**before.metrics, **report.metrics}
    return ThinnedReport(step, metrics, report.upto, before.left_out + report.left_out + 1)
