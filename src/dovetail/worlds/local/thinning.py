"""Reports of one job, thinned: who reports thousands of times a second does not fill everybody's disk.

Every report is kept as long as a job has some bytes left, which come back slowly. Then they are put
together, the later value of each metric for the earlier, and kept as one when there are bytes for it
again, or when the job ends. So the first and the last are always kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

BURST_BYTES: Final = 1 << 20
BYTES_PER_S: Final = 256.0  # about one report a second, and 22 MB a day
MOST_NAMES: Final = 200  # of metrics of one job
_ENTRY_BYTES = 100  # that any report takes


@dataclass(frozen=True, slots=True)
class ThinnedReport:
    step: float | None
    metrics: dict[str, float | str]
    upto: int
    left_out: int = 0  # reports before it that were not kept by themselves

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + sum(len(name) + 24 for name in self.metrics)


class Thinner:
    """Of one job, as long as somebody watches it."""

    def __init__(self) -> None:
        self._left: float = BURST_BYTES
        self._as_of: float | None = None
        self._waiting: ThinnedReport | None = None
        self._names: Final[set[str]] = set()

    @property
    def is_thinning(self) -> bool:
        return self._waiting is not None

    def kept(self, reports: Iterable[ThinnedReport], now: float) -> Iterator[ThinnedReport]:
        """Those to be kept now, of these and of what waits."""
        since = 0.0 if self._as_of is None else max(now - self._as_of, 0.0)
        self._left = min(self._left + since * BYTES_PER_S, BURST_BYTES)
        self._as_of = now
        for report in reports:
            self._waiting = _joined(self._waiting, self._known(report))
            yield from self._affordable()
        yield from self._affordable()

    def rest(self) -> Iterator[ThinnedReport]:
        """What waits, whatever it takes: the job has ended."""
        if self._waiting is not None:
            yield self._waiting
            self._waiting = None

    def _affordable(self) -> Iterator[ThinnedReport]:
        if self._waiting is not None and self._waiting.size <= self._left:
            self._left -= self._waiting.size
            yield from self.rest()

    def _known(self, report: ThinnedReport) -> ThinnedReport:
        """With the metrics that there is room for in the memory of everybody."""
        if len(self._names) + len(report.metrics) <= MOST_NAMES:
            self._names.update(report.metrics)
            return report
        metrics = {}
        for name, value in report.metrics.items():
            if name in self._names or len(self._names) < MOST_NAMES:
                self._names.add(name)
                metrics[name] = value
        return replace(report, metrics=metrics)


def _joined(before: ThinnedReport | None, report: ThinnedReport) -> ThinnedReport:
    if before is None:
        return report
    step = before.step if report.step is None else report.step
    metrics = {**before.metrics, **report.metrics}
    return ThinnedReport(step, metrics, report.upto, before.left_out + report.left_out + 1)
