"""An instance folder of ANDREAS: jobs, their times, nodes and costs in four CSV files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath, makedirs
from os.path import isdir, join
from typing import TypeVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Node, Option, Seconds
from dovetail.models.cost import FREE, Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.models.workload import Arrival
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Read,
    Row,
    amount,
    column,
    given,
    positive,
    whole,
)
from dovetail.traces.readers.rows import each
from dovetail.traces.spreadsheets import escaped
from dovetail.traces.trace import Trace, put_in_order

T = TypeVar("T")

FILES = JOBS, TIMES, NODES, RATES = (
    "Lof_Selectjobs.csv", "SelectJobs_times.csv", "tNodes.csv", "GPU-costs.csv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instance:
    """A trace, the cluster that it runs on, and all costs."""

    trace: Trace
    nodes: tuple[Node, ...]
    costs: Costs


def is_instance(path: str | PathLike[str]) -> bool:
    return isdir(path)


def read_instance(path: str | PathLike[str]) -> Instance:
    folder = fspath(path)
    rates, price, pue = _read_rates(join(folder, RATES))
    nodes, by_node = _read_nodes(join(folder, NODES), rates)
    options = _read_times(join(folder, TIMES))
    arrivals = _read_jobs(join(folder, JOBS), options, nodes)
    put_in_order(arrivals)
    priced = Hourly([price], "price") if price else FREE
    costs = Costs(rates, priced, pue=pue, by_node=by_node)
    return Instance(Trace(arrivals, folder, "andreas"), nodes, costs)


# ------------------------------------------------------------------------------------------- reading


def _of(what: str, name: Read[str], read: Read[T]) -> Read[tuple[str, T]]:
    """The name in a row, and the parsed rest; a mistake is reported with the name."""

    def named(row: Row) -> tuple[str, T]:
        own = name(row)
        try:
            return own, read(row)
        except CellError as error:
            raise CellError(f"{what} {own!r}: {error}") from None

    return named


def _read_rates(path: str) -> tuple[dict[str, NodeRates], float, float]:
    """Rates by kind, the price per kWh and the PUE; without power only the rates."""

    def reader(header: Header) -> Read[tuple[str, int, float, float, float, float]]:
        kind, gpus = column(header, "GPUtype", given), column(header, "nGPUs", positive(whole))
        cost = column(header, "cost", amount)
        names = {name.partition("_")[0]: name for name in header.index}  # without their units
        has_power = "powerconsumption" in names
        watts = column(header, names["powerconsumption"], amount) if has_power else _nothing
        price = column(header, names["energycost"], amount) if has_power else _nothing
        pue = column(header, "PUE", _at_least_1) if has_power else _nothing
        return lambda row: (kind(row), gpus(row), cost(row), watts(row), price(row), pue(row))

    tables: dict[str, dict[int, tuple[float, float]]] = {}
    price = pue = 0.0
    for _, (kind, gpus, cost, watts, *site) in each(path, reader):
        tables.setdefault(kind, {})[gpus] = (cost, watts)
        price, pue = site
    rates = {kind: _rates(path, kind, table) for kind, table in tables.items()}
    return rates, price, pue or 1.0


def _nothing(row: Row) -> float:
    return 0.0


def _at_least_1(text: str) -> float:
    value = amount(text)
    if value < 1.0:
        raise ValueError("is less than 1")
    return value


def _rates(path: str, kind: str, table: Mapping[int, tuple[float, float]]) -> NodeRates:
    for gpus in range(1, max(table) + 1):
        if gpus not in table:
            raise BadInput(f"{path}: kind {kind!r} has no cost for {gpus} busy GPUs; add a row")
    rows = [(0.0, 0.0), *(table[gpus] for gpus in sorted(table))]
    watts = tuple(watts for _, watts in rows)
    return NodeRates(watts if any(watts) else (), tuple(cost for cost, _ in rows))


def _read_nodes(
    path: str, rates: Mapping[str, NodeRates]
) -> tuple[tuple[Node, ...], dict[str, float]]:
    def reader(header: Header) -> Read[tuple[str, tuple[str, int, float]]]:
        name, kind = column(header, "ID", given), column(header, "GPUtype", given)
        gpus, cost = column(header, "nGPUs", positive(whole)), column(header, "cost", amount)
        return _of("node", name, lambda row: (kind(row), gpus(row), cost(row)))

    nodes: dict[str, Node] = {}
    by_node: dict[str, float] = {}
    for line, (name, (kind, gpus, cost)) in each(path, reader):
        if name in nodes:
            raise BadInput(f"{path}:{line}: node {name!r} is there twice; node ids must differ")
        known = len(rates[kind].per_hour) - 1 if kind in rates else 0
        if gpus > known:
            raise BadInput(
                f"{path}:{line}: node {name!r} has {gpus} GPUs of kind {kind!r}, and {RATES} has the "
                f"cost of {known} busy ones; add rows for the others"
            )
        nodes[name] = Node(name, gpus, kind)
        if cost:
            by_node[name] = cost
    if not nodes:
        raise BadInput(f"{path} has no nodes below its header")
    return tuple(nodes.values()), by_node


def _read_times(path: str) -> dict[str, list[Option]]:
    def reader(header: Header) -> Read[tuple[str, Option]]:
        job, kind = column(header, "ID", given), column(header, "GPUtype", given)
        gpus, took = (
            column(header, "nGPUs", positive(whole)),
            column(header, "ExecutionTime", amount),
        )
        return _of("job", job, lambda row: Option(kind(row), gpus(row), took(row)))

    options: dict[str, list[Option]] = {}
    for _, (job_id, option) in each(path, reader):
        options.setdefault(job_id, []).append(option)
    return options


def _read_jobs(
    path: str, options: Mapping[str, Sequence[Option]], nodes: Sequence[Node]
) -> list[Arrival]:
    def reader(header: Header) -> Read[tuple[str, tuple[Seconds, Seconds, float]]]:
        name, at = column(header, "ID", given), column(header, "SubmissionTime", amount)
        deadline, weight = (column(header, own, amount) for own in ("Deadline", "TardinessWeight"))
        return _of("job", name, lambda row: (at(row), deadline(row), weight(row)))

    widest: dict[str, int] = {}
    for node in nodes:
        widest[node.kind] = max(node.gpus, widest.get(node.kind, 0))
    arrivals: dict[str, Arrival] = {}
    for line, (name, (at, deadline, weight)) in each(path, reader):
        where = f"{path}:{line}: job {name!r}"
        if name in arrivals:
            raise BadInput(f"{where} is there twice; job ids must differ")
        if deadline < at:
            raise BadInput(f"{where} is due at {deadline:g}, before it comes at {at:g}")
        arrivals[name] = _arrival(where, name, at, deadline, weight, options.get(name, ()), widest)
    if not arrivals:
        raise BadInput(f"{path} has no jobs below its header")
    return list(arrivals.values())


def _arrival(
    where: str,
    name: str,
    at: Seconds,
    deadline: Seconds,
    weight: float,
    options: Sequence[Option],
    widest: Mapping[str, int],
) -> Arrival:
    usable = [option for option in options if option.gpus <= widest.get(option.kind, 0)]
    if not usable:
        ways = ", ".join(f"{option.gpus} {option.kind}" for option in options) or "none"
        raise BadInput(f"{where} can run on no node here; {TIMES} has {ways}")
    try:
        job = timed_job(name, options, usable, deadline=deadline, late_cost_per_s=weight)
    except ValueError as error:
        raise BadInput(f"{where.removesuffix(f'job {name!r}')}{error}") from None
    return Arrival(at, job, job.options[0].seconds)


def timed_job(
    name: str,
    options: Sequence[Option],
    usable: Sequence[Option],
    *,
    deadline: Seconds | None,
    late_cost_per_s: float | None,
    priority: float = 0.0,
) -> Job:
    """A job with options. A policy that does not choose gives it the fewest GPUs it may have."""
    gpus = min(option.gpus for option in usable)
    kinds = sorted({option.kind for option in usable if option.gpus == gpus})
    ranked = sorted(
        options, key=lambda option: (option.gpus != gpus or option.kind not in kinds, option)
    )
    return Job(
        JobId(name),
        gpus,
        kinds=tuple(kinds),
        priority=priority,
        deadline=deadline,
        late_cost_per_s=late_cost_per_s,
        options=tuple(ranked),
    )


# ------------------------------------------------------------------------------------------- writing


def write_instance(path: str | PathLike[str], instance: Instance) -> None:
    """Write the four files into a folder, which is created if needed."""
    folder = fspath(path)
    makedirs(folder, exist_ok=True)
    costs, arrivals = instance.costs, instance.trace.arrivals
    price, pue = costs.price.mean, costs.pue
    _write(
        join(folder, RATES),
        ("GPUtype", "nGPUs", "PowerConsumption[W]", "EnergyCost[€/kWh]", "PUE", "cost"),
        [
            (kind, busy, costs.watts(kind, busy) / pue, price, pue, costs.per_hour(kind, busy))
            for kind, rates in costs.rates.items()
            for busy in range(1, max(len(rates.watts), len(rates.per_hour)))
        ],
    )
    _write(
        join(folder, NODES),
        ("ID", "GPUtype", "nGPUs", "cost"),
        [(n.id, n.kind, n.gpus, costs.by_node.get(n.id, 0.0)) for n in instance.nodes],
    )
    _write(
        join(folder, TIMES),
        ("ID", "GPUtype", "nGPUs", "GPUf", "ExecutionTime"),
        [
            (a.job.id, o.kind, o.gpus, 1.0, o.seconds)
            for a in arrivals
            for o in sorted(a.job.options)
        ],
    )
    _write(
        join(folder, JOBS),
        ("ID", "SubmissionTime", "Deadline", "TardinessWeight", "MinExecTime", "MaxExecTime"),
        [_job_row(arrival, costs) for arrival in arrivals],
    )


def _job_row(arrival: Arrival, costs: Costs) -> tuple[object, ...]:
    job, times = arrival.job, [option.seconds for option in arrival.job.options]
    return job.id, arrival.at, job.deadline, costs.late_per_s(job), min(times), max(times)


def _write(path: str, header: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([escaped(own) if isinstance(own, str) else own for own in row])
