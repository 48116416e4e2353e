"""The workload of a trace in numbers, from which the charts of a report are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from dovetail.core.model import Node, Seconds
from dovetail.insight.arriving import Arriving, arriving
from dovetail.insight.loading import Loaded, loaded, too_large
from dovetail.insight.tails import TailFit, tail_of
from dovetail.models.workload import Arrival
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.traces.description import HOUR_S, gpu_seconds, size_class
from dovetail.traces.trace import Trace

WEEK_S = 604_800.0
MOST_WEEKS = 80
MOST_OWNERS = 15  # named in the chart; the others are drawn together
ENDS = ("finished", "failed", "cancelled")
# share of the usual number of jobs in a week; weeks that show the usual number
THIN, THIN_OF = 0.05, 4


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the whole that one user, team or size of job took."""

    name: str
    jobs: int
    gpu_hours: float
    median_duration_s: Seconds
    ends: tuple[int, ...]  # jobs by ENDS


@dataclass(frozen=True, slots=True)
class SubmissionWeek:
    """One week of submissions: it shows drift."""

    start_s: Seconds
    jobs: int
    gpu_hours: float
    p25_s: Seconds
    median_s: Seconds
    p75_s: Seconds


@dataclass(frozen=True, slots=True)
class WorkloadFigures:
    jobs: int
    span_s: Seconds  # from the first to the last submission
    gpu_hours: float
    users: int
    tenants: int
    owner: str  # how jobs are grouped: "user", "tenant" or nothing
    arriving: Arriving | None
    tail: TailFit | None
    sizes: tuple[Share, ...]
    owners: tuple[Share, ...]  # those with most GPU-hours, then all others together
    owners_in_all: int
    ends: tuple[int, ...] | None  # jobs by ENDS; None if the trace does not tell
    load: Loaded | None
    weeks: tuple[SubmissionWeek, ...]
    notices: tuple[str, ...]  # remarks for a reader of the figures
    not_measured: tuple[str, ...]


def workload(trace: Trace, nodes: Sequence[Node]) -> WorkloadFigures:
    """All figures that need no simulation; figures that cannot be computed are named with the reason."""
    arrivals, lacking = trace.arrivals, trace.lacking
    has_times, has_durations = "submit_s" not in lacking, "duration_s" not in lacking
    owner = _owner(arrivals)
    owners = _shares([getattr(a.job, owner) if owner else "" for a in arrivals], arrivals)
    ends = _ends(arrivals)
    at = np.array([a.at for a in arrivals])
    span_s = float(at.max() - at.min()) if len(at) else 0.0
    weeks = _weeks(arrivals) if has_times and has_durations else ()
    arrived = arriving(at, trace.began_at) if has_times and span_s > 0 else None
    tail = tail_of(arrivals) if has_durations else None
    load = loaded(arrivals, sum(node.gpus for node in nodes)) if has_times and tail else None
    return WorkloadFigures(
        jobs=len(arrivals),
        span_s=span_s,
        gpu_hours=sum(map(gpu_seconds, arrivals)) / HOUR_S,
        users=len({a.job.user for a in arrivals} - {""}),
        tenants=len({a.job.tenant for a in arrivals} - {""}),
        owner=owner,
        arriving=arrived,
        tail=tail,
        sizes=_by_size(arrivals),
        owners=_largest(owners) if owner else (),
        owners_in_all=len(owners) if owner else 0,
        ends=ends,
        load=load,
        weeks=weeks,
        notices=(*_notices(weeks), *too_large(arrivals, sum(node.gpus for node in nodes))),
        not_measured=tuple(_not_measured(trace, arrived, tail, load, owner, ends)),
    )


def _not_measured(
    trace: Trace,
    arrived: Arriving | None,
    tail: TailFit | None,
    load: Loaded | None,
    owner: str,
    ends: tuple[int, ...] | None,
) -> list[str]:
    said = []
    if "submit_s" in trace.lacking:
        said.append(
            "Arrivals, load over time and drift: no column says when jobs were submitted (submit_s)."
        )
    elif arrived is None:
        said.append("Arrivals and load over time: all jobs were submitted at one time.")
    elif not arrived.dated:
        said.append(
            "Hours of the day and days of the week: times are plain seconds, so they are counted "
            "from the first submission; give submit_s as dates to see the calendar."
        )
    if "duration_s" in trace.lacking:
        said.append(
            "Durations, GPU-hours and load: no usable column says how long jobs ran (duration_s)."
        )
    elif tail is not None and tail.why_no_index:
        said.append(f"The tail index of durations: {tail.why_no_index}.")
    if load is None and arrived is not None and tail is not None:
        said.append("Load over time: the cluster has no GPUs, or hardly a job fits it.")
    if len({arrival.job.gpus for arrival in trace.arrivals}) == 1:
        gpus = trace.arrivals[0].job.gpus
        said.append(
            f"Sizes: every job asks for {counted(gpus, 'GPU')}, or the trace does not "
            "say for how many (column gpus)."
        )
    if not owner:
        said.append("GPU-hours by user: the trace names neither users nor tenants.")
    if ends is None:
        said.append(
            "Failures: no column that Dovetail reads says how jobs ended (failures, cancel_s); every "
            "job is taken to have finished."
        )
    return said


