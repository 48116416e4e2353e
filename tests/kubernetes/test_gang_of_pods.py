"""A gang of two pods on two nodes trains with PyTorch, gives way and goes on; no step is lost."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tools.kubernetes.installing import SYSTEM, make_claim

from dovetail.core.entries import Saved
from dovetail.worlds.agent import COOPERATE
from dovetail.worlds.kubernetes.client import ApiError
from dovetail.worlds.kubernetes.settings import JOB, RANK
from dovetail.worlds.ranks import Rank, variables
from kubernetes_daemon import pods_box
from live_box import Box
from real_cluster import RealCluster, create

STEPS = 60
# Each rank has data of its own; their gradients are averaged after each step.
TRAINING = f"""
import time
import torch
from torch import distributed, nn
from dovetail.sdk.pytorch import Resumable
torch.set_num_threads(1)
torch.manual_seed(0)
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
run = Resumable(model=model, optimizer=optimizer)
for step in run.steps({STEPS}):
    inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(2 * step + rank))
    loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    for one in model.parameters():
        distributed.all_reduce(one.grad)
        one.grad /= 2
    optimizer.step()
    distributed.all_reduce(loss)
    if rank == 0:
        print("step", step, "loss", loss.item().hex(), flush=True)
    time.sleep(0.1)
"""
_PODS = "/api/v1/namespaces/default/pods"
_LOSS = re.compile(r"step (\d+) loss (\S+)")


@pytest.fixture(scope="module")
def alone() -> list[tuple[str, ...]]:
    """What two processes print here that nobody interrupts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    where = ("127.0.0.1", "127.0.0.1")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING],
            env={**os.environ, **variables(Rank(number, where, port), "")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    printed, _ = [rank.communicate(timeout=300.0)[0] for rank in ranks]
    return _LOSS.findall(printed)


@pytest.fixture(scope="module")
def torch_claim(cluster: RealCluster) -> str:
    """PyTorch of this machine, as a volume: an image of it would be large."""
    if cluster.own is None:
        pytest.skip("this test lends the nodes PyTorch of this machine: they must be here")
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("PyTorch is not installed here")
    make_claim(cluster.api, "torch", str(Path(found.origin).parents[1]))
    return "torch"


def _gang(here: Box, claim: str) -> str:
    return here.submit(
        ["python3", "-c", TRAINING],
        nodes=2,
        resources={"gpus": 1},
        volumes={"/torch": f"{claim}:ro"},
        envs={"PYTHONPATH": "/opt/site-packages:/torch"},
        checkpoint={"grace": "120s"},
    )


def _is_at_work(cluster: RealCluster, here: Box, job_id: str) -> bool:
    """Has its first pod made a few steps? The daemon copies its log when it has ended."""
    assert here.phase(job_id) != "failed", here.log(job_id)
    label = f"{JOB}={job_id},{RANK}=0"
    for pod in cluster.api.get(_PODS, labelSelector=label)["items"]:
        with suppress(ApiError):
            log = cluster.api.stream(f"{_PODS}/{pod['metadata']['name']}/log")
            printed = b"".join(log.pieces()).decode()
            log.close()
            return len(_LOSS.findall(printed)) >= 5
    return False


@pytest.mark.parametrize(
    ("system", "rung"),
    [("without-agents", COOPERATE), (SYSTEM, "freeze")],
    ids=["asked", "frozen"],
)
def test_a_gang_gives_way_on_both_nodes_and_loses_no_step(
    cluster: RealCluster,
    torch_claim: str,
    alone: list[tuple[str, ...]],
    tmp_path: Path,
    system: str,
    rung: str,
) -> None:
    create(cluster.api, "/api/v1/namespaces", {"metadata": {"name": system}})
    with pods_box(cluster, tmp_path, system, slots=1, policy="priority") as here:
        gang = _gang(here, torch_claim)
        here.wait_for(lambda: _is_at_work(cluster, here, gang), 300.0)
        urgent = here.submit(["python3", "-c", "print('done')"], priority=1)
        here.wait(urgent, seconds=300.0)
        assert here.job(gang)["phase"] != "finished"
        (row,) = here.wait(gang, seconds=300.0)
        assert row["phase"] == "finished"
        saved = [entry for entry in here.journal() if isinstance(entry, Saved)]
        assert [(entry.job_id, entry.rung) for entry in saved] == [(gang, rung)]
        assert _LOSS.findall(here.log(gang)) == alone
    assert [int(step) for step, _ in alone] == list(range(STEPS))
