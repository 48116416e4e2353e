"""Nodes whose kubelet dies, that are drained, vanish, come back, or run out of disk or memory."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counting_jobs import (
    FOREVER,
    begin,
    cancel,
    counting,
    pod_of,
    reasons,
    resume,
    suspend,
    told_of,
)
from dovetail.core.entries import Displaced, Saved, Stayed
from kubernetes_daemon import pods_box
from live_box import ME, Box
from real_cluster import RealCluster, eventually
from waiting import LONG_S, stays

pytestmark = pytest.mark.long


@pytest.fixture
def here(cluster: RealCluster, tmp_path: Path) -> Iterator[Box]:
    cluster.breakable()
    with pods_box(cluster, tmp_path / "box", policy="fifo-skip", slots=2) as made:
        yield made


def _node(cluster: RealCluster, job_id: str) -> str:
    return str(pod_of(cluster, job_id)["spec"]["nodeName"])


def _kubectl(cluster: RealCluster, *words: str) -> str:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("there is no kubectl here")
    command = [program, "--kubeconfig", str(cluster.kubeconfig), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _wait_until_all_ready(cluster: RealCluster) -> None:
    own = cluster.breakable()
    eventually(lambda: len(cluster.ready_nodes()) == len(own.nodes), LONG_S)


def test_jobs_outlive_a_killed_kubelet_running_and_suspended(
    cluster: RealCluster, here: Box
) -> None:
    running, one = begin(here, FOREVER)
    parked, two = begin(here, 60)
    suspend(here, parked, two)
    killed = cluster.breakable().nodes
    for node in killed:
        node.kubelet.kill()
    one.grows()
    resume(here, parked)  # the agent needs no kubelet
    two.grows()
    for node in killed:
        node.kubelet.start()
    assert here.wait(parked)[0]["phase"] == "finished"
    two.check_whole(60)
    one.grows()
    cancel(here, running, one)
    _wait_until_all_ready(cluster)


def test_a_job_that_has_ended_before_its_kubelet_says_so_is_over_when_it_is_to_give_way(
    cluster: RealCluster, here: Box
) -> None:
    """Its kubelet is stopped meanwhile: only the agent sees the end."""
    job_id, count = begin(here, 60)
    name = _node(cluster, job_id)
    kubelet = next(own.kubelet for own in cluster.breakable().nodes if own.place.name == name)
    kubelet.freeze()
    try:
        eventually(lambda: "end" in count.lines())
        eventually(lambda: "ended" in [own["state"] for own in told_of(here)])
        here.service.pause([job_id], ME)
        time.sleep(1.0)
    finally:
        kubelet.go_on()
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_whole(60)
    assert not [entry for entry in here.journal() if isinstance(entry, Stayed | Saved)]


def test_a_drained_node_is_left_and_nothing_of_its_jobs_is_lost(
    cluster: RealCluster, here: Box
) -> None:
    running, one = begin(here, 100, saves=True)
    node = _node(cluster, running)
    parked, two = begin(here, 60, saves=True)
    suspend(here, parked, two)
    both = {node, _node(cluster, parked)}
    try:
        for each in sorted(both)[:1]:
            drain = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
            _kubectl(cluster, "drain", each, *drain)
        drained = sorted(both)[0]
        eventually(
            lambda: here.daemon.state.room.open[here.daemon.state.room.index[drained]] is False
        )
        resume(here, parked)
        assert {row["phase"] for row in here.wait(running, parked)} == {"finished"}
    finally:
        for each in both:
            _kubectl(cluster, "uncordon", each)
    assert len(set(one.numbers())) == len(one.numbers()) == 100
    assert len(set(two.numbers())) == len(two.numbers()) == 60
    for count in (one, two):
        assert "twice" not in count.lines()


def test_a_node_that_vanishes_and_comes_back_takes_its_jobs_with_it_once(
    cluster: RealCluster, here: Box
) -> None:
    """Who may begin anew does so when the node is back and says that its pods are gone; before that
    nobody knows, and nothing is begun twice."""
    own = cluster.breakable()
    anew, one = begin(here, 60, preemptible="restart")
    node = next(each for each in own.nodes if each.place.name == _node(cluster, anew))
    node.vanish()
    try:
        eventually(lambda: node.place.name not in cluster.ready_nodes(), LONG_S)
        assert one.launches() == 1
        assert here.phase(anew) == "running"
    finally:
        node.come_back()
        for other in own.nodes:
            if other is not node:
                node.meet(other.place)
    _wait_until_all_ready(cluster)
    assert here.wait(anew, seconds=180)[0]["phase"] == "finished"
    one.check_once_at_a_time(launches=2)
    assert one.lines()[-61:] == [*map(str, range(1, 61)), "end"]


def test_a_node_that_is_removed_and_joins_again_under_its_name_is_used_again(
    cluster: RealCluster, here: Box
) -> None:
    own = cluster.breakable()
    node = own.nodes[1]
    name = node.place.name
    room = here.daemon.state.room
    eventually(lambda: name in room.index)
    before = room.index[name]
    node.kubelet.stop()
    cluster.api.delete(f"/api/v1/nodes/{name}")
    eventually(lambda: before in room.gone)
    node.kubelet.start()
    eventually(lambda: room.index.get(name, -1) not in room.gone, LONG_S)
    _wait_until_all_ready(cluster)
    ids = []
    counts = []
    for _ in range(4):
        count, fields = counting(20)
        ids.append(here.submit(fields.pop("command"), **fields))
        counts.append(count)
    assert {row["phase"] for row in here.wait(*ids)} == {"finished"}
    for count in counts:
        count.check_whole(20)


def test_a_suspended_pod_keeps_its_memory_on_the_books_of_its_node(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """Who does not fit beside it waits, is not sent to a kubelet that would refuse it, and nobody is
    evicted."""
    cluster.breakable()
    node = cluster.api.get("/api/v1/nodes")["items"][0]
    has = int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) * 1024
    most: Any = {"resources": {"memory": 0.6 * has / 1e9}}
    only = f"kubernetes.io/hostname={node['metadata']['name']}"
    with pods_box(cluster, tmp_path / "box", nodes=only, slots=2) as here:
        parked, one = begin(here, FOREVER, **most)
        suspend(here, parked, one)
        two, fields = counting(5)
        waiting = here.submit(fields.pop("command"), **fields, **most)
        stays(lambda: here.phase(waiting) == "queued", 4.0)
        resume(here, parked)
        one.grows()
        assert not two.lines()
        cancel(here, parked, one)
        assert here.wait(waiting)[0]["phase"] == "finished"
        assert not any(isinstance(entry, Displaced) for entry in here.journal())
    two.check_whole(5)


def test_pods_evicted_for_a_full_disk_begin_anew_elsewhere_running_and_suspended(
    cluster: RealCluster, here: Box
) -> None:
    """To its kubelet the disk is full when it has less left than it is told to keep."""
    own = cluster.breakable()
    running, one = begin(here, 200, preemptible="restart")
    parked, two = begin(here, 60, preemptible="restart")
    suspend(here, parked, two)
    name = _node(cluster, parked)
    assert _node(cluster, running) == name  # consolidated: so does the policy place
    node = next(each for each in own.nodes if each.place.name == name)
    node.restart_kubelet(evictionHard={"nodefs.available": "99.99%"})
    try:
        eventually(lambda: any("Evicted" in why for why in reasons(here, running)), LONG_S)
        eventually(lambda: any("Evicted" in why for why in reasons(here, parked)), LONG_S)
        resume(here, parked)
        assert {row["phase"] for row in here.wait(running, parked)} == {"finished"}
    finally:
        node.restart_kubelet(evictionPressureTransitionPeriod="1s")
        own.import_images(node)
    eventually(lambda: not _has_pressure(cluster, name), LONG_S)
    node.restart_kubelet()
    _wait_until_all_ready(cluster)
    for count in (one, two):
        count.check_once_at_a_time(launches=2)


def _has_pressure(cluster: RealCluster, node: str) -> bool:
    found = cluster.api.get(f"/api/v1/nodes/{node}")
    taints = [own["key"] for own in found["spec"].get("taints") or ()]
    return "node.kubernetes.io/disk-pressure" in taints
