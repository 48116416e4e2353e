"""Two services with daily-shaped load and eight training jobs on four processor slots."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from math import pi, sin
from pathlib import Path
from random import Random

from benchmarks.lines import Line
from benchmarks.live import at, daemon
from benchmarks.service_day_simulated import DayAsked, Shares, compared, simulated
from benchmarks.service_stream import Stream, declare, ready, send, wait_until
from dovetail.client.connection import Client
from dovetail.home import home_in

SLOTS, JOBS = 4, 8
SERVICE_S, AT_ONCE, SLO_S = 0.05, 4, 0.5
LEAST_RATE, MOST_RATE = 4.0, 80.0  # requests a second, at night and at noon
DAY_S = 120.0
SAMPLE_S = 0.2
SHIFTS = {"noon": 0.0, "midnight": 0.5}  # of a day
TRAIN = """
import hashlib, sys, time
import numpy as np
rng, steps = np.random.default_rng(int(sys.argv[1])), int(sys.argv[2])
x, w = rng.standard_normal((64, 32)), rng.standard_normal(32)
y = x @ rng.standard_normal(32)
for step in range(steps):
    for _ in range(50):
        w -= 0.001 * x.T @ (x @ w - y)
    time.sleep(0.02)  # two processors for four slots: it must not be the processors that are measured
print(hashlib.sha256(w.tobytes()).hexdigest())
"""


@dataclass
class SlotUse:
    """Slot-seconds, as seen by looking: what services left, and what training had of that."""

    idle: float = 0.0
    trained: float = 0.0
    every: float = 0.0  # that there were
    served: float = 0.0  # that replicas had
    most_replicas: int = 0

    @property
    def part(self) -> float:
        return self.trained / self.idle if self.idle else 0.0


@dataclass
class Day:
    streams: list[Stream] = field(default_factory=list)
    use: SlotUse = field(default_factory=SlotUse)
    preemptions: int = 0
    alike: int = 0  # training jobs that ended as they do alone


def measured() -> Iterator[Line]:
    """Two days of two minutes each; the two services have noon at different times."""
    yield from with_simulated(played(DAY_S, days=2, steps=2000), DAY_S, days=2)


def with_simulated(day: Day, day_s: float, days: int) -> Iterator[Line]:
    yield from lines(day)
    kept = {name: own.kept(SLO_S) for name, own in zip(SHIFTS, day.streams, strict=True)}
    lived = Shares(kept, day.use.served / day.use.every, day.use.part)
    yield from compared(lived, simulated(asked_of(day_s, days)))


def played(day_s: float, days: int, steps: int) -> Day:
    with daemon(slots=SLOTS, policy="fair-share") as (client, home):
        return live(client, home, day_s, days, steps)


def live(client: Client, home: Path, day_s: float, days: int, steps: int) -> Day:
    found = Day()
    script = home / "train.py"
    script.write_text(TRAIN)
    names = list(SHIFTS)
    ports = [
        declare(
            *(client, home, name),
            replicas={"min": 1, "max": 3},
            at_once=AT_ONCE,
            idle_s=idle_s(day_s),
            slo_ms=SLO_S * 1e3,
        )
        for name in names
    ]
    wait_until(lambda: all(ready(client, name) for name in names))
    jobs = [train(client, script, seed, steps) for seed in range(JOBS)]
    over = threading.Event()
    looking = threading.Thread(target=look, args=(home, jobs, found.use, over))
    looking.start()
    found.streams = asyncio.run(loaded(ports, day_s, days))
    over.set()
    looking.join()
    wait_until(lambda: all(ended(client, job) for job in jobs), 600)
    rows = [client.get(f"/v1/jobs/{job}") for job in jobs]
    found.preemptions = sum(row["preemptions"] for row in rows)
    told = [b"".join(client.stream(f"/v1/jobs/{job}/log")).decode().strip() for job in jobs]
    with ThreadPoolExecutor(SLOTS) as pool:
        bare = list(pool.map(lambda seed: alone(script, seed, steps), range(JOBS)))
    found.alike = sum(own == other for own, other in zip(told, bare, strict=True))
    return found


async def loaded(ports: Sequence[int], day_s: float, days: int) -> list[Stream]:
    path = f"/?s={SERVICE_S}"
    due = requests_of(day_s, days).values()
    asked = [
        send(port, own, lambda _: path, lines=64) for port, own in zip(ports, due, strict=True)
    ]
    return list(await asyncio.gather(*asked))


def requests_of(day_s: float, days: int) -> dict[str, Sequence[float]]:
    """When they come, by service."""
    return {
        name: arrivals(day_s, days, shift, Random(number))
        for number, (name, shift) in enumerate(SHIFTS.items())
    }


def asked_of(day_s: float, days: int) -> DayAsked:
    return DayAsked(
        requests_of(day_s, days),
        seconds=day_s * days,
        slots=SLOTS,
        jobs=JOBS,
        service_s=SERVICE_S,
        at_once=AT_ONCE,
        slo_s=SLO_S,
        idle_s=idle_s(day_s),
    )


def idle_s(day_s: float) -> float:
    return max(day_s / 20, 1.0)


def arrivals(day_s: float, days: int, shift: float, chance: Random) -> list[float]:
    """By chance, as many in a second as the time of day has: thinned from the most there may be."""
    found, now = list[float](), 0.0
    while (now := now + chance.expovariate(MOST_RATE)) < day_s * days:
        part = (1 + sin(2 * pi * (now / day_s + shift))) / 2
        rate = LEAST_RATE + (MOST_RATE - LEAST_RATE) * part
        if chance.random() < rate / MOST_RATE:
            found.append(now)
    return found


def train(client: Client, script: Path, seed: int, steps: int) -> str:
    spec = {"name": f"train-{seed}", "command": words(script, seed, steps)}
    job = {"spec": spec, "environment": surroundings(), "workdir": "/"}
    return str(client.post("/v1/jobs", {"jobs": [job]})["ids"][0])


def words(script: Path, seed: int, steps: int) -> list[str]:
    return [sys.executable, str(script), str(seed), str(steps)]


def alone(script: Path, seed: int, steps: int) -> str:
    done = subprocess.run(
        words(script, seed, steps),
        env=surroundings(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def surroundings() -> dict[str, str]:
    """The same for a job and for its run alone: numpy's libraries look at more than the processor."""
    own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**own, "OMP_NUM_THREADS": "1"}