def _notices(weeks: Sequence[SubmissionWeek]) -> Iterator[str]:
    """The first jobs of a log that begins thin are only those that were still alive when it began."""
    usual = float(np.median([week.jobs for week in weeks])) if len(weeks) >= THIN_OF else 0.0
    thin = list(takewhile(lambda week: week.jobs < THIN * usual, weeks))
    rest = weeks[len(thin) :]
    if thin and rest and thin[0].median_s > 10 * max(week.median_s for week in rest):
        jobs = sum(week.jobs for week in thin)
        yield (
            f"The first {duration_text(rest[0].start_s)} hold only {jobs:,} jobs, of which half ran "
            f"longer than {duration_text(thin[0].median_s)}: probably the log holds only those that "
            "were still running when it began. Figures of that time are not to be trusted."
        )


def _owner(arrivals: Sequence[Arrival]) -> str:
    """Users if they are named, else tenants."""
    for field in ("user", "tenant"):
        if any(getattr(arrival.job, field) for arrival in arrivals):
            return field
    return ""


def ended(arrival: Arrival) -> int:
    """The index in ENDS: the job fails for good, its user cancels it, or it finishes."""
    if len(arrival.failures) > arrival.job.retries:
        return 1
    return 2 if arrival.cancel_at is not None else 0


def _ends(arrivals: Sequence[Arrival]) -> tuple[int, ...] | None:
    if not any(a.failures or a.cancel_at is not None for a in arrivals):
        return None
    return _counted(arrivals)


def _counted(arrivals: Sequence[Arrival]) -> tuple[int, ...]:
    counts = [0] * len(ENDS)
    for arrival in arrivals:
        counts[ended(arrival)] += 1
    return tuple(counts)


def _share(name: str, members: Sequence[Arrival]) -> Share:
    hours = sum(map(gpu_seconds, members)) / HOUR_S
    median = float(np.median([arrival.work_s for arrival in members]))
    return Share(name, len(members), hours, median, _counted(members))


def _shares(names: Sequence[str], arrivals: Sequence[Arrival]) -> dict[str, list[Arrival]]:
    found: dict[str, list[Arrival]] = {}
    for name, arrival in zip(names, arrivals, strict=True):
        found.setdefault(name, []).append(arrival)
    return found


def _largest(owners: dict[str, list[Arrival]]) -> tuple[Share, ...]:
    """In order of GPU-hours; of many, the small ones together."""
    shares = [_share(name or "(no name)", members) for name, members in owners.items()]
    shares.sort(key=lambda share: (-share.gpu_hours, -share.jobs, share.name))
    if len(shares) <= MOST_OWNERS + 1:
        return tuple(shares)
    named = shares[:MOST_OWNERS]
    kept = {share.name for share in named}
    rest = [a for name, own in owners.items() if (name or "(no name)") not in kept for a in own]
    return (*named, _share(f"{len(shares) - MOST_OWNERS} others", rest))


def _by_size(arrivals: Sequence[Arrival]) -> tuple[Share, ...]:
    classes: dict[tuple[int, str], list[Arrival]] = {}
    for arrival in arrivals:
        classes.setdefault(size_class(arrival), []).append(arrival)
    return tuple(_share(label, members) for (_, label), members in sorted(classes.items()))


def _weeks(arrivals: Sequence[Arrival]) -> tuple[SubmissionWeek, ...]:
    """Of seven days from the first submission; longer if there would be too many to see."""
    first, last = arrivals[0].at, arrivals[-1].at
    length = WEEK_S * max(1, -(-int((last - first) // WEEK_S + 1) // MOST_WEEKS))
    weeks: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        weeks.setdefault(int((arrival.at - first) // length), []).append(arrival)
    return tuple(_week(number * length, members) for number, members in sorted(weeks.items()))


def _week(start_s: Seconds, members: Sequence[Arrival]) -> SubmissionWeek:
    hours = sum(map(gpu_seconds, members)) / HOUR_S
    lasted = [arrival.work_s for arrival in members]
    p25_s, median_s, p75_s = (float(np.percentile(lasted, part)) for part in (25, 50, 75))
    return SubmissionWeek(start_s, len(members), hours, p25_s, median_s, p75_s)
