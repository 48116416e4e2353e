"""The part of a trace that is simulated: its busiest stretch, and the jobs running at its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from dovetail.core.model import Seconds
from dovetail.insight.features import Features
from dovetail.models.workload import Arrival

_PAST = 0.25  # share of the trace that is kept to learn from
_PLACES = 50  # starts that are tried


@dataclass(frozen=True)
class Stretch:
    """Rows of the features. The first `carried` were submitted before it begins and start with
    their remaining work, since an empty cluster would hide that jobs wait. They do not count."""

    begins: Seconds
    rows: np.ndarray
    carried: int
    done_s: np.ndarray  # by row, work done before it begins

    def arrivals(self, trace: Sequence[Arrival]) -> list[Arrival]:
        ordered = sorted(trace, key=attrgetter("at"))
        found = [ordered[row] for row in self.rows.tolist()]
        done = self.done_s.tolist()
        for number in range(self.carried):
            own = found[number]
            left = own.work_s - done[number]
            found[number] = replace(own, at=self.begins, work_s=left, failures=())
        return found


def busiest(features: Features, jobs: int) -> Stretch:
    """So many consecutive jobs, after the part kept to learn from, with the highest demand in their
    time."""
    number = len(features.duration)
    earliest = int(number * _PAST)
    jobs = max(1, min(jobs, number - earliest))
    firsts = np.unique(np.linspace(earliest, number - jobs, _PLACES).astype(int))
    asked = np.concatenate([[0.0], np.cumsum(features.duration * features.gpus)])
    spans = features.submitted[firsts + jobs - 1] - features.submitted[firsts]
    load = (asked[firsts + jobs] - asked[firsts]) / np.maximum(spans, 1.0)
    first = int(firsts[np.argmax(load)])
    begins = float(features.submitted[first])
    carried = np.flatnonzero((features.submitted + features.duration)[:first] > begins)
    done = np.concatenate([begins - features.submitted[carried], np.zeros(jobs)])
    rows = np.concatenate([carried, np.arange(first, first + jobs)])
    return Stretch(begins, rows, len(carried), done)
