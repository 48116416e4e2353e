"""`make bench`: what is promised about speed and exactness, measured; each run in its own process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import (
    allocation,
    dashboard,
    decisions,
    elastic_live,
    flex_deadlines,
    flex_kinds,
    forecasts,
    frugal_families,
    gateway,
    kubernetes_scale,
    large_plans,
    live,
    predicted_cost,
    predictors,
    price_and_power,
    retention,
    service_chaos,
    service_day,
    service_peers,
    serving,
    similarity,
    study_families,
    tune_kubernetes,
    tune_live,
    tune_vs_peers,
)
from benchmarks.leaderboard import board
from benchmarks.lines import Line

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
RUNS = 3

# Mean response times of a single server, load 0.5, C² = 10: closed forms, see docs/performance.md.
QUEUEING = {
    "fifo": 6.500,
    "sjf": 4.308,
    "round-robin:quantum_s=0.05": 2.000,
    "las:quantum=0.05": 1.715,
    "psjf": 1.467,
    "srtf": 1.401,
}
PHILLY_LIMIT_S = {"fifo": 3.0, "srtf": 10.0, "tiresias": 25.0, "las": 25.0}
PLANNING = ("andreas-", "frugal")
SLICED = {"gandiva": "gandiva:quantum_s=600", "round-robin": "round-robin:quantum_s=600"}


def ask(
    request: dict[str, Any], pure: bool = False, limit_s: float | None = None
) -> dict[str, Any]:
    """Have a worker measure; nothing if it takes longer than the limit."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}" if pure else str(ROOT)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(request)],
            env=environment,
            cwd=ROOT / "benchmarks",  # not the root: the installed package is to be found, not src
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return {}
    if done.returncode:
        raise SystemExit(f"a measurement failed: {request}\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def ratios() -> Iterator[Line]:
    """Our jobs a CPU-second against the yardstick's, in one process, best of three."""
    wanted = {("fifo", True): 15, ("srtf", True): 12, ("fifo", False): 8, ("srtf", False): 6}
    for pure in (True, False):
        for nodes, load in ((512, 0.85), (64, 0.95)):
            for policy in ("fifo", "srtf"):
                request = {
                    "policy": policy, "bare": policy, "jobs": 100_000, "gpus": nodes * 8, "load": load,
                    "cluster": f"{nodes}x8", "journal": True, "repeat": RUNS,
                }  # fmt: skip
                answer = ask(request, pure)
                if answer["compiled"] is pure:
                    print("     no compiled core is installed: only the pure one is measured")
                    return
                ratio = answer["cpu_seconds"] / answer["bare_cpu_seconds"]
                limit = wanted[policy, pure]
                yield Line(
                    f"{'pure' if pure else 'compiled'} {policy}, {nodes} nodes, load {load:g}",
                    f"1/{ratio:.1f} ({100_000 / answer['cpu_seconds']:,.0f} jobs/s)",
                    f"at least 1/{limit} of {100_000 / answer['bare_cpu_seconds']:,.0f}",
                    ratio <= limit,
                )


def scaling() -> Iterator[Line]:
    """Twice the jobs; ten times the cluster and the arrivals."""

    def best(policy: str, jobs: int, nodes: int) -> float:
        request = {
            "policy": policy, "jobs": jobs, "gpus": nodes * 8, "load": 0.85,
            "cluster": f"{nodes}x8", "journal": True,
        }  # fmt: skip
        return min(float(ask(request)["cpu_seconds"]) for _ in range(RUNS))

    for policy in ("fifo", "srtf"):
        once, twice = best(policy, 100_000, 64), best(policy, 200_000, 64)
        yield Line(
            f"{policy}: twice the jobs", f"{twice / once:.2f} x", "at most 2.3", twice <= 2.3 * once
        )
        tenfold = best(policy, 1_000_000, 640) / 10
        yield Line(
            f"{policy}: ten times nodes and arrivals, per job",
            f"{tenfold / once:.2f} x", "at most 1.5", tenfold <= 1.5 * once,
        )  # fmt: skip


def whole_process() -> Iterator[Line]:
    """The command on 992 jobs, imports included."""
    with TemporaryDirectory() as folder:
        trace = SHARED / "golden/simulators/trace3.csv"
        if not trace.exists():
            trace = Path(folder) / "jobs.csv"
            _dovetail("trace", "generate", "--jobs", "992", "--load", "1.2", "--out", str(trace))
        for policy in ("fifo", "srtf"):
            seconds = min(
                _dovetail("simulate", str(trace), "--cluster", "8x8", "--policy", policy, "--json")
                for _ in range(RUNS)
            )
            yield Line(
                f"whole process, 992 jobs, {policy}",
                f"{seconds:.3f} CPU-s",
                "at most 0.25",
                seconds <= 0.25,
            )


def _dovetail(*arguments: str) -> float:
    """CPU seconds of one call of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).parent / "dovetail"), *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT / "benchmarks")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def philly() -> Iterator[Line]:
    """Two months of Philly pooled into 64 nodes of 8: queues of ten thousand."""
    trace = SHARED / "data/philly/philly_jobs_sep_oct.csv.gz"
    if not trace.exists():
        print("     the Philly trace is not here: left out")
        return
    listed = subprocess.run(
        [str(Path(sys.executable).parent / "dovetail"), "policies", "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in [one["name"] for one in json.loads(listed.stdout)]:
        if name.startswith(PLANNING):
            continue  # these look at the whole queue at every event: see `plans`
        request = {"policy": SLICED.get(name, name), "trace": str(trace), "cluster": "64x8"}
        limit = PHILLY_LIMIT_S.get(name, 60.0)
        answer = ask(request, limit_s=2 * limit + 10)
        seconds, mb = answer.get("cpu_seconds", 2 * limit), answer.get("peak_mb", 0.0)
        yield Line(
            f"Philly, {request['policy']}",
            f"{seconds:.1f} CPU-s, {mb:.0f} MB",
            f"under {limit:g} s, 300 MB",
            seconds < limit and mb < 300,
        )


def a_million_jobs() -> Iterator[Line]:
    for policy in ("fifo", "srtf"):
        request = {
            "policy": policy,
            "jobs": 1_000_000,
            "gpus": 4096,
            "load": 0.85,
            "cluster": "512x8",
            "journal": True,
        }
        answer = ask(request)
        finished, mb = answer["summary"]["finished"], answer["peak_mb"]
        yield Line(
            f"a million jobs, {policy}", f"{answer['cpu_seconds']:.1f} CPU-s, {mb:.0f} MB",
            "all finished, under 1000 MB", finished == 1_000_000 and mb < 1000,
        )  # fmt: skip


def queueing_theory() -> Iterator[Line]:
    """A single server against the closed forms, a million jobs each."""

    def response(policy: str) -> float:
        request = {
            "policy": policy, "jobs": 1_000_000, "gpus": 1, "load": 0.5, "cluster": "1x1",
            "mean_duration_s": 1.0, "gangs": [[1, 1.0]], "seed": 0,
        }  # fmt: skip
        return float(ask(request)["summary"]["mean_jct_s"])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(QUEUEING, pool.map(response, QUEUEING), strict=True))
    for policy, expected in QUEUEING.items():
        off = found[policy] / expected - 1
        yield Line(
            f"mean response, {policy}",
            f"{found[policy]:.3f} ({off:+.1%})",
            f"{expected:.3f} within 3 %",
            abs(off) <= 0.03,
        )
    order = list(found.values())
    yield Line(
        "their order",
        "as expected" if order == sorted(order, reverse=True) else "wrong",
        "",
        order == sorted(order, reverse=True),
    )


def a_live_daemon() -> Iterator[Line]:
    """A daemon on this machine: how soon jobs start, ten thousand waiting, idle, reports."""
    with live.daemon(slots=2) as (client, home):
        share, mb = live.idle(home), live.resident_mb(live.process_of(home))
        yield Line(
            "idle daemon", f"{share:.2%} of a core, {mb:.0f} MB", "under 0.5 %, 120 MB",
            share < 0.005 and mb < 120,
        )  # fmt: skip
        took = [1000 * seconds for seconds in live.start_s(client, home)]
        yield Line(
            "from submission to a running process (median, worst)",
            f"{live.at(0.5, took):.0f}, {max(took):.0f} ms", "under 100 ms", live.at(0.5, took) < 100,
        )  # fmt: skip
        number, rate = live.reports_taken(client, home)
        yield Line(
            "reports of a busy job in the journal", f"{number:,} at {rate:,.0f} a second",
            f"all {live.REPORTS:,}, at 1,000 a second", number == live.REPORTS,
        )  # fmt: skip
    with live.daemon(slots=2) as (client, home):
        for _ in range(live.QUEUED // 1000):
            live.submit(client, 1000, command=["sleep", "600"])
        took = [1000 * live.submit(client, 1, command=["sleep", "600"])[1] for _ in range(300)]
        yield Line(
            "a submission with 10,000 queued (median, 99 %)",
            f"{live.at(0.5, took):.1f}, {live.at(0.99, took):.1f} ms", "under 20 ms",
            live.at(0.99, took) < 20,
        )  # fmt: skip
        below, of = live.decisions_below(client, 0.05)
        yield Line(
            "decisions under 50 ms", f"{below:,} of {of:,}", "99 %", of > 0 and below >= 0.99 * of
        )
        listed = min(1000 * live.dovetail(home, "queue") for _ in range(RUNS))
        yield Line(
            "dovetail queue, 10,000 queued", f"{listed:.0f} CPU-ms", "under 150", listed < 150
        )


def plans_of_the_whole_queue() -> Iterator[Line]:
    """Policies that plan the whole queue at once, on the cluster of ANDREAS."""
    for policy in ("andreas-greedy", "frugal"):
        for nodes, jobs, limit_s in ((100, 450, 0.05), (1000, 10_000, 1.0)):
            seconds = min(large_plans.slowest_s(policy, nodes, jobs) for _ in range(RUNS))
            yield Line(
                f"a decision of {policy}, {nodes:,} nodes, {jobs:,} jobs",
                f"{1000 * seconds:.1f} ms",
                f"under {1000 * limit_s:.0f} ms",
                seconds < limit_s,
            )
    for nodes, jobs, limit_s in ((100, 450, 0.5), (1000, 10_000, 1.0)):
        seconds, found, no_worse = large_plans.limited(nodes, jobs, limit_s)
        yield Line(
            f"random greedy, {limit_s:g} s for {nodes:,} nodes, {jobs:,} jobs",
            f"{seconds:.2f} s, {found.passes:,} of {found.wanted:,} passes",
            f"under {1.5 * limit_s:g} s, no worse than greedy",
            seconds < 1.5 * limit_s and no_worse,
        )


SECTIONS: dict[str, Callable[[], Iterator[Line]]] = {
    "ratios": ratios,
    "scaling": scaling,
    "process": whole_process,
    "million": a_million_jobs,
    "plans": plans_of_the_whole_queue,
    "decisions": decisions.measured,
    "price_and_power": price_and_power.measured,
    "frugal_families": frugal_families.measured,
    "allocation": allocation.measured,
    "flex_deadlines": flex_deadlines.measured,
    "philly": philly,
    "queueing": queueing_theory,
    "predictors": predictors.measured,
    "forecasts": forecasts.measured,
    "live": a_live_daemon,
    "elastic_live": elastic_live.measured,
    "dashboard": dashboard.measured,
    "gateway": gateway.measured,
    "serving": serving.measured,
    "retention": retention.measured,
    "similarity": similarity.measured,
    "predicted_cost": predicted_cost.measured,
    "study_families": study_families.measured,
    "tune_live": tune_live.measured,
    "tune_kubernetes": tune_kubernetes.measured,
    "tune_vs_peers": tune_vs_peers.measured,
}
# Only if named: they need more than this repository, or many minutes.
ON_REQUEST: dict[str, Callable[[], Iterator[Line]]] = {
    "flex_kinds": flex_kinds.measured,
    "kubernetes": kubernetes_scale.measured,
    "leaderboard": board.measured,
    "service_chaos": service_chaos.measured,
    "service_day": service_day.measured,
    "service_peers": service_peers.measured,
}


def main() -> int:
    """Run all sections, or those named."""
    missed, known = 0, {**SECTIONS, **ON_REQUEST}
    for name in sys.argv[1:] or SECTIONS:
        if name not in known:
            raise SystemExit(f"there is no section {name!r}; choose from {', '.join(known)}")
        print(f"\n{name}: {known[name].__doc__ or ''}")
        for line in known[name]():
            print(line, flush=True)
            missed += not line.holds
    print(f"\n{missed} missed" if missed else "\nall hold")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
