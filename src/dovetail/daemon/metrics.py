"""The daemon's metrics in the OpenMetrics text format.

Counters and histograms count since this daemon started; whoever collects them knows how to go on after
a restart. The journal and the history have the whole truth.
"""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dovetail.api.job_row import ENDED, LIVE
from dovetail.core.entries import JournalEntry, Reported, Saved, Start
from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.gpus_told import gpu_number
from dovetail.daemon.history.job_rows import phase_of
from dovetail.worlds.world import Gauge

if TYPE_CHECKING:
    from dovetail.daemon.main import Daemon

TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
WAITS_S: Final = (0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
DECISIONS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)

Labels = Mapping[str, object]
Sample = tuple[str, Labels, float]  # what follows the name of the family, its labels, its value
NONE: Final[Labels] = {}


class Histogram:
    """How often something took how long."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: Final = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        so_far = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            so_far += count
            yield "_bucket", {"le": _number(bound)}, so_far
        yield "_count", NONE, so_far
        yield "_sum", NONE, self._sum


class Tally:
    """Told of everything that is journaled, on the thread of the loop."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self.waits: Final = Histogram(WAITS_S)
        self.decisions: Final = Histogram(DECISIONS_S)
        self.preemptions: Final[Counter[str]] = Counter()
        self.ended: Final[Counter[str]] = Counter()
        self.reports = 0
        self.lost_gpu_s = 0.0  # of jobs that have ended

    def count(self, entry: JournalEntry, now: Seconds) -> None:
        if isinstance(entry, Reported):
            self.reports += 1
        elif isinstance(entry, Saved):
            self.preemptions[entry.rung] += 1
        elif isinstance(entry, Start):
            track = self._view.tracks[entry.job_id]
            if track.first_start_at == track.started_at:
                self.waits.add(now - track.submitted_at)

    def count_end(self, track: Track) -> None:
        self.ended[phase_of(track)] += 1
        self.lost_gpu_s += track.lost_gpu_s


def exposition(daemon: Daemon) -> str:
    """The whole page."""
    lines = daemon.service.look(lambda view, now: [*_of_jobs(view, daemon.tally)])
    lines += _of_world(daemon.world.gauges())
    lines += _of_the_process(daemon)
    return "\n".join([*lines, "# EOF", ""])


def _of_jobs(view: View, tally: Tally) -> Iterator[str]:
    phases = Counter[str](dict.fromkeys(LIVE, 0))
    phases.update(phase_of(track) for track in view.tracks.values())
    lost = tally.lost_gpu_s + sum(track.lost_gpu_s for track in view.tracks.values())
    yield from _family(
        *("dovetail_jobs", "gauge", "Jobs that have not ended."),
        [("", {"phase": phase}, count) for phase, count in phases.items()],
    )
    yield from _family(
        *("dovetail_jobs_ended", "counter", "Jobs that have ended."),
        [("_total", {"phase": phase}, tally.ended[phase]) for phase in ENDED],
    )
    yield from _family(
        *("dovetail_queue_wait_seconds", "histogram", "From submission to the first GPUs."),
        tally.waits.samples(),
    )
    yield from _family(
        *("dovetail_preemptions", "counter", "Jobs that gave way, by how they did."),
        [("_total", {"rung": rung}, count) for rung, count in sorted(tally.preemptions.items())],
    )
    yield from _family(
        *("dovetail_lost_gpu_seconds", "counter", "Saving, restoring, and work done twice."),
        [("_total", NONE, lost)],
    )
    yield from _family(
        *("dovetail_reports", "counter", "Reports of progress taken from jobs."),
        [("_total", NONE, tally.reports)],
    )
    yield from _family(
        *("dovetail_decision_seconds", "histogram", "Deciding once."),
        tally.decisions.samples(),
    )
    yield from _family(
        *("dovetail_job_gpu", "info", "Which job has which GPU, to be joined with their figures."),
        [("_info", labels, 1) for labels in _holdings(view)],
    )
    yield from _family(
        *("dovetail_gpus", "gauge", "GPUs or slots."),
        [
            ("", {"node": node.id, "kind": node.kind, "state": state}, count)
            for n, node in enumerate(view.room.nodes)
            if n not in view.room.gone
            for state, count in _uses(view, n).items()
        ],
    )


def _uses(view: View, n: int) -> dict[str, int]:
    """A GPU of which some share is free counts as used."""
    room = view.room
    away, free = room.occupied.get(n, 0), room.free[n].bit_count()
    strangers = room.used_by_strangers(n).bit_count()
    used = max(room.nodes[n].gpus - away.bit_count() - free, 0)
    closed = away.bit_count() - strangers
    return {"free": free, "used": used, "strangers": strangers, "closed": closed}


def _holdings(view: View) -> Iterator[Labels]:
    for track in view.running.values():
        for piece in track.placement.slices if track.placement is not None else ():
            node = view.room.nodes[piece.node]
            for i in range(node.gpus):
                if piece.mask >> i & 1:
                    uuid = node.labels[i][1] if i < len(node.labels) else ""
                    job = {"job": track.job.id, "name": track.job.name, "user": track.job.user}
                    yield {**job, "node": node.id, "gpu": gpu_number(node, i), "uuid": uuid}


def _of_world(gauges: Iterable[Gauge]) -> Iterator[str]:
    for gauge in gauges:
        samples = [("", labels, value) for labels, value in gauge.values]
        yield from _family(gauge.name, "gauge", gauge.told, samples)


def _of_the_process(daemon: Daemon) -> Iterator[str]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    yield from _family(
        *("dovetail_build", "info", "This daemon."),
        [("_info", {"version": daemon.version, "policy": daemon.chosen.text}, 1)],
    )
    yield from _family(
        *("dovetail_journal_entries", "counter", "Entries of the journal, ever."),
        [("_total", NONE, daemon.store.last_seq)],
    )
    yield from _family(
        *("dovetail_disk_full", "gauge", "1 while nothing new can be taken on."),
        [("", NONE, int(daemon.store.is_full))],
    )
    yield from _family(
        *("process_cpu_seconds", "counter", "Of all threads."),
        [("_total", NONE, used.ru_utime + used.ru_stime)],
    )
    yield from _family(
        *("process_resident_memory_bytes", "gauge", "In main memory."), [("", NONE, resident)]
    )
    yield from _family(
        *("process_start_time_seconds", "gauge", "Seconds since 1970."),
        [("", NONE, time.time() - daemon.uptime_s)],
    )


# ------------------------------------------------------------------------------------------ format


def _family(name: str, kind: str, told: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {told}"
    for suffix, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(str(own))}"' for key, own in labels.items())
        yield (
            f"{name}{suffix}{{{inside}}} {_number(value)}"
            if inside
            else (f"{name}{suffix} {_number(value)}")
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "+Inf" if value == float("inf") else repr(float(value))
