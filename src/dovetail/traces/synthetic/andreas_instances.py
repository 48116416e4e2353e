"""Instances drawn at random as the authors of ANDREAS draw theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from random import Random
from typing import Final

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Option, Seconds
from dovetail.models.workload import Arrival
from dovetail.traces.readers.andreas_folder import Instance, timed_job
from dovetail.traces.synthetic.andreas_sites import SITES, Site
from dovetail.traces.trace import Trace

IN_A_CLUSTER: Final = 10  # jobs that arrive at one rate
HIGH, LOW = 2.5, 10.0  # how many times slower jobs arrive than the nodes could serve them at best


@dataclass(frozen=True, slots=True)
class Scenario:
    """The number of nodes and of jobs (besides one at the very start), the load (high, mixed, low,
    or exponential:5000, which is one job every 5000 seconds for each node), and the site."""

    nodes: int = 10
    jobs: int = 100
    load: str = "high"
    seed: int = 0
    site: str = "andreas"

    def __post_init__(self) -> None:
        if self.site not in SITES:
            raise BadInput(f"there is no site {self.site!r}; choose from {', '.join(SITES)}")
        if self.nodes < 1 or self.jobs < 0:
            raise BadInput(f"cannot make {self.jobs} jobs for {self.nodes} nodes: give 1 or more")
        if not 0 <= self.seed < 2**32:
            raise BadInput(f"a seed of {self.seed} cannot be used; give 0 to {2**32 - 1}")
        if self.load not in ("high", "mixed", "low") and not 0 < self.mean_gap_s < inf:
            raise BadInput(
                f"there is no load {self.load!r}; choose high, mixed, low or exponential:5000"
            )

    @property
    def mean_gap_s(self) -> Seconds:
        """The mean gap of an exponential load; 0 for any other."""
        name, _, mean = self.load.partition(":")
        try:
            return float(mean) / self.nodes if name == "exponential" else 0.0
        except ValueError:
            return 0.0


def draw(scenario: Scenario) -> Instance:
    """The same scenario gives the same instance everywhere, equal to the authors' job for job."""
    site = SITES[scenario.site]
    chance = seeded(scenario.seed)
    options = [site.types[_below(len(site.types), chance)] for _ in range(scenario.jobs + 1)]
    chance = seeded(scenario.seed)
    comes_at = _submissions(scenario, options, chance)
    arrivals = [
        _arrival(number, own, at, site, chance)
        for number, (own, at) in enumerate(zip(options, comes_at, strict=True), 1)
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    return Instance(Trace(arrivals, format="andreas"), cluster(site, scenario.nodes), site.costs)


def _arrival(
    number: int, options: Sequence[Option], at: Seconds, site: Site, chance: Random
) -> Arrival:
    times = [option.seconds for option in options]
    due = at + min(times) + chance.random() * (max(times) - min(times))
    late = site.late[0] + chance.random() * (site.late[1] - site.late[0])
    job = timed_job(f"JJ{number}", options, options, deadline=due, late_cost_per_s=late)
    return Arrival(at, job, job.options[0].seconds)


def _submissions(
    scenario: Scenario, options: Sequence[Sequence[Option]], chance: Random
) -> list[Seconds]:
    """By job. The first is submitted at once, the others after exponential gaps."""
    comes_at, at, first = [0.0] * len(options), 0.0, True
    for number, members in enumerate(_clusters(scenario, len(options))):
        gap_s = scenario.mean_gap_s or _cluster_gap_s(
            scenario, number, [options[i] for i in members]
        )
        for i in members:
            at -= 0.0 if first else gap_s * log(1.0 - chance.random())
            comes_at[i], first = at, False
    return comes_at


def _clusters(scenario: Scenario, jobs: int) -> list[list[int]]:
    """Groups of about ten jobs that arrive one after the other at one rate: every n-th by its name."""
    if scenario.mean_gap_s:
        return [list(range(jobs))]
    by_name = sorted(range(jobs), key=lambda i: str(i + 1))
    number = max(1, jobs // IN_A_CLUSTER)
    return [by_name[first::number] for first in range(number)]


def _cluster_gap_s(scenario: Scenario, number: int, options: Sequence[Sequence[Option]]) -> Seconds:
    """The mean time between a group's jobs: so many times longer than the nodes could bear at best."""
    alone = [min(option.seconds for option in own if option.gpus == 1) for own in options]
    gpus = scenario.nodes * SITES[scenario.site].most_gpus
    borne = sum(gpus / seconds for seconds in alone) / len(alone)
    calm = scenario.load == "low" or (scenario.load == "mixed" and number % 2 == 1)
    return (LOW if calm else HIGH) / borne


def seeded(seed: int) -> Random:
    """The Mersenne Twister seeded by one number as its inventors (and the authors' tool) do it."""
    words = [seed]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + i) % 2**32)
    chance = Random()
    chance.setstate((3, (*words, 624), None))
    return chance


def _below(limit: int, chance: Random) -> int:
    """An integer below the bound: enough random bits, drawn again until it is small enough."""
    mask = (1 << (limit - 1).bit_length()) - 1
    while (number := chance.getrandbits(32) & mask) >= limit:
        pass
    return number


def cluster(site: Site, nodes: int) -> tuple[Node, ...]:
    kinds = list(site.gpus.items())
    return tuple(
        Node(f"n{i + 1}", gpus, kind)
        for i, (kind, gpus) in enumerate(kinds[i % len(kinds)] for i in range(nodes))
    )
