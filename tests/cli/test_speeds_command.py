"""`dovetail speeds`, and speed tables in simulations, job files and the daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.daemon.active_policy import make
from dovetail.jobfiles.job_model import read
from dovetail.jobfiles.jobs import to_job
from dovetail.policies.mixed.similar import ModelSimilarity
from dovetail.predict.speed import SimilarModels
from dovetail.testing import job
from dovetail.traces.clusters.speed_tables import read_speed_table

SPEEDS = """model,batch,kind,gpus,steps_per_s
resnet50,32,K80,1,1
resnet50,32,V100,1,8
resnet50,64,K80,1,0.5
resnet50,64,V100,1,5
lm,20,K80,1,10
lm,20,V100,1,30
"""
JOBS = "job_id,submit_s,duration_s,gpus,model\na,0,100,1,resnet50@32\nb,0,100,1,lm@20\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "speeds.csv").write_text(SPEEDS)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return str(tmp_path / "speeds.csv"), str(tmp_path / "jobs.csv")


def typed(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_a_model_never_measured_is_explained_by_its_neighbours_and_the_usual_error(
    files: tuple[str, str],
) -> None:
    done = typed("speeds", "vgg16", "--speed-table", files[0])
    assert done.exit_code == 0
    assert "VGG-16, convolution, 138.4 million parameters" in done.stdout
    told = " ".join(done.stdout.split())
    assert "most like it and count most: resnet50@64 (0.10 on k80), lm@20 (0.33 on k80)." in told
    assert "When a type of this table is left out, ratios between kinds are missed by" in told
    assert re.search(
        r"When a whole model .* missed by \d+% \(median\); by the median of all, \d+%", told
    )
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_same_as_json(files: tuple[str, str]) -> None:
    done = typed("speeds", "resnet50", "--batch", "32", "--speed-table", files[0], "--json")
    found = json.loads(done.stdout)
    assert found["measured"]
    assert [(one["kind"], one["speed"]) for one in found["kinds"]] == [("k80", 0.125), ("v100", 1)]


def test_a_gang_over_nodes_is_compared_with_one_in_a_single_node(tmp_path: Path) -> None:
    path = tmp_path / "speeds.csv"
    rows = ["resnet50,T4,1,1,4", "resnet50,T4,4,1,3", "resnet50,T4,4,2,1.5"]
    path.write_text("\n".join(["model,kind,gpus,nodes,steps_per_s", *rows]))
    asked = ["speeds", "resnet50", "--speed-table", str(path), "--gpus", "4"]
    done = typed(*asked, "--nodes", "2", "--json")
    (only,) = json.loads(done.stdout)["kinds"]
    assert (only["speed"], only["of_one_gpu"]) == (0.5, 0.375)
    assert "on 4 GPUs, 2 nodes" in typed(*asked, "--nodes", "2").stdout
    assert typed(*asked, "--nodes", "5").exit_code == 2


def test_what_is_not_known_is_said(files: tuple[str, str]) -> None:
    done = typed("speeds", "mine", "--speed-table", files[0])
    assert "nothing is known of this model but its name" in done.stdout
    assert "taken for the median of all" in done.stdout
    with pytest.raises(BadInput, match="names no model"):
        CliRunner().invoke(cli, ["speeds", "@5", "--speed-table", files[0]], catch_exceptions=False)


def test_what_was_measured_on_some_kinds_only_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "speeds.csv"
    rows = "foo,V100,1,10\nfoo,K80,1,2\nbar,V100,1,8\nbar,K80,1,0\n"
    path.write_text("model,kind,gpus,steps_per_s\n" + rows)
    found = json.loads(typed("speeds", "bar", "--speed-table", str(path), "--json").stdout)
    assert not found["measured"]
    assert [(own["kind"], own["measured"]) for own in found["kinds"]] == [
        ("v100", True), ("k80", False)
    ]  # fmt: skip
    said = " ".join(typed("speeds", "bar", "--speed-table", str(path)).stdout.split())
    assert "It was measured itself on v100; predicted is k80." in said
    assert "taken for the median of all" in said
    assert "nothing is predicted" in typed("speeds", "foo", "--speed-table", str(path)).stdout


@pytest.mark.parametrize("model", ["resnet50@x", "resnet50@-3", "resnet50@0", "resnet50@"])
def test_a_batch_size_that_is_none_is_refused(files: tuple[str, str], model: str) -> None:
    done = typed("speeds", model, "--speed-table", files[0])
    assert isinstance(done.exception, BadInput)
    assert "is no batch size; give a number from 1 on, such as resnet50@64" in str(done.exception)


def test_what_the_table_cannot_tell_is_said_too(files: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("model,kind,gpus,nodes,steps_per_s\nresnet50,T4,4,2,3\n")
    done = typed("speeds", "vgg16", "--speed-table", str(path))
    assert "No model was measured on such GPUs; nothing can be told." in done.stdout
    path.write_text("model,kind,gpus,steps_per_s\nresnet50,T4,1,3\n")
    done = typed("speeds", "vgg16", "--speed-table", str(path))
    assert "The table has no other GPU kind to compare it with." in done.stdout


def test_a_simulation_runs_models_at_their_speed_and_says_what_the_policy_knew(
    files: tuple[str, str],
) -> None:
    table, jobs = files
    texts = ["model-similarity:speeds=none", "model-similarity:speeds=oracle"]
    asked = ["compare", jobs, "--cluster", "1x1:K80+1x1:V100", "--speed-table", table]
    done = typed(*asked, "--policies", ",".join(texts), "--json")
    spans = [row["makespan_s"] for row in json.loads(done.stdout)]
    assert spans == [800.0, 200.0]  # resnet50 on the K80, or after it on the V100
    done = typed(*asked, "--policies", texts[1])
    assert "speeds: oracle (as measured, which is the truth here)" in done.stdout


def test_durations_may_be_of_another_kind_than_the_fastest(files: tuple[str, str]) -> None:
    table, jobs = files
    asked = ["simulate", jobs, "--cluster", "1x1:V100", "--speed-table", table, "--policy", "fifo"]
    done = typed(*asked, "--measured-on", "k80", "--json")
    assert json.loads(done.stdout)["makespan_s"] == pytest.approx(100 / 8 + 100 / 3)


def test_jobs_and_kinds_that_the_table_lacks_are_told(files: tuple[str, str]) -> None:
    table, jobs = files
    Path(jobs).write_text(JOBS + "c,0,10,1,vgg16\n")
    asked = ["simulate", jobs, "--cluster", "1x4:T4", "--speed-table", table, "--policy", "fifo"]
    done = typed(*asked)
    assert done.exit_code == 0
    assert "1 job of 3 run a model that the speed table lacks, such as 'vgg16'" in done.stderr
    assert "lacks the GPU kind T4; it has k80, v100" in done.stderr


def test_a_policy_that_wants_speeds_without_a_table_is_told_what_there_is(
    files: tuple[str, str],
) -> None:
    asked = ["simulate", files[1], "--cluster", "1x1", "--policy", "model-similarity:speeds=oracle"]
    with pytest.raises(BadInput, match="'oracle' needs a table of true speeds"):
        CliRunner().invoke(cli, asked, catch_exceptions=False)


def test_a_job_file_names_the_model_for_the_daemons_policy(files: tuple[str, str]) -> None:
    spec = read({"run": "python train.py", "model": "resnet50@32"})
    assert to_job(spec, "1", "ana", 0.0).model == "resnet50@32"
    policy = make("model-similarity", speeds=SimilarModels(read_speed_table(files[0])))
    assert isinstance(policy, ModelSimilarity)
    assert policy.speeds.speed(job(model="resnet50@32"), "NVIDIA K80", 1, 1) == 0.125
    blind = make("model-similarity")
    assert isinstance(blind, ModelSimilarity)
    assert blind.speeds.speed(job(model="resnet50@32"), "NVIDIA K80", 1, 1) == 1.0


def test_an_elastic_job_that_may_have_more_gpus_than_were_measured_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "speeds.csv").write_text(
        "model,kind,gpus,steps_per_s\nnet,gpu,1,1\nnet,gpu,2,1.8\n"
    )
    trace = tmp_path / "t.csv"
    trace.write_text("job_id,submit_s,duration_s,gpus,max_gpus,model\nj,0,10,1,4,net\n")
    words = ["simulate", str(trace), "--cluster", "1x4", "--policy", "optimus"]
    done = CliRunner().invoke(cli, [*words, "--speed-table", str(tmp_path / "speeds.csv")])
    assert "job 'j' may have up to 4 GPUs" in str(done.exception)
    assert "net on at most 2: give it max_gpus 2" in str(done.exception)
