"""Nodes that nobody hears of any more: a job that is over is over, and none is begun twice."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from dovetail.worlds.kubernetes import bringing_up
from dovetail.worlds.kubernetes.silent_nodes import SilentNodes
from live_box import ME, Box
from made_up_cluster import MadeUpCluster, made_up_box
from real_cluster import eventually
from waiting import stays


@pytest.fixture
def cluster(control_plane: Path) -> Iterator[MadeUpCluster]:
    with MadeUpCluster(control_plane) as made:
        made.add_node("node1")
        yield made


@pytest.fixture
def here(cluster: MadeUpCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setattr(bringing_up, "_SILENT_FOR_S", 1.0)
    with made_up_box(cluster, tmp_path / "box") as made:
        yield made
        cluster.hear("node1")


def _running(here: Box, **fields: Any) -> str:
    job_id = here.submit(["train"], **fields)
    here.wait_until(job_id, "running")
    return job_id


def test_a_cancelled_job_does_not_wait_for_a_node_that_is_silent(
    cluster: MadeUpCluster, here: Box
) -> None:
    job_id = _running(here)
    cluster.silence("node1")
    here.service.cancel([job_id], ME)
    eventually(lambda: not here.daemon.world.has_processes())
    assert cluster.pods() == []
    assert here.job(job_id)["phase"] == "cancelled"


def test_a_cancelled_job_waits_for_the_grace_of_a_node_that_answers(
    cluster: MadeUpCluster, here: Box
) -> None:
    job_id = _running(here)
    cluster._silent.add("node1")  # to its pods only: the node says that it is ready
    here.service.cancel([job_id], ME)
    eventually(lambda: cluster.pods()[0]["metadata"].get("deletionTimestamp"))
    stays(lambda: len(cluster.pods()) == 1, 3.0)


def test_a_job_that_is_to_begin_anew_waits_for_its_silent_node(
    cluster: MadeUpCluster, here: Box
) -> None:
    """Nobody knows whether it still runs there: to begin it elsewhere could be twice."""
    cluster.add_node("node2")
    job_id = _running(here)
    (pod,) = cluster.pods()
    where, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    cluster.silence(where)
    here.service.requeue([job_id], ME)
    eventually(lambda: cluster.pods()[0]["metadata"].get("deletionTimestamp"))
    stays(lambda: [own["spec"]["nodeName"] for own in cluster.pods()] == [where], 3.0)
    cluster.hear(where)
    eventually(lambda: [own["metadata"]["uid"] != uid for own in cluster.pods()] == [True])


def _node(ready: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "node1"}, "status": {"conditions": conditions}}


def test_silence_is_counted_from_when_it_was_first_told() -> None:
    nodes = SilentNodes()
    nodes.listed([_node("True")])
    assert nodes.silent_s("node1") == 0.0
    nodes.changed(_node("Unknown"), False)
    first = nodes.silent_s("node1")
    nodes.changed(_node("False"), False)
    assert first <= nodes.silent_s("node1") < 60.0
    nodes.changed(_node("True"), False)
    assert nodes.silent_s("node1") == 0.0


def test_a_node_that_was_removed_is_silent_for_ever() -> None:
    nodes = SilentNodes()
    nodes.listed([_node("True")])
    nodes.listed([])
    assert nodes.silent_s("node1") == inf
