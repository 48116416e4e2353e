"""Simulated requests a CPU-second, the making of the requests included, and the memory of a day of ten
million requests, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from benchmarks.lines import Line
from dovetail.core.model import Node
from dovetail.serving.latency import AffineLatency
from dovetail.serving.request import Request, merged
from dovetail.serving.service import ServedModel
from dovetail.serving.simulation import ServingScene, simulate
from dovetail.serving.traffic.catalogue import make
from dovetail.text.counting import counted

LATENCY = AffineLatency(0.004, 0.002)
SLO_S = 0.02
WANTED = {"static": 200_000, "clockwork": 50_000}
SCENES = ((1, 1, 250.0), (4, 1, 1200.0), (8, 4, 2400.0))  # GPUs, services, requests a second
REQUESTS = 300_000
DAY, DAY_S, MOST_MB = 10_000_000, 86_400.0, 300
TURNS = 3


def measured() -> Iterator[Line]:
    for policy, wanted in WANTED.items():
        for gpus, services, rate in SCENES:
            found = max(speed(policy, gpus, services, rate) for _ in range(TURNS))
            what = (
                f"{policy}, {counted(gpus, 'GPU')}, {counted(services, 'service')}: requests/CPU-s"
            )
            yield Line(what, f"{found:,.0f}", f"at least {wanted:,}", found >= wanted)
    yield from a_day()


def scene_of(gpus: int, services: int) -> ServingScene:
    each = gpus // services
    names = [f"m{number}" for number in range(services)]
    models = {
        name: ServedModel(name, LATENCY, slo_s=SLO_S, max_batch=8, least=each, most=each)
        for name in names
    }
    return ServingScene(models, [Node("n", gpus)])


def requests_to(scene: ServingScene, text: str) -> Iterator[Request]:
    made = make(text)
    return merged(made.requests(name, SLO_S, seed) for seed, name in enumerate(scene.services))


def speed(policy: str, gpus: int, services: int, rate: float) -> float:
    scene = scene_of(gpus, services)
    text = f"bursty:cv=2:rate={rate / services}:seconds={REQUESTS / rate}"
    began = process_time()
    count = simulate(scene, policy, requests_to(scene, text)).tally.ended
    return count / (process_time() - began)


def a_day() -> Iterator[Line]:
    """Memory is that of the whole process, Python and all."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving_speed"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    mb, rate = told["mb"], told["requests"] / told["cpu_s"]
    what = f"a day of {told['requests']:,} requests under static: memory"
    yield Line(what, f"{mb:.0f} MB", f"under {MOST_MB} MB", mb < MOST_MB)
    wanted = WANTED["static"]
    what = "the same, daily-shaped: requests/CPU-s"
    yield Line(what, f"{rate:,.0f}", f"at least {wanted:,}", rate >= wanted)


def main() -> None:
    """The day."""
    scene = scene_of(1, 1)
    text = f"daily:rate={DAY / DAY_S}:seconds={DAY_S}"
    began = process_time()
    count = simulate(scene, "static", requests_to(scene, text)).tally.ended
    cpu_s = process_time() - began
    print(json.dumps({"requests": count, "cpu_s": cpu_s, "mb": peak_mb()}))


def peak_mb() -> float:
    """Of this program: `getrusage` counts what its parent had before it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
