"""The agent of a node, in a real DaemonSet, on real containers."""

from __future__ import annotations

import time

import pytest
from tools.kubernetes.installing import NODES

from agent_pods import CountingPod, as_agent, crash_agent, install
from dovetail.worlds.kubernetes.client import ApiError
from real_cluster import RealCluster, eventually


@pytest.fixture(scope="session")
def agents(cluster: RealCluster) -> RealCluster:
    install(cluster)
    return cluster


def test_a_suspended_pod_stands_still_and_goes_on_where_it_was(agents: RealCluster) -> None:
    pod = CountingPod(agents, agents.nodes()[0])
    eventually(lambda: len(pod.take_reports()) > 5)
    suspended = pod.done("suspend")
    assert (suspended["state"], suspended["rung"], suspended["trouble"]) == (
        "suspended",
        "freeze",
        "",
    )
    assert suspended["seconds"] < 1.0
    assert suspended["bytes"] > 1_000_000
    before = pod.take_last_reports()
    time.sleep(1.0)
    assert pod.take_reports() == before
    assert pod.done("run")["state"] == "running"
    counted = eventually(lambda: len(now := pod.take_reports()) > len(before) + 5 and now)
    assert counted == list(range(1, len(counted) + 1))
    assert pod.container_status()["restartCount"] == 0


def test_a_pod_deleted_while_it_is_suspended_hears_it_and_saves_itself(agents: RealCluster) -> None:
    pod = CountingPod(agents, agents.nodes()[0])
    eventually(pod.take_reports)
    assert pod.done("suspend")["state"] == "suspended"
    pod.delete()
    ended = eventually(lambda: pod.container_status().get("state", {}).get("terminated"))
    assert ended["exitCode"] == 7
    assert ended["message"].startswith("saved at ")


def test_a_pod_is_not_suspended_where_there_is_no_room_for_it(agents: RealCluster) -> None:
    pod = CountingPod(agents, agents.nodes()[0])
    refused = pod.done("suspend", room_bytes=1000)
    assert refused["state"] == "running"
    assert "0.0 GB are left for that" in refused["trouble"]
    assert pod.done("suspend")["state"] == "suspended"
    assert pod.done("run")["state"] == "running"


def test_a_pod_that_is_asked_to_stop_saves_itself_and_all_its_reports_arrive(
    agents: RealCluster,
) -> None:
    pod = CountingPod(agents, agents.nodes()[0])
    eventually(pod.take_reports)
    pod.done("suspend")
    assert pod.done("stop")["trouble"] == ""
    ended = eventually(lambda: pod.container_status().get("state", {}).get("terminated"))
    assert ended["exitCode"] == 7
    eventually(lambda: pod.told()["state"] == "ended")
    assert f"saved at {pod.take_last_reports()[-1]}" == ended["message"]


def test_pods_that_are_not_ours_are_never_touched(agents: RealCluster) -> None:
    stranger = CountingPod(agents, agents.nodes()[0], volume="another")
    stranger.order("suspend")
    ours = CountingPod(agents, agents.nodes()[0])
    assert ours.done("suspend")["state"] == "suspended"  # the agent has seen both by now
    time.sleep(1.0)
    assert stranger.told()["state"] != "suspended"
    assert stranger.told()["order"] < 2
    assert ours.done("run")["state"] == "running"


def test_links_among_the_reports_of_a_pod_are_not_followed(agents: RealCluster) -> None:
    linking = (
        "ln -s /etc/passwd /dovetail/reports.jsonl; ln -s /etc/stopped /dovetail/stop; sleep 1000"
    )
    pod = CountingPod(agents, agents.nodes()[0], ("/bin/busybox", "sh", "-c", linking))
    assert pod.done("stop")["trouble"] == ""
    assert "reports" not in pod.told()


def test_an_agent_killed_in_mid_suspension_is_followed_by_one_that_ends_it(
    agents: RealCluster,
) -> None:
    agents.breakable()
    pod = CountingPod(agents, agents.nodes()[0])
    for delay_s in (0.0, 0.01, 0.05):
        number = pod.order("suspend")
        time.sleep(delay_s)
        crash_agent(agents, agents.nodes()[0])
        answer = eventually(lambda n=number: (row := pod.told()).get("order") == n and row)  # type: ignore[misc]
        assert (answer["state"], answer["trouble"]) == ("suspended", "")
        assert pod.done("run")["state"] == "running"
    counted = pod.take_last_reports() if pod.done("suspend") else []
    assert counted == list(range(1, len(counted) + 1))
    assert pod.container_status()["restartCount"] == 0


def test_pods_outlive_a_killed_kubelet_running_and_suspended(agents: RealCluster) -> None:
    own, node = agents.breakable(), agents.nodes()[0]
    running, suspended = CountingPod(agents, node), CountingPod(agents, node)
    suspended.done("suspend")
    own.nodes[0].kubelet.kill()
    assert suspended.done("run")["state"] == "running"  # the agent needs no kubelet
    assert suspended.done("suspend")["state"] == "suspended"
    own.nodes[0].kubelet.start()
    before = running.take_reports()[-1:]
    eventually(lambda: running.take_reports()[-1:] != before)
    eventually(lambda: suspended.read()["status"]["phase"] == "Running")
    assert suspended.told()["state"] == "suspended"
    assert suspended.done("run")["state"] == "running"
    for pod in (running, suspended):
        status = pod.container_status()
        assert (status["restartCount"], status["containerID"]) == (0, pod.container)


def test_an_agent_may_read_orders_and_answer_them_and_nothing_else(agents: RealCluster) -> None:
    api = as_agent(agents)
    assert len(api.get(NODES)["items"]) == len(agents.nodes())
    for path in (
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/secrets",
        f"{NODES}/{agents.nodes()[0]}",
    ):
        with pytest.raises(ApiError, match="forbidden"):
            api.get(path)
    with pytest.raises(ApiError, match="forbidden"):
        api.patch(f"{NODES}/{agents.nodes()[0]}", {"spec": {"pods": []}})
    api.close()
