"""The evidence in a trace and a cluster for each item of the catalogue: present, derivable, missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isinf
from typing import Any

from dovetail.core.model import WHOLE_GPU, Job, Node
from dovetail.insight.arriving import SURELY_DATES
from dovetail.models.workload import Arrival
from dovetail.traces.trace import Trace

PRESENT, DERIVABLE, MISSING = "present", "derivable", "missing"
WEEK_S = 604_800.0

Found = tuple[str, str]  # a status, and how we know
NOT_HERE: Found = (MISSING, "")


def evidence(trace: Trace, nodes: Sequence[Node], tenants: int = 0) -> Mapping[str, Found]:
    """By item id, for items of which a trace can tell anything. `tenants`: how many have a quota."""
    jobs = [arrival.job for arrival in trace.arrivals]
    return {**_of_jobs(trace, jobs), **_of_cluster(trace, jobs, nodes, tenants), **_of_time(trace)}


def _of_jobs(trace: Trace, jobs: Sequence[Job]) -> Mapping[str, Found]:
    arrivals = trace.arrivals
    timed = "submit_s" not in trace.lacking
    lasting = "duration_s" not in trace.lacking
    options = _told(jobs, lambda job: job.options, "ways to run it, with their times")
    return {
        "J1": (PRESENT, _sizes(jobs)),
        "J2": _told(jobs, lambda job: job.kinds, "kinds"),
        "J3": _told(jobs, lambda job: (job.cpus, job.memory_gb) if job.cpus else None, "requests"),
        "J4": _told(jobs, lambda job: job.user, "users"),
        "J5": _told(jobs, lambda job: job.tenant, "tenants"),
        "J6": _first(
            _told(jobs, lambda job: job.name, "names"), _told(jobs, lambda job: job.group, "groups")
        ),
        "J7": _calendar(trace) if timed else NOT_HERE,
        "J8": _told(jobs, lambda job: job.estimate, "estimates"),
        "J9": _told(jobs, lambda job: job.priority, "priorities"),
        "J10": _told(jobs, lambda job: job.deadline is not None, ""),
        "J11": _told(jobs, lambda job: job.model, "models"),
        "J18": options,
        "J19": options,
        "J25": (DERIVABLE, "from GPUs and time held, in any run") if lasting else NOT_HERE,
        "J30": (PRESENT, "a duration for every job") if lasting else NOT_HERE,
        "J31": _told(arrivals, lambda a: a.failures or a.cancel_at is not None, ""),
        "J32": _told(
            jobs, lambda job: job.interruption.save_s or job.interruption.restore_s, "costs"
        ),
        "J33": _told(jobs, lambda job: job.min_gpus or job.max_gpus, "ranges"),
        "J34": options,
        "J35": _groups(jobs, arrivals if timed else ()),
        "J36": (DERIVABLE, "guessed: runs under 5 minutes") if lasting else NOT_HERE,
    }


def _of_cluster(
    trace: Trace, jobs: Sequence[Job], nodes: Sequence[Node], tenants: int
) -> Mapping[str, Found]:
    racks, kinds = len({node.rack for node in nodes}), sorted({node.kind for node in nodes})
    islands = any(node.island for node in nodes)
    sizes = sorted({node.gpus for node in nodes})
    hosts = any(not isinf(node.cpus) or not isinf(node.memory_gb) for node in nodes)
    split = len({node.tenant for node in nodes} - {""})
    costs = any(job.interruption.save_s or job.interruption.restore_s for job in jobs)
    watts = any(node.gpu_watts for node in nodes)
    return {
        "C1": (PRESENT, f"{racks} racks" if racks > 1 else "islands of GPUs")
        if racks > 1 or islands
        else NOT_HERE,
        "C2": (PRESENT, ", ".join(kinds) if len(kinds) > 1 else "one kind of GPU"),
        "C3": (PRESENT, f"nodes of {' or '.join(map(str, sizes))} GPUs"),
        "C4": NOT_HERE if trace.lacking else (DERIVABLE, "from submissions, durations and nodes"),
        "C5": (PRESENT, "CPUs or memory of the nodes") if hosts else NOT_HERE,
        "C9": (PRESENT, f"{max(tenants, split)} tenants") if tenants or split else NOT_HERE,
        "C12": (PRESENT, "costs of interruption by job") if costs else NOT_HERE,
        **({"J37": (DERIVABLE, "watts of the nodes' GPUs, not by job")} if watts else {}),
    }


def _of_time(trace: Trace) -> Mapping[str, Found]:
    timed = "submit_s" not in trace.lacking
    arrivals = trace.arrivals
    weeks = (arrivals[-1].at - arrivals[0].at) / WEEK_S if arrivals else 0.0
    seen = f"{weeks:.1f} weeks of submissions"
    return {
        "D1": (DERIVABLE, "from times of submission") if timed and weeks else NOT_HERE,
        "D2": (DERIVABLE, seen) if timed and weeks >= 2 else (MISSING, f"only {seen}"),
        "D3": (DERIVABLE, "from durations and GPUs")
        if "duration_s" not in trace.lacking
        else NOT_HERE,
        "D4": (DERIVABLE, seen) if not trace.lacking and weeks >= 3 else (MISSING, f"only {seen}"),
    }


def _told(things: Sequence[Any], what: Callable[[Any], object], noun: str) -> Found:
    """Present if any job has the value, with the number of jobs and of distinct values."""
    values = [value for value in map(what, things) if value]
    if not values:
        return NOT_HERE
    share = len(values) / len(things)
    of = "every job" if share == 1 else f"{max(share, 0.001):.1%} of the jobs"
    return PRESENT, f"{of}, {len(set(values)):,} {noun}" if noun else of


def _first(*found: Found) -> Found:
    return next((each for each in found if each[0] != MISSING), NOT_HERE)


def _sizes(jobs: Sequence[Job]) -> str:
    sizes = {job.gpus for job in jobs}
    shares = " and parts of one" if any(job.share < WHOLE_GPU for job in jobs) else ""
    if len(sizes) == 1:
        return f"{min(sizes)} for every job{shares}"
    return f"{min(sizes)} to {max(sizes)}{shares}"


def _calendar(trace: Trace) -> Found:
    if trace.began_at is not None:
        return PRESENT, "dates"
    if trace.arrivals and trace.arrivals[0].at >= SURELY_DATES:
        return PRESENT, "seconds since 1970"
    return DERIVABLE, "the hour, up to an unknown shift: times are plain seconds"


def _groups(jobs: Sequence[Job], arrivals: Sequence[Arrival]) -> Found:
    told = _told(jobs, lambda job: job.group, "groups")
    if told[0] == PRESENT or not arrivals:
        return told
    alike = sum(_alike(arrivals))
    if not alike:
        return NOT_HERE
    return DERIVABLE, f"guessed: {alike / len(jobs):.1%} of the jobs come in bursts of equal ones"


def _alike(arrivals: Sequence[Arrival]) -> Iterator[bool]:
    """For each job but the first: same owner, name and size as the one before, within 10 s?"""
    before = arrivals[0]
    for arrival in arrivals[1:]:
        near = arrival.at - before.at <= 10.0
        yield near and _identity(arrival.job) == _identity(before.job)
        before = arrival


def _identity(job: Job) -> tuple[object, ...]:
    return job.user, job.tenant, job.name, job.gpus
