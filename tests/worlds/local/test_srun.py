"""`srun` on one machine, by real processes: the tool as a job's folder has it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.daemon.submissions import Submission
from dovetail.jobfiles.job_model import read
from dovetail.jobfiles.sbatch import parse_sbatch
from dovetail.worlds.local.slurm.srun import hostnames
from dovetail.worlds.local.slurm.tools import lay_out_tools, tools_environment
from live_box import ME, Box, box


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("job")
    lay_out_tools(made / "bin")
    return made


def typed(folder: Path, line: str, **env: str) -> tuple[int, str, str]:
    own = tools_environment({"PATH": os.environ["PATH"]}, folder / "bin")
    own["SLURM_STEPS_FILE"] = str(folder / "steps")
    done = subprocess.run(
        ["bash", "-c", line],
        env={**own, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node1", **env},
        capture_output=True, text=True, timeout=120, check=False, input="typed\n",
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_each_task_knows_which_it_is(folder: Path) -> None:
    line = "srun -n 3 sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $SLURM_JOB_ID' | sort"
    assert typed(folder, line)[:2] == (0, "0/3 0 7\n1/3 1 7\n2/3 2 7\n")


def test_without_a_number_it_is_the_jobs_own_and_else_one(folder: Path) -> None:
    assert typed(folder, "srun echo x")[1] == "x\n"
    assert typed(folder, "srun echo x", SLURM_NTASKS="2")[1] == "x\nx\n"
    assert typed(folder, "srun --ntasks-per-node=3 echo x", SLURM_NTASKS="2")[1] == "x\n" * 3


def test_options_before_the_command_are_srun_s_and_those_behind_it_are_not(folder: Path) -> None:
    line = "srun -u --mpi=pmix --cpu-bind none -c4 -J x -K1 --exclusive echo -n 3 --label -l"
    assert typed(folder, line)[:2] == (0, "3 --label -l")
    assert typed(folder, "srun --job x --ntasks-per-n 2 --mincpus 1 echo x")[1] == "x\nx\n"
    assert typed(folder, "srun -c 4 printenv SLURM_CPUS_PER_TASK")[1] == "4\n"


def test_lines_are_labelled(folder: Path) -> None:
    code, out, err = typed(folder, "srun -l -n 2 sh -c 'echo hi; echo oh >&2; printf end'")
    assert code == 0
    assert sorted(out.splitlines()) == ["0: end", "0: hi", "1: end", "1: hi"]
    assert sorted(err.splitlines()) == ["0: oh", "1: oh"]


def test_the_worst_exit_code_counts_and_the_others_are_ended(folder: Path) -> None:
    began = time.monotonic()
    script = "'[ $SLURM_PROCID = 1 ] && exit 3; sleep 600'"
    code, _, err = typed(folder, f"srun -n 3 sh -c {script}")
    assert time.monotonic() - began < 120
    assert code == 128 + 15
    assert "srun: error: task 1: exit code 3; ending the others (not so with -K0)" in err
    code, out, _ = typed(folder, "srun -K0 -n 2 sh -c 'sleep 0.$SLURM_PROCID; echo x; exit 4'")
    assert (code, out) == (4, "x\nx\n")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("srun no-such-program", 2, "srun: error: execve(): no-such-program: No such file"),
        ("srun -N 2 true", 1, "--nodes=2: a job has one machine here; ask for 1 node"),
        ("srun --het-group=0 true", 1, "--het-group: parts of a job on several machines"),
        ("srun -n many true", 1, "--ntasks=many: a whole number from 1 to 4096 is needed"),
        ("srun", 1, "say what to run"),
        ("srun -n", 1, "-n needs a value"),
        ("srun --bogus", 1, "srun: error: --bogus: srun has no such option"),
        ("srun --bogus=3 true", 1, "--bogus=3: srun has no such option"),
        ("srun --cpus 3 true", 1, "--cpus: srun has no such option"),
        ("srun -n 2 --gpus-per-task=1 true", 1, "task 0 would have none of the job's 0"),
        ("scontrol show job", 1, "scontrol: error: only `show hostnames` works here"),
    ],
)
def test_what_cannot_be_done_fails_in_one_line(
    folder: Path, line: str, code: int, told: str
) -> None:
    found, out, err = typed(folder, line)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert told in err


def test_variables_are_exported_as_asked(folder: Path) -> None:
    shown = "sh -c 'echo [$A][$B][$SLURM_PROCID]'"
    assert typed(folder, f"srun {shown}", A="1", B="2")[1] == "[1][2][0]\n"
    assert typed(folder, f"srun --export=NONE {shown}", A="1", B="2")[1] == "[][][0]\n"
    assert typed(folder, f"srun --export=A,B=3 {shown}", A="1", B="2")[1] == "[1][3][0]\n"
    assert typed(folder, f"srun --export=ALL,B=3 {shown}", A="1", B="2")[1] == "[1][3][0]\n"


def test_each_task_may_have_gpus_of_its_own(folder: Path) -> None:
    gpus = {"CUDA_VISIBLE_DEVICES": "a,b,c,d"}
    shown = "sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES' | sort"
    assert typed(folder, f"srun -n2 {shown}", **gpus)[1] == "0 a,b,c,d\n1 a,b,c,d\n"
    assert typed(folder, f"srun -n2 --gpus-per-task=2 {shown}", **gpus)[1] == "0 a,b\n1 c,d\n"


def test_output_goes_to_files_by_task_and_input_to_the_first(folder: Path, tmp_path: Path) -> None:
    line = f"cd {tmp_path}; srun -n 2 -o out.%j.%t cat; srun -n 2 --chdir=/ pwd"
    assert typed(folder, line)[:2] == (0, "/\n/\n")
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files == {"out.7.0": "typed\n", "out.7.1": ""}


def test_steps_are_counted_and_a_login_shell_finds_srun_all_the_same(folder: Path) -> None:
    line = "PATH=/usr/bin:/bin; for i in 1 2; do srun printenv SLURM_STEP_ID; done"
    first, second = map(int, typed(folder, line)[1].split())
    assert second == first + 1


def test_a_script_finds_its_first_machine(folder: Path) -> None:
    assert typed(folder, "scontrol show hostnames")[1] == "node1\n"
    assert hostnames("a,b[1-2,07],c") == ["a", "b1", "b2", "b07", "c"]


# ------------------------------------------------------------------------------ under a real daemon


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("box"), policy="fifo-skip") as made:
        yield made


def batch(here: Box, text: str) -> dict[str, object]:
    fields, _ = parse_sbatch(text)
    environment = {"PATH": os.environ["PATH"], "SLURM_NTASKS": "99"}  # of another Slurm
    submission = Submission(read(fields), environment, str(here.home.state))
    job = here.service.submit([submission], ME)[0]
    (row,) = here.wait(job)
    return {**row, "printed": here.log(job)}


def test_a_batch_script_that_calls_srun_does_what_it_says(here: Box) -> None:
    row = batch(
        here,
        "#!/bin/bash\n#SBATCH --ntasks=2 --gpus=1 --cpus-per-task=1\n"
        "echo $SLURM_NTASKS $SLURM_JOB_NUM_NODES $SLURM_CPUS_PER_TASK $SLURM_GPUS_ON_NODE\n"
        'test "$(scontrol show hostnames)" = "$SLURM_JOB_NODELIST" || exit 9\n'
        f"srun -l {sys.executable} -c 'import os; print(os.environ[\"SLURM_PROCID\"])' | sort\n",
    )
    assert (row["phase"], row["printed"]) == ("finished", "2 1 1 1\n0: 0\n1: 1\n")


def test_a_failing_step_fails_its_script(here: Box) -> None:
    row = batch(here, "#!/bin/bash\n#SBATCH --ntasks=1\nset -e\nsrun sh -c 'exit 5'\necho no\n")
    assert (row["phase"], row["exit_code"], row["printed"]) == ("failed", 5, "")
