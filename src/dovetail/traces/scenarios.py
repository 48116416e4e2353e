"""Instances drawn by chance as the authors of ANDREAS draw theirs, on the cluster they measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from random import Random
from typing import Final, NamedTuple

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Option, Seconds
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly
from dovetail.models.workload import Arrival
from dovetail.traces.instances import Instance, timed_job
from dovetail.traces.trace import Trace

PRICE, PUE = 0.17168313, 1.33  # money per kWh, and power of the site over that of its nodes
# Watts of a node with 1, 2, … busy GPUs. The cost of two in a TURING node was made with 480 W.
WATTS: Final[Mapping[str, tuple[float, ...]]] = {
    "TESLA": (530.0, 700.0, 870.0, 1040.0),
    "TURING": (400.0, 470.0),
}
CHARGED_WATTS: Final = {"TESLA": (530.0, 700.0, 870.0, 1040.0), "TURING": (400.0, 480.0)}
MOST_GPUS: Final = 2  # that a job was timed with
IN_A_CLUSTER: Final = 10  # jobs that come at one rate
HIGH, LOW = 2.5, 10.0  # by how much arrivals are slower than the nodes could bear at best
WEIGHTS: Final = (0.0002537, 0.0004440)  # money a second after the deadline


class Application(NamedTuple):
    """Seconds per epoch on one GPU of a TESLA node, on two, and on one of a TURING node."""

    one: float
    two: float
    slow: float
    epochs: tuple[int, ...]

    def options(self, epochs: int) -> list[Option]:
        times = (("TESLA", 1, self.one), ("TESLA", 2, self.two), ("TURING", 1, self.slow))
        return [Option(kind, gpus, seconds * epochs) for kind, gpus, seconds in times]


APPLICATIONS: Final = (  # measured by the authors (data_server.csv of their repository)
    Application(43.0842, 30.5512, 110.7112, (120, 160, 320)),  # a large LSTM
    Application(43.0261, 30.5871, 110.6581, (120, 160, 320)),  # a small one
    Application(51.6221, 41.2372, 88.9881, (120, 160)),  # EfficientNet
    Application(20.5382, 17.8042, 41.2582, (160, 320)),  # a convolutional network
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many nodes and jobs, and how fast they come: high, mixed, low, or exponential:5000, which is
    one job every 5000 seconds for each node."""

    nodes: int = 10
    jobs: int = 100
    load: str = "high"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.jobs < 1:
            raise BadInput(f"cannot make {self.jobs} jobs for {self.nodes} nodes: give 1 or more")
        if self.load not in ("high", "mixed", "low") and not 0 < self.mean_gap_s < inf:
            raise BadInput(
                f"there is no load {self.load!r}; choose high, mixed, low or exponential:5000"
            )

    @property
    def mean_gap_s(self) -> Seconds:
        """Of an exponential load; 0 for any other."""
        name, _, mean = self.load.partition(":")
        try:
            return float(mean) / self.nodes if name == "exponential" else 0.0
        except ValueError:
            return 0.0


def draw(scenario: Scenario) -> Instance:
    """The same scenario gives the same instance everywhere."""
    ways = [
        application.options(epochs) for application in APPLICATIONS for epochs in application.epochs
    ]
    what, when, how = (Random(f"{part} {scenario.seed}").random for part in ("what", "when", "how"))
    options = [ways[int(what() * len(ways))] for _ in range(scenario.jobs)]
    at, arrivals = 0.0, []
    for number, (own, gap) in enumerate(zip(options, _gaps(scenario, options), strict=True), 1):
        times = [option.seconds for option in own]
        due = at + min(times) + how() * (max(times) - min(times))
        late = WEIGHTS[0] + how() * (WEIGHTS[1] - WEIGHTS[0])
        job = timed_job(f"JJ{number}", own, own, deadline=due, late_cost_per_s=late)
        arrivals.append(Arrival(at, job, job.options[0].seconds))
        at -= gap * log(1.0 - when())
    return Instance(Trace(arrivals, format="andreas"), cluster(scenario.nodes), costs())


def _gaps(scenario: Scenario, options: Sequence[Sequence[Option]]) -> Iterator[Seconds]:
    """The mean time from each job to the next."""
    if scenario.mean_gap_s:
        yield from [scenario.mean_gap_s] * len(options)
        return
    for first in range(0, len(options), IN_A_CLUSTER):
        members = options[first : first + IN_A_CLUSTER]
        alone = [min(option.seconds for option in own if option.gpus == 1) for own in members]
        borne = sum(scenario.nodes * MOST_GPUS / seconds for seconds in alone) / len(alone)
        calm = scenario.load == "low" or (scenario.load == "mixed" and first // IN_A_CLUSTER % 2)
        yield from [(LOW if calm else HIGH) / borne] * len(members)


def cluster(nodes: int) -> tuple[Node, ...]:
    kinds = [(kind, len(watts)) for kind, watts in WATTS.items()]
    return tuple(
        Node(f"n{i + 1}", gpus, kind)
        for i, (kind, gpus) in enumerate(kinds[i % len(kinds)] for i in range(nodes))
    )


def costs() -> Costs:
    rates = {
        kind: NodeRates(
            (0.0, *watts),
            (0.0, *(charged / 1000 * PRICE * PUE for charged in CHARGED_WATTS[kind])),
        )
        for kind, watts in WATTS.items()
    }
    return Costs(rates, Hourly([PRICE], "price"), pue=PUE)
