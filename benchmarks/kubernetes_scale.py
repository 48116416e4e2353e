"""A controller on a real API server: 1,000 made-up nodes of 8 GPUs, 5,000 jobs in the queue.

The pods are made up, too, as far as nodes go: a process of its own stands for all kubelets (see
`made_up_kubelet`). A job that all others come after is the gate: when it ends, 2,000 pods are to be
created and bound at once. Then pods end one by one, and the next ones are awaited; then all
of the queue is let through. Last, the scheduler of Kubernetes itself places as many pods.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml
from tools.kubernetes import building, needs
from tools.kubernetes.cluster import Cluster, claim, take_down
from tools.kubernetes.installing import CRDS
from tools.kubernetes.pieces import Piece

from benchmarks import live
from benchmarks.lines import Line
from dovetail.client.connection import Client
from dovetail.core.errors import DovetailError
from dovetail.home import home_in
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access

NODES, GPUS, JOB_GPUS, QUEUED = 1000, 8, 4, 5000
AT_ONCE: Final = NODES * GPUS // JOB_GPUS
ENDS: Final = 100
PODS_A_SECOND, LATENCY_MS, MEMORY_MB = 500, 250, 500
MEDIAN_S, WORST_S = 0.1, 1.0
_ROOT: Final = Path(__file__).parent.parent
_SYSTEM: Final = "dovetail-system"
_WITHIN_S: Final = 300.0
# Those without which no pod is taken; the others would leave the made-up nodes no peace.
_CONTROLLERS: Final = ("serviceaccount", "serviceaccount-token", "namespace")

Json = dict[str, Any]


def measured() -> Iterator[Line]:
    """1,000 nodes of a real API server, 5,000 jobs queued. Builds Kubernetes first, if nobody has."""
    if missing := needs.packages():
        raise SystemExit(f"not all programs are here: apt-get install {' '.join(missing)}")
    load = os.getloadavg()[0]
    print(f"     load before it began: {load:.1f} on {os.cpu_count()} processors")
    with _control_plane() as own:
        api = Api(find_access(str(own.kubeconfig)))
        yield from _of_the_controller(own, api)
        yield from _of_the_default_scheduler(own, api)
        api.close_all()


@contextmanager
def _control_plane() -> Iterator[Cluster]:
    folder = claim()
    try:
        own = Cluster(folder, building.build(), 0, _CONTROLLERS)
        own.start()
        own.plane.scheduler.stop()
        yield own
    finally:
        take_down(folder)


# ------------------------------------------------------------------------------------ the cluster


class Kubelets:
    """The process that stands for them."""

    def __init__(self, own: Cluster, scheduler: str) -> None:
        words = [sys.executable, "-m", "benchmarks.made_up_kubelet", str(own.kubeconfig)]
        words += [scheduler, str(own.folder / "pki")]
        pipe = subprocess.PIPE
        self.process: Final = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT)

    def ask(self, command: str) -> Json:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        answer: Json = json.loads(self.process.stdout.readline())
        return answer

    def seen(self, what: str) -> list[float]:
        return sorted(self.ask("seen")[what])

    def await_seen(self, what: str, number: int) -> None:
        until = time.monotonic() + _WITHIN_S
        while self.ask("counted")[what] < number and time.monotonic() < until:
            time.sleep(0.25)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


@contextmanager
def _kubelets(own: Cluster, scheduler: str) -> Iterator[Kubelets]:
    made = Kubelets(own, scheduler)
    try:
        yield made
    finally:
        made.close()


def _node(number: int, port: int) -> Json:
    has = {"cpu": "128", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    status = {
        "capacity": has,
        "allocatable": has,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return {"metadata": {"name": _name(number), "labels": labels}, "status": status}


def _name(number: int) -> str:
    return f"node{number:04}"


def _make_nodes(api: Api, port: int) -> None:
    def make(number: int) -> None:
        node = _node(number, port)
        api.create("/api/v1/nodes", node)
        api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": None}})

    _side_by_side(make, range(NODES))


def _side_by_side(work: Callable[[int], object], numbers: Sequence[int]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, numbers))


def _install(api: Api) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": _SYSTEM}})
    for file in sorted(CRDS.glob("*.yaml")):
        for thing in yaml.safe_load_all(file.read_text()):
            api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", thing)
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        try:
            api.get(f"/apis/dovetail.dev/v1alpha1/namespaces/{_SYSTEM}/dovetailnodes")
            return
        except DovetailError:
            time.sleep(0.1)


# --------------------------------------------------------------------------------- the controller


@contextmanager
def _daemon(kubeconfig: Path) -> Iterator[tuple[Client, int, Path]]:
    """By the command itself; it is killed in the end, as its cluster goes."""
    with tempfile.TemporaryDirectory(prefix="dovetail-bench-") as folder:
        home = Path(folder)
        world = f"kubernetes:system={_SYSTEM}:namespace=default"
        live.dovetail(home, "up", "--world", world, "--kubeconfig", str(kubeconfig))
        pid = live.process_of(home)
        try:
            yield Client(home_in(home)), pid, home
        finally:
            os.kill(pid, 9)
            while Path(f"/proc/{pid}/stat").exists():
                time.sleep(0.05)


def _job(number: int, **more: Any) -> Json:
    asked = {"gpus": JOB_GPUS, "cpus": 8 + number % 5 * 8, "memory": f"{64 + number % 7 * 32}GB"}
    spec = {"command": ["train"], "image": "train:1", "workdir": "/", "resources": asked, **more}
    return {"spec": spec, "environment": {}, "workdir": "/", "umask": 18}


def _submit(client: Client) -> float:
    """All come after the gate. The seconds that it took to hand them in."""
    (gate,) = client.post("/v1/jobs", {"jobs": [_job(0, name="gate")]})["ids"]
    began = time.monotonic()
    for first in range(0, AT_ONCE + QUEUED, 1000):
        jobs = [_job(first + i, after=[gate]) for i in range(1000)]
        client.post("/v1/jobs", {"jobs": jobs})
    return time.monotonic() - began


def _of_the_controller(own: Cluster, api: Api) -> Iterator[Line]:
    _install(api)
    with _kubelets(own, "dovetail") as kubelets:
        _make_nodes(api, int(kubelets.ask("port")["port"]))
        bare = _made_by_a_loop(api, is_bound=True)
        _remove_pods(api)
        with _daemon(own.kubeconfig) as (client, pid, home):
            took = _submit(client)
            print(f"     {AT_ONCE + QUEUED:,} jobs handed in within {took:.1f} s")
            yield from _wave(kubelets, client, pid, bare)
            yield from _one_by_one(kubelets, pid)
            yield from _through(kubelets, pid)
            yield from _decisions(client)
            peak = _peak_mb(pid)
            line = f"{peak:.0f} MB ({live.resident_mb(pid):.0f} at the end)"
            yield Line(
                "memory of the controller at its peak",
                *(line, f"under {MEMORY_MB} MB", peak < MEMORY_MB),
            )
            if kept := os.environ.get("DOVETAIL_BENCH_KEEP"):
                subprocess.run(["cp", "-r", str(home / "daemon.log"), kept], check=False)


def _wave(kubelets: Kubelets, client: Client, pid: int, bare: float) -> Iterator[Line]:
    """The gate ends, and all that there is room for is created and bound, before any of it runs.
    `bare` is what the API server alone allows: a loop has created as many bound pods a second."""
    kubelets.await_seen("bound", 1)
    kubelets.ask("run")
    _await_phase(client, "running", 1)
    kubelets.ask("hold")
    cpu, began = live.cpu_seconds(pid), time.time()
    kubelets.ask("end 1")
    kubelets.await_seen("bound", 1 + AT_ONCE)
    cpu = live.cpu_seconds(pid) - cpu
    made, bound = kubelets.seen("made")[1:], kubelets.seen("bound")[1:]
    rate = (len(bound) - 1) / (bound[-1] - made[0])
    print(
        f"     the first after {made[0] - began:.2f} s, the last bound after {bound[-1] - began:.2f} s; "
        f"a bare loop of 8 threads on the same nodes: {bare:,.0f} a second, of which we reach "
        f"{rate / bare:.0%}"
    )
    yield Line(
        f"pods created and bound a second, {len(bound):,} at once",
        f"{rate:,.0f} ({1000 * cpu / len(bound):.2f} CPU-ms each)",
        *(f"at least {PODS_A_SECOND}", rate >= PODS_A_SECOND and len(bound) == AT_ONCE),
    )
    kubelets.ask("run")
    _await_phase(client, "running", AT_ONCE)


def _await_phase(client: Client, phase: str, number: int) -> None:
    until = time.monotonic() + _WITHIN_S
    while time.monotonic() < until:
        for line in client.text("/metrics").splitlines():
            if (
                line.startswith(f'dovetail_jobs{{phase="{phase}"}}')
                and float(line.split()[-1]) >= number
            ):
                return
        time.sleep(0.25)


def _one_by_one(kubelets: Kubelets, pid: int) -> Iterator[Line]:
    share = _share(pid)
    print(f"     with {AT_ONCE:,} pods at work and nothing new it takes {share:.1%} of a core")
    found = [1000 * seconds for seconds in kubelets.ask(f"end {ENDS}")["latencies"]]
    yield Line(
        f"from a pod's end to the next pod, {ENDS} times (median, 99 %)",
        f"{median(found):.0f}, {live.at(0.99, found):.0f} ms",
        *(f"under {LATENCY_MS} ms", median(found) < LATENCY_MS),
    )


def _share(pid: int, seconds: float = 5.0) -> float:
    before = live.cpu_seconds(pid)
    time.sleep(seconds)
    return (live.cpu_seconds(pid) - before) / seconds


def _through(kubelets: Kubelets, pid: int) -> Iterator[Line]:
    """Pods end as soon as they run, until the queue is empty: a whole life of each."""
    number, cpu = AT_ONCE + QUEUED - ENDS, live.cpu_seconds(pid)
    own = live.cpu_seconds(kubelets.process.pid)
    before = kubelets.ask("counted")["ended"]
    began = kubelets.ask("churn")["at"]
    kubelets.await_seen("ended", before + number)
    ended = kubelets.seen("ended")[before:]
    rate = len(ended) / (ended[-1] - began)
    each = 1000 * (live.cpu_seconds(pid) - cpu) / len(ended)
    theirs = 1000 * (live.cpu_seconds(kubelets.process.pid) - own) / len(ended)
    yield Line(
        f"whole lives of pods a second, {len(ended):,}",
        f"{rate:,.0f} ({each:.1f} CPU-ms each)",
        *(f"all ({theirs:.1f} CPU-ms of the kubelets)", len(ended) >= number),
    )


def _decisions(client: Client) -> Iterator[Line]:
    for limit_s, part, wanted in ((MEDIAN_S, 0.5, "half"), (WORST_S, 1.0, "all")):
        below, of = live.decisions_below(client, limit_s)
        yield Line(
            f"decisions under {1000 * limit_s:,.0f} ms",
            *(f"{below:,} of {of:,}", wanted, of > 0 and below >= part * of),
        )


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


# ------------------------------------------------------------------- the scheduler of Kubernetes


def _of_the_default_scheduler(own: Cluster, api: Api) -> Iterator[Line]:
    """On the same nodes, emptied: as it comes, and without its own limit on requests."""
    for name, options in (
        ("as it comes", ()),
        ("without its limit of 50 requests", ("--kube-api-qps=5000", "--kube-api-burst=5000")),
    ):
        _remove_pods(api)
        scheduler = _scheduler(own, name, options)
        with _kubelets(own, "default-scheduler") as kubelets:
            bare = _made_by_a_loop(api)
            rate, number = _scheduled(kubelets, scheduler)
        print(f"     a bare loop of 8 threads creates {bare:,.0f} pods a second, unbound")
        yield Line(
            f"default scheduler, {name}",
            *(f"{rate:,.0f} pods a second", "(to compare)", number == AT_ONCE),
        )


def _scheduler(own: Cluster, name: str, options: Sequence[str]) -> Piece:
    words = own.plane.scheduler_command(*options)
    return Piece(own.folder, f"scheduler-{name.split()[0]}", words)


def _made_by_a_loop(api: Api, is_bound: bool = False) -> float:
    """Pods that nobody has placed, or on nodes from the beginning; so many a second were created."""
    pods = "/api/v1/namespaces/default/pods"
    asked = {"cpu": "8", "memory": "64G", "nvidia.com/gpu": str(JOB_GPUS)}
    limits = {"nvidia.com/gpu": str(JOB_GPUS)}
    container = {"name": "job", "image": "train:1"}
    resources = {"requests": asked, "limits": limits}
    spec = {"containers": [{**container, "resources": resources}], "restartPolicy": "Never"}

    def make(number: int) -> None:
        where = {"nodeName": _name(number % NODES)} if is_bound else {}
        api.create(pods, {"metadata": {"name": f"plain-{number}"}, "spec": {**spec, **where}})

    began = time.monotonic()
    _side_by_side(make, range(AT_ONCE))
    return AT_ONCE / (time.monotonic() - began)


def _scheduled(kubelets: Kubelets, scheduler: Piece) -> tuple[float, int]:
    """It starts when they are all there: from the first that it binds to the last."""
    scheduler.start()
    kubelets.await_seen("bound", AT_ONCE)
    scheduler.stop()
    bound = kubelets.seen("bound")
    return (len(bound) - 1) / (bound[-1] - bound[0]), len(bound)


def _remove_pods(api: Api) -> None:
    found = [own["metadata"]["name"] for own in api.get("/api/v1/pods")["items"]]
    _side_by_side(
        lambda i: api.delete(f"/api/v1/namespaces/default/pods/{found[i]}", 0), range(len(found))
    )
