"""The same policy decides the same, whether jobs are simulated or pods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from forty_jobs import CONTESTS, Alone, Contest, Ground, compare, measured_alone
from kubernetes_daemon import pods_box
from real_cluster import RealCluster

# A pod takes a second to come up, more or less: everything is slower and farther apart by so much.
SLOWER = 2.0
# A kubelet looks at its containers once a second: a start and an end are each told up to that late.
TOLD_LATE_S = 2.0
_SLOW = {"round-robin:quantum_s=4": "round-robin:quantum_s=8"}


def slower(contest: Contest) -> Contest:
    return replace(
        contest,
        policy=_SLOW.get(contest.policy, contest.policy),
        tick_s=SLOWER * contest.tick_s,
        apart_s=SLOWER * contest.apart_s,
        keys_apart_s=SLOWER * contest.keys_apart_s,
    )


@pytest.fixture(scope="module")
def pods(cluster: RealCluster) -> Ground:
    """On one node, as the others have: a suspended pod goes on only where it is."""
    node = f"kubernetes.io/hostname={cluster.nodes()[0]}"
    return Ground(partial(pods_box, cluster, nodes=node), "python3", TOLD_LATE_S)


@pytest.fixture(scope="module")
def alone(pods: Ground, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    return measured_alone(pods, tmp_path_factory.mktemp("alone"), slower(CONTESTS[0]).tick_s)


@pytest.mark.long
@pytest.mark.parametrize("contest", [slower(own) for own in CONTESTS], ids=str)
def test_forty_pods_start_and_stop_in_the_same_order_and_end_as_soon(
    contest: Contest, pods: Ground, alone: Alone, tmp_path: Path
) -> None:
    compare(pods, contest, alone, tmp_path)
