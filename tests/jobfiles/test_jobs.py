"""From a description to jobs: arrays, what the scheduler is told, what is executed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Job, JobId
from dovetail.jobfiles import arrays
from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.jobfiles.jobs import at_once, expand, job_fields, to_job
from dovetail.jobfiles.launch import argv, interpreter, scripts, short_name
from dovetail.worlds.world import Script

NOW = 1_800_000_000.0


def spec(**fields: Any) -> JobSpec:
    return read({"run": "true", **fields})


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("5", (5,), None),
        ("1,3,5-20:5", (1, 3, 5, 10, 15, 20), None),
        ("1,3,5-20:5%4", (1, 3, 5, 10, 15, 20), 4),
        (" 3, 1 , 2-2 ", (1, 2, 3), None),
        ("1-3,2-4", (1, 2, 3, 4), None),
        ("0-9999", tuple(range(10_000)), None),
        ("0-1000000000:1000000", tuple(range(0, 10**9 + 1, 10**6)), None),
    ],
)
def test_arrays_are_written_as_for_slurm(
    text: str, indices: tuple[int, ...], limit: int | None
) -> None:
    assert arrays.parse(text) == (indices, limit)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "1-",
            "-1",
            "3-1",
            "1-5:0",
            "1,,2",
            "1-2-3",
            "%4",
            "0-9%",
            "0-9%0",
            "0-9%x",
            "0-9%-1",
        ),
        *("0-10000", "0-9999,20000", "0-99999999999999999999", "2000000000", "1.5", "0-9%4%4"),
    ],
)
def test_arrays_without_sense_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^array: "):
        spec(array=text)


def test_an_array_is_told_why_it_is_too_large() -> None:
    with pytest.raises(BadInput, match="an array has 10,000 at most"):
        spec(array="0-999999999")


def test_the_members_of_an_array_have_indices_and_are_no_arrays() -> None:
    members = expand(spec(array="2,4%1", name="x"))
    assert [index for index, _ in members] == [2, 4]
    assert all(member == spec(name="x") for _, member in members)
    assert at_once(spec(array="2,4%1")) == 1


def test_a_job_that_is_no_array_stands_for_itself() -> None:
    assert expand(spec()) == [(None, spec())]
    assert at_once(spec()) is None


def test_a_plain_job_asks_for_one_gpu() -> None:
    job = to_job(spec(), "1", "ann", NOW)
    assert job == Job(JobId("1"), user="ann", name="true", alike=job.alike, nodes=1)
    assert len(set(job.alike)) == 4


def test_commands_are_alike_by_script_flags_and_numbers_of_epochs() -> None:
    def alike(command: str, user: str = "ann") -> tuple[str, ...]:
        return to_job(read({"command": command.split()}), "1", user, NOW).alike

    one = alike("python train.py --epochs 10 --lr 0.1")
    assert alike("python train.py --lr=0.1 --epochs=10")[1:] == one[1:]
    assert _common(one, alike("python train.py --epochs 500 --lr 0.1")) == [0, 1, 1, 1]
    assert _common(one, alike("python train.py --epochs 500 --lr 0.2")) == [0, 0, 1, 1]
    assert _common(one, alike("python train.py --smoke")) == [0, 0, 0, 1]
    assert _common(one, alike("python eval.py --epochs 10 --lr 0.1")) == [0, 0, 0, 0]
    assert _common(one, alike("python train.py --epochs 10 --lr 0.1", "bob")) == [0, 0, 0, 0]


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> list[int]:
    return [int(own == another) for own, another in zip(one, other, strict=True)]


@pytest.mark.parametrize(
    ("command", "amount"),
    [
        ("python train.py --epochs 500", 500.0),
        ("python train.py --max-steps=1e4 --warmup-steps 10", 1e4),
        ("python -m pkg.train trainer.max_epochs=3", 3.0),
        ("python train.py --steps 100 --num_epochs 7", 7.0),
        ("python train.py --epochs auto", None),
        ("python train.py --lr 0.1 --step-size 5", None),
    ],
)
def test_epochs_or_steps_that_a_command_names_are_its_amount(
    command: str, amount: float | None
) -> None:
    assert to_job(read({"command": command.split()}), "1", "ann", NOW).amount == amount


def test_every_wish_reaches_the_scheduler() -> None:
    job = to_job(
        spec(
            name="x",
            resources={
                "accelerators": ["H100:2", "A100"],
                "gpu_memory": "20GB",
                "cpus": 8,
                "memory": 64,
            },
            priority=5,
            deadline="+2h",
            time_limit="1h",
            estimate="30m",
            elastic={"min": 1, "max": 4},
            preemptible="restart",
            retries=3,
            after=["3", "4.1"],
            tenant="vision",
            group="study",
        ),
        "7.0",
        "ann",
        NOW,
    )
    assert job == Job(
        id=JobId("7.0"),
        gpus=2,
        kinds=("H100", "A100"),
        cpus=8.0,
        memory_gb=64.0,
        gpu_memory_gb=20.0,
        user="ann",
        tenant="vision",
        name="x",
        group="study",
        priority=5.0,
        deadline=NOW + 7200,
        min_gpus=1,
        max_gpus=4,
        estimate=Estimate(1800.0),
        retries=3,
        time_limit_s=3600.0,
        after=(JobId("3"), JobId("4.1")),
        restartable=True,
        alike=job.alike,
        nodes=1,
    )


def test_a_share_is_counted_in_thousandths() -> None:
    assert job_fields(spec(resources={"share": "12.5%"}), "1", "", NOW)["share"] == 125


def test_a_job_without_gpus_uses_a_processor_at_least() -> None:
    job = to_job(spec(resources={"gpus": 0}), "1", "", NOW)
    assert (job.gpus, job.cpus) == (0, 1.0)


def test_a_deadline_with_a_date_is_in_seconds_since_1970() -> None:
    job = to_job(spec(deadline="2027-01-15T08:00:00Z"), "1", "", NOW)
    assert job.deadline == 1_800_000_000


def test_a_job_that_never_gives_way_says_so() -> None:
    job = to_job(spec(preemptible=False), "1", "", NOW)
    assert (job.preemptible, job.restartable) == (False, False)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"command": ["python", "-u", "src/train.py", "--lr", "1"]}, "train.py"),
        ({"command": ["/usr/bin/python3.11", "-m", "train"]}, "train"),
        ({"command": ["python", "-c", "print('code')"]}, "python"),
        ({"command": ["sleep", "5"]}, "sleep"),
        ({"command": ["bash"]}, "bash"),
        ({"command": ["x" * 100]}, "x" * 40),
        ({"command": ["\x1b"]}, "job"),
        ({"command": ["/"]}, "job"),
        ({"run": "#!/bin/bash\nset -e\ncd /data\nTOKEN=1 ./train.sh --x\n"}, "train.sh"),
        ({"run": "# nothing"}, "job"),
    ],
)
def test_a_job_without_a_name_is_called_by_what_it_runs(fields: dict[str, Any], name: str) -> None:
    assert short_name(read(fields)) == name


def test_a_command_is_executed_as_it_is() -> None:
    job = read({"command": ["a", "b c"]})
    assert (scripts(job), argv(job)) == ({}, ("a", "b c"))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/usr/bin/env python3\n", ("/usr/bin/env", "python3")),
        ("#! /bin/bash -l -x\r\ntrue", ("/bin/bash", "-l -x")),
        ("#!/bin/sh", ("/bin/sh",)),
    ],
)
def test_a_script_names_its_interpreter(script: str, words: tuple[str, ...]) -> None:
    assert interpreter(script) == words


@pytest.mark.parametrize("script", ["true", "#!", "# words\n#!/bin/false"])
def test_a_script_that_names_none_is_run_by_a_shell(script: str) -> None:
    assert interpreter(script)[0].startswith("/bin/")


def executed(job: JobSpec, folder: Path) -> tuple[int, str]:
    for name, text in scripts(job).items():
        (folder / name).write_text(text)
    words = [str(folder / word) if isinstance(word, Script) else word for word in argv(job)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_script_gets_its_arguments_and_returns_its_exit_code(tmp_path: Path) -> None:
    job = spec(run='echo "$1|$2"\nexit 7', args=["a b", "*"])
    assert executed(job, tmp_path) == (7, "a b|*\n")


def test_a_script_longer_than_an_argument_may_be_runs(tmp_path: Path) -> None:
    assert executed(spec(run="# words\n" * 40_000 + "echo hi"), tmp_path) == (0, "hi\n")


def test_setup_comes_first_and_must_succeed(tmp_path: Path) -> None:
    assert executed(spec(setup="echo one", run="echo two"), tmp_path) == (0, "one\ntwo\n")
    assert executed(spec(setup="exit 3", run="echo two"), tmp_path) == (3, "")
    job = read({"setup": "echo one", "command": ["printf", "%s|", "a b", "$HOME"]})
    assert executed(job, tmp_path) == (0, "one\na b|$HOME|")
