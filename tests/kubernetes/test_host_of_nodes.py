"""CPUs that a kubelet would refuse are not given away: those of foreign pods and of suspended ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from counting_jobs import FOREVER, begin, cancel, resume, suspend
from dovetail.core.entries import Displaced, Occupied
from dovetail.worlds.kubernetes.amounts import amount
from kubernetes_daemon import pods_box
from live_box import ME, Box
from real_cluster import Json, RealCluster
from waiting import stays

_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def here(cluster: RealCluster, tmp_path: Path) -> Iterator[Box]:
    """A daemon with two slots on one node."""
    node = f"kubernetes.io/hostname={cluster.nodes()[0]}"
    with pods_box(cluster, tmp_path / "box", nodes=node, policy="fifo-skip", slots=2) as made:
        yield made


def _most_cpus(cluster: RealCluster) -> float:
    """More than half of what the node has."""
    node = cluster.api.get(f"/api/v1/nodes/{cluster.nodes()[0]}")
    return round(0.6 * amount(node["status"]["allocatable"]["cpu"]), 2)


def _foreign(cluster: RealCluster, cpus: float) -> Json:
    container = {
        "name": "idle",
        "image": cluster.image,
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    spec = {"nodeName": cluster.nodes()[0], "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "foreign"},
        "spec": {**spec, "terminationGracePeriodSeconds": 1},
    }


def _waits(here: Box, job_id: str) -> None:
    """In the queue all the time, and never sent to a node that would refuse it."""
    stays(lambda: here.phase(job_id) == "queued", 4.0)
    assert not any(isinstance(entry, Displaced) for entry in here.journal())


def _end(here: Box, job_id: str) -> None:
    here.service.cancel([job_id], ME)
    here.wait(job_id)


def test_a_job_waits_for_cpus_that_a_foreign_pod_has(cluster: RealCluster, here: Box) -> None:
    cpus = _most_cpus(cluster)
    cluster.api.create(_PODS, _foreign(cluster, cpus))
    try:
        here.wait_for(lambda: _others_have(here) >= cpus)
        job_id = here.submit(["sleep", "600"], resources={"gpus": 1, "cpus": cpus})
        _waits(here, job_id)
    finally:
        cluster.api.delete(f"{_PODS}/foreign", 0)
    here.wait_until(job_id, "running")
    _end(here, job_id)


def _others_have(here: Box) -> float:
    told = [entry for entry in here.journal() if isinstance(entry, Occupied)]
    return (told[-1].cpus or 0.0) if told else 0.0


def test_a_suspended_pod_keeps_its_cpus_and_goes_on_in_them(
    cluster: RealCluster, here: Box
) -> None:
    cpus = _most_cpus(cluster)
    first, count = begin(here, FOREVER, resources={"gpus": 1, "cpus": cpus})
    suspend(here, first, count)
    second = here.submit(["sleep", "600"], resources={"gpus": 1, "cpus": cpus})
    _waits(here, second)
    resume(here, first)
    count.grows()
    cancel(here, first, count)
    here.wait_until(second, "running")
    _end(here, second)
