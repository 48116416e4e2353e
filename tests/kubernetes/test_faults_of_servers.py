"""The API server and its store come and go: pods do not notice, and the controller goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api_proxy import api_proxy
from counting_jobs import FOREVER, Count, begin, cancel, counting, pod_of, resume, suspend
from kubernetes_daemon import pods_box
from live_box import ME, Box
from real_cluster import RealCluster, eventually
from waiting import LONG_S

pytestmark = pytest.mark.long


@pytest.fixture
def here(cluster: RealCluster, tmp_path: Path) -> Iterator[Box]:
    cluster.breakable()
    with pods_box(cluster, tmp_path / "box", policy="fifo-skip", slots=2) as made:
        yield made


def _submit(here: Box, steps: int) -> tuple[str, Count]:
    count, fields = counting(steps)
    return here.submit(fields.pop("command"), **fields), count


def test_jobs_outlive_an_api_server_that_is_restarted(cluster: RealCluster, here: Box) -> None:
    """For longer than the lease lasts. Meanwhile one ends, one is to be suspended, one to go on, and
    one is submitted."""
    plane = cluster.breakable().plane
    parked, one = begin(here, 60)
    suspend(here, parked, one)
    running, two = begin(here, FOREVER)
    ending, three = begin(here, 20)
    plane.api.kill()
    here.service.pause([running], ME)
    resume(here, parked)
    waiting, four = _submit(here, 5)
    eventually(lambda: "end" in three.lines())
    eventually(lambda: here.daemon.world.trouble)
    eventually(lambda: not here.daemon.world._leader.is_leading)  # type: ignore[attr-defined]
    plane.api.start()
    plane.wait_until_ready()
    here.wait_until(running, "suspended")
    two.stands_still(lambda: here.wait(parked, ending, waiting))
    resume(here, running)
    two.grows()
    cancel(here, running, two)
    assert {here.phase(own) for own in (parked, ending, waiting)} == {"finished"}
    for count, steps in ((one, 60), (three, 20), (four, 5)):
        count.check_whole(steps)
    eventually(lambda: not here.daemon.world.trouble)


def test_jobs_outlive_a_store_that_stands_still_for_longer_than_the_lease(
    cluster: RealCluster, here: Box
) -> None:
    etcd = cluster.breakable().plane.etcd
    parked, one = begin(here, 60)
    suspend(here, parked, one)
    running, two = begin(here, FOREVER)
    etcd.freeze()
    try:
        resume(here, parked)
        waiting, three = _submit(here, 5)
        here.service.pause([running], ME)
        eventually(lambda: not here.daemon.world._leader.is_leading)  # type: ignore[attr-defined]
        two.grows()
        assert not three.lines()
    finally:
        etcd.go_on()
    here.wait_until(running, "suspended")
    resume(here, running)
    assert {row["phase"] for row in here.wait(parked, waiting)} == {"finished"}
    two.grows()
    cancel(here, running, two)
    for count, steps in ((one, 60), (three, 5)):
        count.check_whole(steps)


def test_watches_that_are_gone_list_anew_and_miss_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """What ended while nobody looked is found by the list."""
    cluster.breakable()
    with api_proxy(cluster) as proxy:
        options = {"kubeconfig": str(proxy.kubeconfig(tmp_path / "kubeconfig"))}
        with pods_box(cluster, tmp_path / "box", slots=2, options=options) as here:
            long, two = begin(here, FOREVER)
            short, one = begin(here, 60)
            with proxy.silent():
                assert proxy.forget_watches() >= 3  # nodes, pods, and what the agents say
                eventually(lambda: "end" in one.lines())
                name = pod_of(cluster, short)["metadata"]["name"]
                cluster.api.delete(f"/api/v1/namespaces/default/pods/{name}", 0)
            assert here.wait(short, seconds=LONG_S)
            assert proxy.told_gone >= 3
            two.grows()
            cancel(here, long, two)
    one.check_whole(60)
