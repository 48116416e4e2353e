"""Controllers that are killed, doubled or asleep: one leads, and who lost the lease writes nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from api_proxy import api_proxy
from counting_jobs import FOREVER, Count, begin, cancel, counting, run_through
from daemon_process import DaemonProcess
from kubernetes_daemon import pods_box, pods_daemon
from pod_storm import PodStorm
from real_cluster import SYSTEM, RealCluster, eventually
from waiting import LONG_S

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/dovetail"
KILLS = int(os.environ.get("DOVETAIL_STORM_PODS_KILLS", "8"))
SEED = int(os.environ.get("DOVETAIL_STORM_SEED", "11"))


def test_a_storm_of_kills_loses_no_step_of_a_pod_and_runs_none_twice(
    cluster: RealCluster, tmp_path: Path
) -> None:
    cluster.breakable()
    storm = PodStorm(pods_daemon(cluster, tmp_path / "home", policy="fifo-skip", slots=2), SEED)
    try:
        storm.blow(KILLS, print)
        storm.finish()
    finally:
        storm.daemon.close()
    storm.check_pods(cluster)


def _holder(cluster: RealCluster) -> str:
    return str((cluster.api.get(_LEASE).get("spec") or {}).get("holderIdentity") or "")


def test_a_second_controller_waits_and_then_says_who_leads(
    cluster: RealCluster, tmp_path: Path
) -> None:
    with pods_box(cluster, tmp_path / "first", slots=1) as here:
        leader = _holder(cluster)
        second = pods_daemon(cluster, tmp_path / "second", slots=1)
        with pytest.raises(AssertionError, match=f"another controller \\({leader}\\) holds"):
            second.start()
        run_through(here, 5)
        assert _holder(cluster) == leader


@pytest.mark.long
def test_a_leader_that_wakes_up_after_another_took_over_writes_nothing_more(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """It is stopped in the midst of work, and all its writes pass by where they are noted."""
    cluster.breakable()
    with api_proxy(cluster) as proxy:
        options = {"kubeconfig": str(proxy.kubeconfig(tmp_path / "kubeconfig"))}
        sleeper = pods_daemon(cluster, tmp_path / "sleeper", slots=2, options=options)
        sleeper.start()
        counts = [_submit(sleeper, steps=200) for _ in range(3)]
        eventually(proxy.writes, LONG_S)
        leader = _holder(cluster)
        sleeper.process.send_signal(signal.SIGSTOP)
        with pods_box(cluster, tmp_path / "awake", slots=2) as here:
            eventually(lambda: _holder(cluster) not in ("", leader), LONG_S)
            asleep = proxy.writes()
            sleeper.process.send_signal(signal.SIGCONT)
            assert sleeper.process.wait(LONG_S) != 0
            assert [own for own in proxy.writes() if own not in asleep] == []
            assert "another controller holds the lease now" in sleeper.said() + sleeper.own_log()
            run_through(here, 5)
        sleeper.start()  # and finds its pods where it left them
        for job_id, count in counts:
            assert sleeper.wait_for(job_id)["phase"] == "finished"
            count.check_whole(200)
        sleeper.close()


def _submit(daemon: DaemonProcess, steps: int) -> tuple[str, Count]:
    count, fields = counting(steps)
    job = {"spec": fields, "workdir": "/", "environment": {}}
    return str(daemon.ask("POST", "/v1/jobs", {"jobs": [job]})["ids"][0]), count


def test_a_lease_that_nobody_else_took_is_still_ours_after_a_silence(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """The API server is silent for longer than the lease lasts: jobs go on, and so does the leader."""
    cluster.breakable()
    with api_proxy(cluster) as proxy:
        options = {"kubeconfig": str(proxy.kubeconfig(tmp_path / "kubeconfig"))}
        with pods_box(cluster, tmp_path / "box", slots=1, options=options) as here:
            leader = _holder(cluster)
            job_id, count = begin(here, FOREVER)
            with proxy.silent():
                before = cluster.api.get(_LEASE)["spec"]["renewTime"]
                waiting, other = counting(5)
                second = here.submit(other.pop("command"), **other)
                eventually(lambda: not here.daemon.world._leader.is_leading)  # type: ignore[attr-defined]
                count.grows()
                assert cluster.api.get(_LEASE)["spec"]["renewTime"] == before
            assert here.wait(second)[0]["phase"] == "finished"
            assert _holder(cluster) == leader
            cancel(here, job_id, count)
    waiting.check_whole(5)
