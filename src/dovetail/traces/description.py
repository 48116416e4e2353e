"""The figures of a trace: a page to read before any simulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from textwrap import wrap

from dovetail.core.model import WHOLE_GPU, Node, Seconds
from dovetail.models.workload import Arrival
from dovetail.quantiles import quantile
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.tables import WIDTH, figures_table
from dovetail.traces.readers.cells import clipped
from dovetail.traces.trace import Trace

DAY_S = 86_400.0
HOUR_S = 3600.0
CPU_ONLY, PART = "none", "part"


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Jobs that ask for about the same number of GPUs."""

    gpus: str
    jobs: int
    gpu_hours: float
    median_duration_s: Seconds


@dataclass(frozen=True, slots=True)
class Description:
    """The figures of a trace. Loads are None if no cluster was given."""

    source: str
    format: str
    jobs: int
    span_s: Seconds  # from the first to the last submission
    gpus_min: int
    gpus_median: int
    gpus_max: int
    duration_mean_s: Seconds
    duration_p50_s: Seconds
    duration_p90_s: Seconds
    duration_p99_s: Seconds
    duration_c2: float  # squared coefficient of variation
    gpu_hours: float
    users: int
    tenants: int
    part_of_gpu: float  # share of the jobs that ask for less than one GPU
    jobs_that_fail: int
    bad_rows: int
    sizes: tuple[SizeClass, ...]
    cluster_gpus: int | None = None
    load: float | None = None  # GPU-seconds submitted per GPU-second of the cluster, over the span
    peak_day_load: float | None = None
    peak_day: int | None = None  # counted from 1
    notes: tuple[str, ...] = ()  # assumptions of the reader, and rows or columns it skipped

    def __str__(self) -> str:

        return rendered(self)


def describe(trace: Trace, nodes: Sequence[Node] | None = None) -> Description:
    """The figures of a trace and, given a cluster, how heavily it would load it."""
    arrivals = trace.arrivals
    durations = sorted(arrival.work_s for arrival in arrivals)
    gpus = sorted(arrival.job.gpus for arrival in arrivals)
    span_s = max(a.at for a in arrivals) - min(a.at for a in arrivals) if arrivals else 0.0
    cluster_gpus = None if nodes is None else sum(node.gpus for node in nodes)
    load, peak, day = _loads(arrivals, span_s, cluster_gpus)
    return Description(
        source=trace.source,
        format=trace.format,
        jobs=len(arrivals),
        span_s=span_s,
        gpus_min=gpus[0] if gpus else 0,
        gpus_median=int(median_low(gpus)) if gpus else 0,
        gpus_max=gpus[-1] if gpus else 0,
        duration_mean_s=_mean(durations),
        duration_p50_s=quantile(durations, 0.5),
        duration_p90_s=quantile(durations, 0.9),
        duration_p99_s=quantile(durations, 0.99),
        duration_c2=_c2(durations),
        gpu_hours=sum(map(gpu_seconds, arrivals)) / HOUR_S,
        users=len({arrival.job.user for arrival in arrivals} - {""}),
        tenants=len({arrival.job.tenant for arrival in arrivals} - {""}),
        part_of_gpu=_mean([arrival.job.share < WHOLE_GPU for arrival in arrivals]),
        jobs_that_fail=sum(bool(arrival.failures) for arrival in arrivals),
        bad_rows=len(trace.bad_rows),
        sizes=tuple(_sizes(arrivals)),
        cluster_gpus=cluster_gpus,
        load=load,
        peak_day_load=peak,
        peak_day=day,
        notes=trace.notes,
    )


def running_s(arrival: Arrival) -> Seconds:
    """Seconds on its GPUs without interruption: the failed attempts that are retried, and then its
    work."""
    tried = 0.0
    for dies_after in arrival.failures[: arrival.job.retries + 1]:
        if dies_after >= arrival.work_s:
            return tried + arrival.work_s
        tried += dies_after
    return tried if len(arrival.failures) > arrival.job.retries else tried + arrival.work_s


def gpu_seconds(arrival: Arrival) -> float:
    return running_s(arrival) * arrival.job.gpus * arrival.job.share / WHOLE_GPU


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _c2(values: Sequence[float]) -> float:
    mean = _mean(values)
    return _mean([(value - mean) ** 2 for value in values]) / mean**2 if mean else 0.0


