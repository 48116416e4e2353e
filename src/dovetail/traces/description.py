"""What a trace is like: a page of figures to read before any simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from dovetail.core.model import WHOLE_GPU, Node, Seconds
from dovetail.models.workload import Arrival
from dovetail.quantiles import quantile
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
    """The figures of a trace. Loads are None when no cluster was given."""

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
    notes: tuple[str, ...] = ()  # what the reader assumed or passed over

    def __str__(self) -> str:
        from dovetail.traces.description_text import rendered

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
    """How long it has its GPUs if nobody disturbs it: until each attempt dies, as far as it is tried
    again, and then its work."""
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
    """Over the whole span, and on the day (of submission) that asks for most."""
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
    """A class and its place: none, part of one, 1, 2, 3-4, 5-8, 9-16 and so on."""
    gpus = arrival.job.gpus
    if gpus == 0:
        return -2, CPU_ONLY
    if arrival.job.share < WHOLE_GPU:
        return -1, PART
    power = (gpus - 1).bit_length()
    low, high = (1 << power) // 2 + 1, 1 << power
    return power, str(high) if high <= 2 else f"{low}-{high}"