def ended(client: Client, job: str) -> bool:
    return client.get(f"/v1/jobs/{job}")["phase"] in ("finished", "failed", "cancelled")


def look(home: Path, jobs: Sequence[str], use: SlotUse, over: threading.Event) -> None:
    """Now and then, while there is training for every slot that services leave."""
    with closing(Client(home_in(home))) as client:
        while not over.wait(SAMPLE_S):
            rows = client.get("/v1/jobs", limit=1000)["jobs"]
            training = [row["phase"] for row in rows if row["id"] in jobs]
            replicas = [row["phase"] for row in rows if row["id"] not in jobs]
            taken = sum(phase in ("starting", "running") for phase in replicas)
            use.every += SLOTS * SAMPLE_S
            use.served += taken * SAMPLE_S
            if len(training) >= SLOTS - taken:
                use.idle += (SLOTS - taken) * SAMPLE_S
                use.trained += training.count("running") * SAMPLE_S
                use.most_replicas = max(use.most_replicas, taken)


def lines(day: Day) -> Iterator[Line]:
    for name, stream in zip(SHIFTS, day.streams, strict=True):
        kept, number = stream.kept(SLO_S), len(stream.answers)
        p99 = at(0.99, stream.latencies()) * 1e3
        what = f"{name}: of {number:,} requests within {SLO_S * 1e3:g} ms"
        yield Line(what, f"{kept:.2%} (p99 {p99:.0f} ms)", "99%", kept >= 0.99)
    part = day.use.part
    yield Line(
        f"training had of {day.use.idle:.0f} idle slot-seconds", f"{part:.1%}", "85%", part >= 0.85
    )
    yield Line("most replicas at once", f"{day.use.most_replicas}", "said", True)
    yield Line("times that training gave way", f"{day.preemptions}", "said", True)
    yield Line("training jobs as when alone", f"{day.alike}", f"{JOBS}", day.alike == JOBS)