def _loads(
    arrivals: Sequence[Arrival], span_s: Seconds, gpus: int | None
) -> tuple[float | None, float | None, int | None]:
    """Over the whole span, and on the day (of submission) with the highest demand."""
    if not gpus or span_s <= 0:
        return None, None, None
    first = min(arrival.at for arrival in arrivals)
    days: dict[int, float] = {}
    for arrival in arrivals:
        day = int((arrival.at - first) // DAY_S)
        days[day] = days.get(day, 0.0) + gpu_seconds(arrival)
    day, most = max(days.items(), key=lambda item: (item[1], -item[0]))
    total = sum(days.values())
    return total / (gpus * span_s), most / (gpus * min(DAY_S, span_s)), day + 1


def _sizes(arrivals: Iterable[Arrival]) -> Iterable[SizeClass]:
    classes: dict[tuple[int, str], list[Arrival]] = {}
    for arrival in arrivals:
        classes.setdefault(size_class(arrival), []).append(arrival)
    for (_, label), members in sorted(classes.items()):
        durations = sorted(arrival.work_s for arrival in members)
        hours = sum(map(gpu_seconds, members)) / HOUR_S
        yield SizeClass(label, len(members), hours, quantile(durations, 0.5))


def size_class(arrival: Arrival) -> tuple[int, str]:
    """The class and its rank: none, part of one, 1, 2, 3-4, 5-8, 9-16 and so on."""
    gpus = arrival.job.gpus
    if gpus == 0:
        return -2, CPU_ONLY
    if arrival.job.share < WHOLE_GPU:
        return -1, PART
    power = (gpus - 1).bit_length()
    low, high = (1 << power) // 2 + 1, 1 << power
    return power, str(high) if high <= 2 else f"{low}-{high}"


# ------------------------------------------------------------------------------------------- as text

NAMES = 14
SPOKEN = {"": "made here", "-": "standard input"}


def rendered(figures: Description) -> str:
    return "\n".join(line.rstrip()[:WIDTH] for line in [*_lines(figures), "", *_table(figures)])


def _lines(figures: Description) -> Iterator[str]:
    for name, text in _facts(figures):
        yield f"{name:<{NAMES}}{text}"


def _facts(figures: Description) -> Iterator[tuple[str, str]]:
    source = SPOKEN.get(figures.source, figures.source)
    yield "trace", f"{clipped(source)} ({figures.format})"
    yield "jobs", f"{figures.jobs:,} submitted over {duration_text(figures.span_s)}"
    if figures.bad_rows:
        yield "bad rows", f"{figures.bad_rows:,} skipped"
    yield (
        "GPUs a job",
        f"min {figures.gpus_min}, median {figures.gpus_median}, max {figures.gpus_max}",
    )
    if figures.part_of_gpu:
        yield "", f"{figures.part_of_gpu:.1%} of the jobs ask for part of a GPU"
    yield "durations", _durations(figures)
    yield "", f"C² {figures.duration_c2:.2f} (1 is exponential, more is more uneven)"
    yield "work", f"{figures.gpu_hours:,.1f} GPU-hours"
    yield "people", f"{counted(figures.users, 'user')}, {counted(figures.tenants, 'tenant')}"
    if figures.jobs_that_fail:
        fail = "fails" if figures.jobs_that_fail == 1 else "fail"
        yield "failures", f"{counted(figures.jobs_that_fail, 'job')} {fail} at least once"
    if figures.cluster_gpus is not None:
        yield "load", _load(figures)
    for note in figures.notes:
        for part, text in enumerate(wrap(note, WIDTH - NAMES)):
            yield "" if part else "note", text


def _durations(figures: Description) -> str:
    told = {
        "mean": figures.duration_mean_s,
        "median": figures.duration_p50_s,
        "p90": figures.duration_p90_s,
        "p99": figures.duration_p99_s,
    }
    return ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in told.items())


def _load(figures: Description) -> str:
    where = f"on {figures.cluster_gpus:,} GPUs"
    if figures.load is None or figures.peak_day_load is None:
        return f"{where}: none to speak of, all jobs come at once"
    peak = f"{percent(figures.peak_day_load)} on day {figures.peak_day}"
    return f"{where}: {percent(figures.load)} overall, at most {peak}"


def _table(figures: Description) -> list[str]:
    rows = [["GPUs", "jobs", "of jobs", "GPU-hours", "of work", "median"]]
    for size in figures.sizes:
        jobs, work = size.jobs / figures.jobs, size.gpu_hours / (figures.gpu_hours or 1.0)
        rows.append(
            [
                *(size.gpus, f"{size.jobs:,}", f"{jobs:.1%}", f"{size.gpu_hours:,.1f}"),
                *(f"{work:.1%}", duration_text(size.median_duration_s)),
            ]
        )
    return figures_table(rows)


def percent(part: float) -> str:
    """Two significant digits, however small the value."""
    return f"{part:.0%}" if part >= 0.0995 or not part else f"{100 * part:.2g}%"
