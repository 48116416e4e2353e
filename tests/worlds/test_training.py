"""Jobs that train applications epoch by epoch, as in Pollux' simulator."""

import csv
import json
from collections.abc import Mapping
from math import inf
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId, Placement, Slice
from dovetail.models.applications import BatchSplit, lowest_rotation
from dovetail.models.epochs import LINEAR, RoundRules, Training
from dovetail.traces.clusters.applications import read_applications

SHARED = Path(__file__).parents[3] / "shared"
POLLUX = SHARED / "data" / "pollux"
GOLDEN = SHARED / "golden" / "allocation" / "pollux"
needs_pollux = pytest.mark.skipif(not POLLUX.exists(), reason="Pollux' tables are not here")


def folder_with(tmp_path: Path, **changed: str) -> str:
    """Two epochs of 100 initial batches of 10; a step takes 1 s, of which 0.5 s to agree."""
    steps = [f"toy,{where},{local},1.0,0.5" for where in (1, 2, 11) for local in (5, 10, 20)]
    curves = [
        f"toy,{batch},{progress},{progress * 10 / batch},1,{9 if epoch else 0}"
        for batch in (10, 40)
        for epoch, progress in enumerate((100.0, 200.0))
    ]
    files = {
        "placements": ["model,placement,local_bsz,step_time,sync_time", *steps],
        "scalability": ["model,num_nodes,num_replicas,local_bsz,step_time,sync_time"],
        "validation_curves": ["model,batch_size,progress,iteration,grad_sqr,grad_var", *curves],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.csv").write_text(changed.get(name, "\n".join(lines) + "\n"))
    return str(tmp_path)


def training(tmp_path: Path, rules: RoundRules = RoundRules()) -> Training:  # noqa: B008
    return Training(read_applications(folder_with(tmp_path)), rules)


def on(*gpus: int) -> Placement:
    return Placement(tuple(Slice(n, (1 << count) - 1) for n, count in enumerate(gpus)))


def test_a_batch_is_split_and_put_aside_where_it_is_too_large(tmp_path: Path) -> None:
    toy = training(tmp_path).applications["toy"]
    assert toy.split(20, 2) == BatchSplit(10, 0)
    assert toy.split(20, 1) == BatchSplit(10, 1)
    assert toy.split(10, 1) == BatchSplit(10, 0)
    assert toy.split(10, 1, always_aside=True) == BatchSplit(5, 1)
    assert toy.split(40, 1) == BatchSplit(20, 1)
    assert toy.optimisation_s((1,), BatchSplit(10, 1)) == 1.5
    assert lowest_rotation((4, 1)) == "14"


def test_epochs_end_on_whole_seconds_and_rounds_of_the_restart_are_lost(tmp_path: Path) -> None:
    run = training(tmp_path).run("toy", 20, 2)
    course = run()
    # A batch of 20 is worth 1 step of 10 without noise and 20/(10·(.5·.9+.1)) with it.
    first = course.begin(60.0, on(2), ())
    assert first == (60.0 + 30.0 + 100.0, False)
    told, second = course.reach(first.at)
    assert told.step == 1.0
    gain = 10.0 / (9.0 / 2.0 + 1.0)
    assert second.ends
    assert second.at == 190.0 + round(100.0 / gain)
    assert run.work_s == pytest.approx(100.0 + 100.0 / gain)


def test_what_was_done_when_it_is_halted_is_kept_and_what_is_lost_is_done_again(
    tmp_path: Path,
) -> None:
    run = training(tmp_path).run("toy", 20, 2)
    course, again = run(), run()
    course.begin(0.0, on(2), ())
    assert course.halt(90.0) == pytest.approx(60.0)
    assert course.begin(120.0, on(2), ()).at == 160.0
    course.halt(140.0)
    course.lose(30.0)
    assert course.begin(180.0, on(2), ()).at == 180.0 + 50.0
    again.begin(0.0, on(2), ())
    assert again.halt(10.0) == 0.0


def test_without_rounds_and_noise_every_sample_counts_at_every_moment(tmp_path: Path) -> None:
    rules = RoundRules(0.0, 0.0, LINEAR)
    course = training(tmp_path, rules).run("toy", 40, 2)()
    first = course.begin(0.25, on(1, 1), ())
    assert first.at == 0.25 + 100.0 / 4.0
    assert course.speed == 1.0


def test_an_epoch_that_is_over_as_a_round_begins_is_so_after_what_is_decided(
    tmp_path: Path,
) -> None:
    """Pollux' simulator lets jobs go on after it has asked the policy: a rest of less than half a second
    is done then."""
    run = training(tmp_path, RoundRules(99.8, 0.0)).run("toy", 20, 2)
    milestone = run().begin(0.0, on(2), ())
    assert 99.8 < milestone.at < 99.8001


@pytest.mark.parametrize(
    ("application", "batch", "what"),
    [("who", 20, "no application 'who'; there are toy"), ("toy", 80, "10 to 40, not 80")],
)
def test_what_was_never_measured_is_refused(
    tmp_path: Path, application: str, batch: int, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        training(tmp_path).run(application, batch, 2)


def test_a_placement_far_from_all_that_was_measured_is_refused_in_one_line(tmp_path: Path) -> None:
    run = training(tmp_path).run("toy", 40, 2)
    with pytest.raises(BadInput, match="application 'toy': no step was measured near 4 GPUs"):
        run().begin(0.0, on(1, 1, 1, 1), ())


def simulate(workload: Path, folder: Path | str, *rest: str) -> Mapping[str, object]:
    asked = [
        "simulate",
        str(workload),
        "--applications",
        str(folder),
        "--cluster",
        "16x4",
        "--json",
    ]
    done = CliRunner().invoke(cli, [*asked, *rest], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told: Mapping[str, object] = json.loads(done.stdout)
    return told


def test_a_workload_that_names_an_unknown_application_is_told_in_one_line(tmp_path: Path) -> None:
    workload = tmp_path / "w.csv"
    workload.write_text("name,time,application,num_replicas,batch_size\na,0,who,1,20\n")
    asked = ["simulate", str(workload), "--applications", folder_with(tmp_path), "--cluster", "1x4"]
    done = CliRunner().invoke(cli, [*asked, "--policy", "optimus"])
    assert done.exit_code != 0
    assert "w.csv:2: there is no application 'who'; there are toy" in str(
        done.exception or done.output
    )


@needs_pollux
@pytest.mark.parametrize(("policy", "workload"), [("optimus", 3), ("tiresias", 4)])
def test_every_job_ends_at_the_second_at_which_it_does_in_pollux_simulator(
    tmp_path: Path, policy: str, workload: int
) -> None:
    given = f"{POLLUX / 'workloads_1_to_4.csv'}#{workload}"
    simulate(Path(given), POLLUX, "--policy", policy, "--out", str(tmp_path / "out"))
    with open(GOLDEN / f"{policy}-w{workload}.jobs.csv", newline="") as file:
        known = {row["name"]: int(row["duration"]) for row in csv.DictReader(file)}
    with open(tmp_path / "out" / "jobs.csv", newline="") as file:
        ours = {row["job_id"]: int(float(row["jct_s"])) for row in csv.DictReader(file)}
    assert ours == known


@needs_pollux
def test_the_applications_are_those_of_pollux_program() -> None:
    found = read_applications(str(POLLUX))
    limits = {name: tuple(one.limits) for name, one in found.items()}
    assert limits["cifar10"] == (128, 4096, 32, 1024)
    assert limits["yolov3"] == (8, 512, 4, 8)
    assert found["ncf"].most_gpus(32768) == 1
    arrival = Training(found, RoundRules()).arrival(
        JobId("j"), 0.0, Training(found, RoundRules()).run("bert", 384, 6)
    )
    assert (arrival.job.least_gpus, arrival.job.most_gpus) == (1, 96)
    assert arrival.job.interruption.restore_s == 30.0
    assert arrival.work_s < inf
