"""A request to the ANDREAS optimiser, read and checked; each mistake has the code of that service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, Node, Option, Seconds
from dovetail.models.cost import Costs, NodeRates
from dovetail.traces.clusters.cluster_text import MOST_GPUS
from dovetail.traces.readers.andreas_folder import timed_job

TIME_FORMAT: Final = "%a %d %b %Y, %H.%M.%S"

NO_JOBS, NO_NODES, NO_TIME, NO_COSTS = 414, 424, 434, 474
NO_DEADLINE, NO_PROFILE, NO_RATE, NO_ANSWER = 444, 454, 484, 464
MALFORMED: Final = 400
LARGEST: Final = 1e12


class BadRequest(BadInput):
    """What is wrong with the request, and the code that the service has for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code: Final = code


@dataclass(frozen=True, slots=True)
class Wanted:
    """One job of the request: when it came, and where it runs already."""

    job: Job
    submitted_at: Seconds
    node: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Everything that the decision rests on. Time counts from the first submission."""

    now: Seconds
    began: datetime
    jobs: Sequence[Wanted]
    nodes: Sequence[Node]
    free: Mapping[str, int]  # GPUs that nobody uses, by node
    costs: Costs
    method: str = ""
    seed: int | None = None


def read_request(data: object) -> PlanRequest:
    given = _object(data, "the request")
    given = _object(given.get("request", given), "the request")  # as in the recorded files
    jobs = _part(given, "jobs", NO_JOBS)
    nodes = _part(given, "nodes", NO_NODES)
    if not given.get("currentTime"):
        raise BadRequest(NO_TIME, "the request has no 'currentTime'; give one")
    rates = _part(given, "GPUcosts", NO_COSTS)
    now = _time(given["currentTime"], "currentTime")
    came = [_time(_object(job, f"job {name!r}").get("SubmissionTime"), f"SubmissionTime of job {name!r}")
            for name, job in jobs.items()]  # fmt: skip
    for name, at in zip(jobs, came, strict=True):
        if at > now:
            raise BadRequest(MALFORMED, f"job {name!r} is submitted after the currentTime")
    began = min([now, *came])
    cluster = [_node(name, _object(node, f"node {name!r}")) for name, node in nodes.items()]
    running = _object(given.get("currentScheduling") or {}, "currentScheduling")
    by_node = {name: _number(node, "cost", f"node {name!r}", 0.0) for name, node in nodes.items()}
    return PlanRequest(
        (now - began).total_seconds(),
        began,
        [
            _wanted(name, job, began, at, running.get(name), cluster)
            for (name, job), at in zip(jobs.items(), came, strict=True)
        ],
        cluster,
        {name: int(_number(node, "free_nGPUs", f"node {name!r}")) for name, node in nodes.items()},
        Costs(_rates(rates, cluster), by_node={n: cost for n, cost in by_node.items() if cost}),
        str(given.get("method") or ""),
        int(_number(given, "seed", "the request")) if "seed" in given else None,
    )


# -------------------------------------------------------------------------------------------- parts


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadRequest(MALFORMED, f"{what} is no JSON object")
    return value


def _part(given: Mapping[str, Any], name: str, code: int) -> Mapping[str, Any]:
    if not given.get(name):
        raise BadRequest(code, f"the request has no {name!r}; give at least one")
    return _object(given[name], name)


def _number(given: Mapping[str, Any], name: str, whose: str, default: float | None = None) -> float:
    value = given.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRequest(MALFORMED, f"{name} of {whose} is no number: {value!r}") from None
    if not 0 <= number <= LARGEST:
        raise BadRequest(MALFORMED, f"{name} of {whose} is {number:g}; give 0 or more")
    return number


def _time(value: object, what: str) -> datetime:
    try:
        return datetime.strptime(str(value), TIME_FORMAT)
    except ValueError:
        raise BadRequest(
            MALFORMED, f"{what} is {value!r}; write it as Tue 21 Jul 2020, 17.56.59"
        ) from None


def _node(name: str, given: Mapping[str, Any]) -> Node:
    gpus, kind = int(_number(given, "total_nGPUs", f"node {name!r}")), given.get("GPUtype")
    if not isinstance(kind, str) or not kind:
        raise BadRequest(MALFORMED, f"node {name!r} has no GPUtype")
    if gpus > MOST_GPUS:
        raise BadRequest(MALFORMED, f"node {name!r} has {gpus} GPUs; give at most {MOST_GPUS}")
    return Node(name, gpus, kind, prompt=True)


def _wanted(
    name: str,
    given: Mapping[str, Any],
    began: datetime,
    came: datetime,
    running: object,
    cluster: Sequence[Node],
) -> Wanted:
    whose = f"job {name!r}"
    priority = _number(given, "Priority", whose, 0.0)
    if not given.get("Deadline") or priority not in (1, 2, 3, 4, 5):
        raise BadRequest(NO_DEADLINE, f"{whose} needs a Deadline and a Priority of 1 to 5")
    deadline = (_time(given["Deadline"], f"Deadline of {whose}") - began).total_seconds()
    options = _options(given, whose)
    widest = {
        kind: max(n.gpus for n in cluster if n.kind == kind) for kind in {n.kind for n in cluster}
    }
    usable = [option for option in options if option.gpus <= widest.get(option.kind, 0)]
    if not usable:
        ways = ", ".join(f"{option.gpus} {option.kind}" for option in options)
        raise BadRequest(
            NO_PROFILE, f"{whose} has ProfilingData for no node of the request, only for {ways}"
        )
    try:
        job = timed_job(
            name, options, usable, deadline=deadline, late_cost_per_s=None, priority=priority
        )
    except ValueError as error:
        raise BadRequest(NO_PROFILE, str(error)) from None
    at = (came - began).total_seconds()
    if running is None:
        return Wanted(job, at)
    place = _object(running, f"currentScheduling of {whose}")
    node, gpus = str(place.get("node")), int(_number(place, "nGPUs", whose))
    kind = next((n.kind for n in cluster if n.id == node), None)
    if kind is None or job.option(kind, gpus) is None:
        raise BadRequest(
            MALFORMED,
            f"{whose} runs on {gpus} GPUs of node {node!r}, which is none of its settings",
        )
    return Wanted(job, at, node, gpus)


def _options(given: Mapping[str, Any], whose: str) -> list[Option]:
    epochs = _number(given, "Epochs", whose)
    profile = _object(given.get("ProfilingData") or {}, f"ProfilingData of {whose}")
    options = []
    for kind, table in profile.items():
        times = _object(table, f"ProfilingData of {whose}")
        for gpus, time in times.items():
            on = f"{whose} on {gpus} {kind}"
            seconds = _number({"the time": time}, "the time", on) * epochs
            if not gpus.isdecimal() or not 1 <= int(gpus[:9]) <= MOST_GPUS or not seconds:
                raise BadRequest(
                    NO_PROFILE, f"{whose} takes {seconds:g} s on {gpus} {kind}; give more than 0 s"
                )
            options.append(Option(kind, int(gpus), seconds))
    if not options:
        raise BadRequest(NO_PROFILE, f"{whose} has no ProfilingData")
    return options


def _rates(given: Mapping[str, Any], cluster: Sequence[Node]) -> dict[str, NodeRates]:
    rates = {}
    for kind, table in given.items():
        row = _object(table, f"GPUcosts of {kind}")
        costs = [_number(row, gpus, f"GPUcosts of {kind}") for gpus in _counting(row)]
        rates[kind] = NodeRates(per_hour=(0.0, *costs))
    for node in cluster:
        known = len(rates[node.kind].per_hour) - 1 if node.kind in rates else 0
        if node.gpus > known:
            raise BadRequest(
                NO_RATE,
                f"GPUcosts have {known} entries for kind {node.kind!r}; node {node.id!r} has "
                f"{node.gpus} GPUs",
            )
    return rates


def _counting(row: Mapping[str, Any]) -> list[str]:
    """1, 2, 3, … as far as they are there."""
    found: list[str] = []
    while str(len(found) + 1) in row:
        found.append(str(len(found) + 1))
    return found
