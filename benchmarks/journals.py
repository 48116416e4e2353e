"""Do two versions of the code decide alike? The journals of every policy in many worlds, as digests.

`python -m benchmarks.journals record FILE` notes them down, `compare FILE` tells which are others now.
With PYTHONPATH=elsewhere/src:. the sources of another version are run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

from dovetail import traces
from dovetail.core.model import Estimate, Interruption, Job, JobId, Node, Tenant
from dovetail.models.speed import same_for_all_pairs
from dovetail.models.workload import Arrival
from dovetail.policies.placement import PLACEMENTS
from dovetail.policies.registry import BUILTIN
from dovetail.testing import World, policy_for, random_world, run_world, wild_world

GOLDEN = Path(__file__).parents[2] / "shared" / "golden" / "simulators"
SMALL_WORLDS = 250
CROWDED_WORLDS = 60

# Short turns for worlds of seconds, and what policies know of durations, right and wrong.
_VARIANTS = {
    "las": ["las:quantum=60"],
    "tiresias": ["tiresias:limits=60/200", "tiresias:queues=2:limits=60:promote=2"],
    "gittins": ["gittins:quantum=60"],
    "round-robin": ["round-robin:quantum_s=7"],
    "multilevel-feedback": ["multilevel-feedback:levels=3:quantum_s=4"],
    "least-laxity": ["least-laxity:quantum_s=5"],
    "gandiva": ["gandiva:quantum_s=6", "gandiva:quantum_s=6:pack=false"],
    "fair-share": ["fair-share:half_life_s=50"],
    "srtf": ["srtf", "srtf:predictor=user-estimate", "srtf:gain_s=5"],
    "easy": ["easy", "easy:predictor=noisy-oracle", "easy:predictor=user-estimate"],
    "conservative": [
        *("conservative", "conservative:predictor=noisy-oracle"),
        "conservative:predictor=user-estimate",
    ],
    "andreas-random-greedy": ["andreas-random-greedy:passes=10"],
    "andreas-local-search": ["andreas-local-search:passes=5:repaired=true"],
    "andreas-path-relinking": ["andreas-path-relinking:passes=5:repaired=true"],
}
TEXTS = [text for name in BUILTIN for text in _VARIANTS.get(name, [name])]
_FOR_LONG_JOBS = [
    *(
        "fifo",
        "fifo-skip",
        "easy",
        "easy:predictor=noisy-oracle",
        "conservative",
        "sjf",
        "sjf-skip",
    ),
    *("conservative:predictor=noisy-oracle", "psjf", "srtf", "srsf", "tiresias", "gittins", "edf"),
    *("multilevel-feedback", "priority", "fair-share", "drf", "qssf", "model-similarity"),
    "round-robin:quantum_s=3600",
]


def crowded_world(chance: Random) -> World:
    """A few nodes whose CPUs or memory are the bottleneck, many jobs, several users."""
    cpus, memory_gb = chance.choice([16.0, 24.0, 31.4]), chance.choice([64.0, 100.0])
    cluster = [
        Node(f"n{i}", 8, chance.choice(["gpu", "gpu", "old"]), cpus=cpus, memory_gb=memory_gb)
        for i in range(chance.randint(2, 6))
    ]
    costs = Interruption(1.0, 2.0, 0.0) if chance.random() < 0.5 else Interruption()
    arrivals = [_crowding(chance, number, costs) for number in range(chance.randint(20, 80))]
    arrivals.sort(key=lambda arrival: arrival.at)
    quotas = [Tenant("a", 6.0), Tenant("b", 20.0)] if chance.random() < 0.2 else []
    pairs = same_for_all_pairs(chance.choice([0.4, 0.7])) if chance.random() < 0.5 else None
    return World(arrivals, cluster, quotas, interference=pairs)


def _crowding(chance: Random, number: int, costs: Interruption) -> Arrival:
    gpus = chance.choice([1, 1, 1, 2, 2, 4, 8, 12])
    at, work_s = 90.0 * chance.random(), chance.choice([5.0, 20.0, 60.0, 200.0 * chance.random()])
    asked = Job(
        JobId(f"j{number}"),
        gpus,
        user=f"u{chance.randrange(5)}",
        tenant=chance.choice(["", "a", "b"]),
        priority=chance.choice([0.0, 0.0, 1.0]),
        deadline=at + chance.choice([1.0, 3.0]) * work_s,
        estimate=Estimate(work_s * chance.choice([1.0, 0.5, 3.0])),
        interruption=costs,
    )
    what = chance.random()
    if what < 0.7:
        cpus, memory_gb = chance.choice([1.0, 2.0, 3.0, 3.3]), chance.choice([0.0, 4.0, 8.0])
        asked = replace(asked, cpus=cpus * gpus, memory_gb=memory_gb * gpus)
    elif what < 0.78:
        asked = replace(asked, gpus=1, share=chance.choice([250, 500, 700]), cpus=1.0)
    elif what < 0.84:
        asked = replace(asked, gpus=0, cpus=chance.choice([1.0, 4.0]), memory_gb=2.0)
    return Arrival(at, asked, work_s)


def _worlds() -> Iterator[tuple[str, World, int]]:
    """The name of each, and how many policies are tried on it; 0: all that are made for long jobs."""
    for number in range(SMALL_WORLDS):
        yield f"wild/{number}", wild_world(Random(f"journals/{number}")), 4
        yield f"random/{number}", random_world(Random(f"journals/{number}")), 4
    for number in range(CROWDED_WORLDS):
        yield f"crowded/{number}", crowded_world(Random(f"journals/{number}")), 12
    for name, jobs in (("w120", 120), ("trace3", 250)):
        path = GOLDEN / f"{name}.csv"
        if path.exists():
            cluster = [Node(f"n{i}", 8) for i in range(8)]
            yield name, World(traces.read(str(path)).arrivals[:jobs], cluster), 0


def digests() -> Iterator[tuple[str, str]]:
    """World, policy and placement; the digest of the journal, or the error that it ended with."""
    for name, world, number in _worlds():
        chance = Random(name)
        for text in sorted(chance.sample(TEXTS, number)) if number else _FOR_LONG_JOBS:
            place = chance.choice(sorted(PLACEMENTS))
            try:
                told = run_world(world, policy_for(world, text, place)).text
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
            yield f"{name} {text} {place}", sha256(told.encode()).hexdigest()[:16]


def main(what: str, file: str) -> int:
    if what == "record":
        Path(file).write_text(json.dumps(dict(digests()), indent=0))
        return 0
    known = json.loads(Path(file).read_text())
    differing = [name for name, digest in digests() if known.get(name) != digest]
    print("\n".join(differing[:40]))
    print(f"{len(differing)} of {len(known)} journals differ")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
