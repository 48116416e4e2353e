"""Batch scripts written for Slurm: what their `#SBATCH` lines become."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.errors import BadInput
from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.jobfiles.jobs import to_job
from dovetail.jobfiles.launch import slurm_variables
from dovetail.jobfiles.sbatch import parse_sbatch
from dovetail.jobfiles.sbatch_lines import is_script
from dovetail.worlds.local.runs.launching import slurm_machine

EXAMPLE = Path(__file__).parents[2] / "examples" / "legacy.sbatch"


def script(*options: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "true", ""])


def fields(*options: str) -> dict[str, Any]:
    found, _ = parse_sbatch(script(*options))
    read(found)  # whatever comes out must be a description
    return found


def resources(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = fields(*options)["resources"]
    return found


def notices(*options: str) -> list[str]:
    return parse_sbatch(script("--gpus=1", *options))[1]


def complaint(*options: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse_sbatch(script(*options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_example_becomes_a_job() -> None:
    found, told = parse_sbatch(EXAMPLE.read_text())
    job = read(found)
    assert (job.name, job.tenant, job.gpus, job.resources.kinds) == (
        "resnet",
        "vision",
        2,
        ("a100",),
    )
    assert (job.resources.cpus, job.time_limit, job.array) == (8, 129_600, "0-9%4")
    assert job.resources.memory == pytest.approx(64 * 2**30 / 1e9)
    assert (job.checkpoint.grace, job.preemptible, job.slurm) == (120, "restart", True)
    assert job.output == "logs/%x-%A_%a.out"
    assert told == ["not used: --partition=gpu; there is one queue"]


@pytest.mark.parametrize(
    "options",
    [
        ("--job-name=x",),
        ("--job-name x",),
        ("-J x",),
        ("-Jx",),
        ("--job-name='x'",),
        ("--job-name=y", "--job-name=x"),
        ("-J x # a comment",),
        ("--mem=1G -J x --time=5",),
    ],
)
def test_options_are_written_in_many_ways(options: tuple[str, ...]) -> None:
    assert fields(*options)["name"] == "x"


@pytest.mark.parametrize(
    ("option", "kind", "gpus"),
    [
        ("--gres=gpu", None, 1),
        ("--gres=gpu:2", None, 2),
        ("--gres=gpu:a100", "a100", 1),
        ("--gres=gpu:a100:2", "a100", 2),
        ("--gres=gpu:a100:2(S:0-1)", "a100", 2),
        ("--gres=gres/gpu:3", None, 3),
        ("--gpus=2", None, 2),
        ("-G h100:4", "h100", 4),
        ("--gpus-per-node=h100:4", "h100", 4),
        ("--gpus-per-task=2 -n 3", None, 6),
        ("--gres=none", None, 0),
        ("--gres=gpu:0", None, 0),
    ],
)
def test_gpus_are_asked_for_in_many_ways(option: str, kind: str | None, gpus: int) -> None:
    found = resources(option)
    assert (found["gpus"], found.get("accelerators")) == (gpus, kind)


def test_a_script_that_asks_for_no_gpu_gets_a_processor_and_is_told() -> None:
    found, told = parse_sbatch(script())
    assert found["resources"] == {"gpus": 0, "cpus": 1}
    assert told == ["it asks for no GPU (--gres, --gpus), so it gets none"]


def test_processors_are_those_of_all_tasks() -> None:
    assert resources("-c 4")["cpus"] == 4
    assert resources("-c 4", "-n 3")["cpus"] == 12
    assert resources("--ntasks-per-node=3", "--gpus=1")["cpus"] == 3
    assert "cpus" not in resources("--gpus=1")
    assert "the script is run once" in notices("-n 3")[0]


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        (("--mem=4G",), "4GiB"),
        (("--mem=500",), "500MiB"),
        (("--mem=0",), None),
        (("--mem-per-cpu=2G", "-c 8"), "16GiB"),
        (("--mem-per-gpu=2GB", "-G 4"), "8GiB"),
    ],
)
def test_memory_is_counted_as_slurm_counts_it(options: tuple[str, ...], memory: str | None) -> None:
    assert resources(*options).get("memory") == memory


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:05", 131_405),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(time: str, seconds: int | None) -> None:
    assert fields(f"--time={time}").get("time_limit") == seconds
    assert fields("--time=5", f"-t {time}").get("time_limit") == seconds


def test_dependencies_on_success_are_taken() -> None:
    assert fields("--dependency=afterok:1:2_5,afterok:3")["after"] == ["1", "2.5", "3"]


def test_dependencies_on_any_end_and_on_failures_are_taken() -> None:
    found = fields("--dependency=afterany:1:2,afternotok:3_4")
    assert (found["after_any"], found["after_failed"]) == (["1", "2"], ["3.4"])
    assert "after_any" not in fields("--dependency=afterany:1", "--dependency=afterok:2")


@pytest.mark.parametrize("value", ["after:1", "singleton", "afterok:1?afterok:2", "afterok", "x"])
def test_other_dependencies_are_refused_rather_than_forgotten(value: str) -> None:
    told = complaint(f"--dependency={value}")
    assert "only afterok, afterany, afternotok with :ID[:ID…] are understood" in told


@pytest.mark.parametrize(
    ("written", "begin"),
    [
        ("now+90", "+90"),
        ("now+2hours", "+7200"),
        ("now+1day", "+86400"),
        ("16:00", "16:00"),
        ("2030-01-20T12:34:00", "2030-01-20 12:34:00"),
        ("now", None),
    ],
)
def test_times_to_begin_are_taken(written: str, begin: str | None) -> None:
    assert fields(f"--begin={written}").get("begin") == begin
    assert fields("-H")["hold"] is True


def test_a_signal_becomes_the_grace() -> None:
    assert fields("--signal=B:TERM@120")["checkpoint"] == {"grace": 120}
    assert fields("--signal=SIGUSR1")["checkpoint"] == {"grace": 60}
    assert notices("--signal=15@5") == []
    assert notices("--signal=USR1@90") == [
        "--signal=USR1@90: it is told to stop by SIGTERM, not by USR1"
    ]


def test_requeueing_nice_and_export() -> None:
    assert fields("--requeue")["preemptible"] == "restart"
    assert fields("--requeue", "--no-requeue")["preemptible"] is True
    assert fields("--nice")["priority"] == -100
    assert fields("--nice=-5")["priority"] == 5
    assert fields("--export=ALL,A=1,B=x=y")["envs"] == {"A": "1", "B": "x=y"}
    assert "all variables of your shell" in notices("--export=NONE")[0]


def test_nodes_are_a_question_of_the_world() -> None:
    assert "nodes" not in fields("--gpus=2")
    assert to_job(read(fields("--gpus=2")), "7", "ann", 0.0).nodes == 1  # what runs once
    assert fields("-N 1", "--nodes=1-1")["nodes"] == 1
    for option in ("-N2", "-N 2", "--nodes=2", "--nodes 2", "--nodes=2-2", "--nodes=2-4"):
        found = fields("--gpus=8", option, "--mem=10G", "-n 4", "-c 3")
        assert found["nodes"] == 2
        assert found["resources"] == {"gpus": 4, "cpus": 6, "memory": "10GiB"}
        job = to_job(read(found), "7", "ann", 0.0)
        assert (job.nodes, job.gpus, job.cpus) == (2, 8, 12.0)
        assert job.memory_gb == pytest.approx(20 * 1.024**3)
    assert notices("--gpus=8", "-N2") == ["--nodes=2: the script is run once on each node"]
    assert "it gets 2, the fewest" in notices("--gpus=8", "--nodes=2-4")[0]
    assert complaint("-N2", "--gpus=7") == (
        "line 3: --gpus=7: 2 nodes cannot have equally many of 7 GPUs; ask for 8"
    )


def test_gpus_a_node_and_tasks_a_node_are_so_many_on_each() -> None:
    assert fields("-N2", "--gres=gpu:4")["resources"]["gpus"] == 4
    assert fields("-N2", "--gpus-per-node=4")["resources"]["gpus"] == 4
    several = fields("--ntasks=8", "--ntasks-per-node=4", "--gpus-per-task=1")
    assert (several["nodes"], several["resources"]) == (2, {"gpus": 4, "cpus": 4})
    assert several["envs"]["SLURM_NTASKS"] == "8"
    assert several["envs"]["SLURM_TASKS_PER_NODE"] == "4(x2)"
    assert fields("-N2", "--ntasks-per-node=4")["envs"]["SLURM_NTASKS"] == "8"
    assert "with 4 a node it needs 3 nodes, and it asks for 2" in complaint(
        "-N2", "--ntasks-per-node=4", "--ntasks=12"
    )


def test_options_that_are_not_used_are_told_once() -> None:
    assert notices("--qos=high", "--exclusive", "--reservation=a", "--qos=high", "--comment=x") == [
        "not used: --qos=high, --exclusive, --reservation=a"
    ]


def test_mail_is_a_way_to_be_told() -> None:
    found = fields("--mail-user=a@b.c", "--mail-type=BEGIN,FAIL")
    assert (found["notify"], found["notify_on"]) == (["mail:a@b.c"], ["start", "failure"])
    assert fields("--mail-type=ALL")["notify"] == ["mail"]
    assert "notify" not in fields("--mail-user=a@b.c")
    assert "notify" not in fields("--mail-user=a@b.c", "--mail-type=NONE")
    assert notices("--mail-type=END,STAGE_OUT") == ["--mail-type=STAGE_OUT: nobody is told of that"]


def test_lines_after_the_first_command_are_not_read() -> None:
    text = "#!/bin/bash\n\n# words\n#SBATCH -J x\necho\n#SBATCH -J y\n"
    found, told = parse_sbatch(text)
    assert found["name"] == "x"
    assert told[0] == "line 6: #SBATCH after the first command is not read"


def test_comments_that_only_look_alike_are_left_alone() -> None:
    found, told = parse_sbatch("#!/bin/bash\n##SBATCH -J x\n# SBATCH -J y\n#SBATCHER -J z\ntrue")
    assert "name" not in found
    assert len(told) == 1


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--time=soon", "a time such as 90 (minutes), 1:30:00 or 1-12:00:00 is needed"),
        ("--time", "it has no value"),
        ("--mem=lots", "a size such as 4G or 500M is needed"),
        ("-c many", "a whole number is needed"),
        ("--gpus=a:1,b:2", "a job has GPUs of one kind"),
        ("--gres=gpu:a:b:2", "a kind and a number are needed"),
        ("--nice=x", "a whole number is needed"),
        ("--signal=@", "a signal and seconds are needed"),
        ("-N x", "a number of nodes is needed, such as 2"),
        ("-N 0", "a number of nodes is needed, such as 2"),
        ("train.py", "where an option is needed"),
        ("--job-name='x", "cannot be read: no closing quotation"),
    ],
)
def test_mistakes_are_told_with_their_line(option: str, reason: str) -> None:
    told = complaint(option)
    assert told.startswith("line 2: ")
    assert reason in told
    with pytest.raises(BadInput, match=r"^old\.sh, line 2: "):
        parse_sbatch(script(option), source="old.sh")


def test_arguments_reach_the_script() -> None:
    assert parse_sbatch(script(), ["a", "b c"])[0]["args"] == ["a", "b c"]


def test_the_script_itself_is_kept_to_the_letter() -> None:
    assert fields("-J x")["run"] == script("-J x")


def test_scripts_are_told_from_descriptions() -> None:
    assert is_script("#!/bin/bash\ntrue")
    assert is_script("#SBATCH -J x\ntrue")
    assert not is_script("# a comment\nrun: true")
    assert not is_script("run: |\n  #SBATCH -J x")
    assert not is_script("")


WORDS = st.sampled_from(
    [
        "--time=",
        "--gres=gpu:",
        "-N",
        "-n",
        "--mem=",
        "9",
        "x",
        ":",
        "-",
        "=",
        "'",
        ",",
        " ",
        "\x00",
        "é",
    ]
)


@given(st.lists(st.lists(WORDS, max_size=8).map("".join), max_size=4))
def test_any_line_is_read_or_refused_in_one_line(options: list[str]) -> None:
    try:
        found, told = parse_sbatch(script(*options))
    except BadInput as error:
        found, told = {}, [str(error)]
    assert found.get("run") in (None, script(*options))
    assert all("\n" not in notice for notice in told)


def test_options_are_told_as_slurm_tells_them_and_only_if_they_are_there() -> None:
    envs = fields("--ntasks-per-node=2", "--gpus-per-task=3")["envs"]
    assert envs == {
        "SLURM_NTASKS": "2",
        "SLURM_NPROCS": "2",
        "SLURM_TASKS_PER_NODE": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_GPUS_PER_TASK": "3",
    }
    assert "envs" not in fields("--gres=gpu:2")
    assert fields("--export=ALL,SLURM_NTASKS=5", "-n 2")["envs"]["SLURM_NTASKS"] == "5"


def test_what_needs_several_machines_is_refused() -> None:
    assert "line 2: #SBATCH hetjob: a job of several parts" in complaint("hetjob")
    steps = script("-n 2") + "srun --nodes=2 python x.py\n"
    with pytest.raises(BadInput, match="line 4: srun --nodes=2: a job has one machine here"):
        parse_sbatch(steps)
    parse_sbatch(script("-N 2") + "srun --nodes=2 python x.py\n")
    parse_sbatch(script("-n 2") + "srun --nodes=$SLURM_NNODES x\n# srun -N 2\necho 'srun: -N 2'\n")


def test_slurm_variables_are_only_for_scripts_that_expect_them() -> None:
    job = read(fields("-c 4"))
    found = {**slurm_machine(), **slurm_variables(job, "7.3", "x", "/data", 3, "1-9:2")}
    assert (
        found.items()
        >= {
            "SLURM_JOB_ID": "7.3",
            "SLURM_JOBID": "7.3",
            "SLURM_JOB_NAME": "x",
            "SLURM_SUBMIT_DIR": "/data",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_CPUS_ON_NODE": "4",
            "SLURM_ARRAY_JOB_ID": "7",
            "SLURM_ARRAY_TASK_ID": "3",
            "SLURM_ARRAY_TASK_COUNT": "5",
            "SLURM_ARRAY_TASK_MIN": "1",
            "SLURM_ARRAY_TASK_MAX": "9",
            "SLURM_ARRAY_TASK_STEP": "2",
        }.items()
    )
    assert found["SLURM_JOB_NODELIST"] == found["SLURMD_NODENAME"]
    assert "SLURM_NTASKS" not in found
    assert job.envs == {"SLURM_CPUS_PER_TASK": "4"}
    assert "SLURM_ARRAY_TASK_ID" not in slurm_variables(job, "7", "x", "/data")
    assert slurm_variables(JobSpec.model_validate({"run": "x"}), "7", "x", "/data") == {}


def test_reading_a_script_loads_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys; from dovetail.jobfiles.sbatch import parse_sbatch;"
        "parse_sbatch('#!/bin/sh\\n#SBATCH -J x --gres=gpu:2 --time=1:00:00\\n');"
        "print([m for m in ('pydantic', 'yaml', 'dovetail.traces') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
