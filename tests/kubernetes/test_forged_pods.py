"""Anybody may write our labels on pods of their own namespace. Nobody is harmed by that but they."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes.cluster import Cluster
from dovetail.worlds.kubernetes.inventory import Taken
from unserved_cluster import RUN, unserved_cluster


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Cluster]:
    with unserved_cluster(tmp_path) as made:
        yield made


def pod(
    namespace: str = "team-a", node: str = "node1", is_over: bool = False, **changes: Any
) -> dict[str, Any]:
    labels = {"managed-by": "dovetail", "home": "0a1b2c3d", "job": "7", "run": "1", "rank": "0"}
    labels |= {"attempt": "1", "nodes": "1"}
    metadata = {
        "name": "dt-0a1b2c3d-7-1-0-1",
        "namespace": namespace,
        "uid": f"{namespace}-{node}",
        "labels": {f"dovetail.dev/{name}": value for name, value in labels.items()},
        **changes,
    }
    limits = {"nvidia.com/gpu": "1"}
    spec = {"schedulerName": "dovetail", "nodeName": node}
    spec["containers"] = [{"name": "job", "resources": {"limits": limits}}]  # type: ignore[assignment]
    state = {"terminated": {"exitCode": 1}} if is_over else {"running": {}}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": [{"name": "job", "state": state}]},
    }


FORGED = [
    pod(namespace="team-b", is_over=True),
    pod(node="node2", uid="another", is_over=True),
    pod(name="mine", uid="another", is_over=True),
    pod(name="dt-0a1b2c3d-7-1-5-1", uid="another", is_over=True),
]


@pytest.mark.parametrize("forged", FORGED, ids=lambda own: str(own["metadata"]["name"]))
def test_a_pod_that_only_says_that_it_is_ours_is_counted_as_anybodys(
    watched: Cluster, forged: dict[str, Any]
) -> None:
    watched.changed(forged, False)
    watched.listed([forged], 0.0)
    assert not watched._roster.gang(RUN).pods
    assert watched._roster.gang(RUN).verdict() is None
    assert watched.inventory.taken() == {forged["spec"]["nodeName"]: Taken(gpus=1)}


def test_our_own_pod_is_seen_and_others_do_not_take_its_place(watched: Cluster) -> None:
    watched.changed(pod(), False)
    for forged in FORGED:
        watched.changed(forged, False)
    assert [own.uid for own in watched._roster.gang(RUN).all_pods()] == ["team-a-node1"]


def test_of_a_launch_that_nobody_noted_nothing_is_kept(watched: Cluster) -> None:
    labels = {**pod()["metadata"]["labels"], "dovetail.dev/job": "8"}
    watched.changed(pod(labels=labels, name="dt-0a1b2c3d-8-1-0-1"), False)
    assert watched._roster.known(RunId(JobId("8"), 1)) is None


def test_an_agent_cannot_speak_of_a_pod_of_another_node(watched: Cluster) -> None:
    watched.changed(pod(), False)
    row = {"uid": "team-a-node1", "state": "suspended", "order": 3}
    for name in ("node2", "node1"):
        told = {"metadata": {"name": name}, "status": {"pods": [row]}}
        watched.channel.changed(told, False)
        assert watched.channel.answer("team-a-node1").is_suspended is (name == "node1")


def test_what_an_agent_says_fills_no_disk(watched: Cluster) -> None:
    """Reports that begin far behind the last ones would be blank up to there."""
    watched.changed(pod(), False)
    reports = watched.folders.reports("7")
    reports.touch()
    for told in (
        {"from": 1 << 50, "text": "{}\n"},
        {"from": 0, "to": 1 << 50, "text": "{}\n"},
        {"from": -5, "to": 10, "text": ""},
    ):
        row = {"uid": "team-a-node1", "state": "running", "reports": told}
        watched.channel.changed({"metadata": {"name": "node1"}, "status": {"pods": [row]}}, False)
    assert reports.stat().st_size == 0


def test_what_was_left_out_of_the_reports_is_blank_and_the_rest_stays_in_place(
    watched: Cluster,
) -> None:
    watched.changed(pod(), False)
    reports = watched.folders.reports("7")
    reports.touch()
    for told in (
        {"from": 0, "to": 4, "text": "one\n"},
        {"from": 0, "to": 10, "text": "one\n"},
        {"from": 10, "to": 14, "text": "two\n"},
    ):
        row = {"uid": "team-a-node1", "state": "running", "reports": told}
        watched.channel.changed({"metadata": {"name": "node1"}, "status": {"pods": [row]}}, False)
    assert reports.read_text() == "one\n     \ntwo\n"
