from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.epochs import RoundRules, Training
from dovetail.predict.one_gpu import OneGpuProfiles
from dovetail.traces.clusters.applications_by_kind import is_by_kind, read_by_kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One application; a GPU of kind `new` is four times as fast as one of kind `old`."""
    own = tmp_path / "net"
    own.mkdir()
    for kind, slow in (("old", 4.0), ("new", 1.0)):
        rows = [
            f"{local},{slow * (0.1 + 0.01 * local) + 0.02 * (gpus > 1)},{0.02 * (gpus > 1)},{gpus}"
            for gpus in (1, 2, 4)
            for local in (8, 64)
        ]
        text = "local_bsz,step_time,sync_time,placement\n" + "\n".join(rows)
        (own / f"placements-{kind}.csv").write_text(text + "\n")
    for batch in (32, 256):
        rows = [f"{500.0 * e},{10 * e},0.5,1.0,100.0" for e in range(1, 4)]
        text = "progress,iteration,metric,grad_sqr,grad_var\n" + "\n".join(rows)
        (own / f"validation-{batch}.csv").write_text(text + "\n")
    return tmp_path


def training(folder: Path) -> Training:
    tables = read_by_kind(str(folder), ["old", "new"])
    first = {name: own["old"] for name, own in tables.applications.items()}
    return Training(first, RoundRules(), tables)


def test_steps_are_read_by_kind_and_one_gpu_of_each_can_be_compared(folder: Path) -> None:
    assert is_by_kind(str(folder))
    own = training(folder)
    came = own.arrival(JobId("a"), 0.0, own.run("net", 32, 1))
    profiles = OneGpuProfiles(own)
    ratio = profiles.speed(came.job, "new", 1, 1) / profiles.speed(came.job, "old", 1, 1)
    assert ratio == pytest.approx(4.0)


@pytest.mark.parametrize("policy", ["sia", "pollux", "fifo"])
def test_jobs_run_as_fast_as_was_measured_on_the_kind_they_get(folder: Path, policy: str) -> None:
    own = training(folder)
    run = own.run("net", 32, 1)
    arrivals = [own.arrival(JobId(f"j{i}"), 0.0, run) for i in range(2)]
    ends = {}
    for kind in ("old", "new"):
        experiment = Experiment(arrivals, [Node("n", 4, kind=kind)], training=own, round_s=60.0)
        ends[kind] = float(simulate(experiment, policy).summary["mean_jct_s"])
    assert 1.5 < ends["old"] / ends["new"] < 4.0  # what the tables say, beside restarts and rounds


def test_a_kind_that_nobody_measured_is_told_in_one_line(folder: Path) -> None:
    with pytest.raises(BadInput, match="no application that was measured on tpu"):
        read_by_kind(str(folder), ["tpu"])
