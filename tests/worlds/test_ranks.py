"""The variables of a job over several nodes, read by those who look for them."""

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from dovetail.core.model import JobId
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.runs.launching import launch, launch_of
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.ranks import ALONE, Rank, host_file, variables
from dovetail.worlds.world import Order
from waiting import until

SUM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
found = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(found)
print("sum", int(found), "of", dist.get_world_size(), flush=True)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_over(run: ProcessRun) -> bool:
    return run.ending() is not None and not run.is_alive()


def test_a_job_on_one_node_is_told_nothing() -> None:
    assert variables(ALONE, "hosts") == {}


def test_each_run_knows_its_number_and_the_first_of_them() -> None:
    runs = [variables(Rank(n, ("a", "b", "c")), "/hosts") for n in range(3)]
    assert [own["NODE_RANK"] for own in runs] == ["0", "1", "2"]
    assert {(own["MASTER_ADDR"], own["NNODES"], own["WORLD_SIZE"]) for own in runs} == {
        ("a", "3", "3")
    }
    assert host_file(Rank(0, ("a", "b"))) == "a\nb\n"


def test_the_runs_of_one_order_are_told_apart(tmp_path: Path) -> None:
    """As two agents would launch them: with real keepers, each in its own folder."""
    told = []
    for n in range(2):
        home = tmp_path / str(n)
        folders = Folders(home / "runs", home / "env", home / "socket", shared=False)
        for folder in (folders.runs, home / "env"):
            folder.mkdir(parents=True)
        (home / "env" / "7.json").write_text("{}")
        words = ("/bin/sh", "-c", "echo $NODE_RANK of $NNODES at $MASTER_ADDR:$MASTER_PORT")
        order = Order(JobId("7"), words, {}, "/", "ann", nodes=2)
        folders.take_on(order, None)
        run = folders.run("7", 1)
        rank = Rank(n, ("node-a", "node-b"))
        launch(run, launch_of(order, folders, lambda own: {}, None, (), 1, 0, rank))
        until(partial(_is_over, run))
        told.append(folders.log("7").read(0, 1000)[1])
    assert told == [b"0 of 2 at node-a:29500\n", b"1 of 2 at node-a:29500\n"]


def _torchrun(folder: Path, number: int, port: int) -> subprocess.Popen[bytes]:
    rank = Rank(number, ("127.0.0.1", "127.0.0.1"), port)
    with open(folder / str(number), "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", str(folder / "sum.py")],
            env={**os.environ, **variables(rank, "hosts")},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def test_torchrun_finds_the_others(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "sum.py").write_text(SUM)
    port = free_port()
    started = [_torchrun(tmp_path, number, port) for number in range(2)]
    try:
        until(lambda: all("sum 3 of 2" in (tmp_path / own).read_text() for own in "01"))
    finally:  # one torchrun may wait five minutes for the other one's goodbye
        for own in started:
            own.kill()
            own.wait()
