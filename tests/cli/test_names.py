"""Commands find jobs by name and pattern as well as by id; one that is wrong does not spoil the rest."""

from __future__ import annotations

import pytest

from dovetail.cli.jobs.job_columns import where
from job_samples import a_job
from typed_box import Box


def test_a_name_stands_for_all_jobs_of_that_name(box: Box) -> None:
    array = box.submit("--name", "big", "--array", "1-300", "--", "sleep", "60")
    other = box.sh("sleep 60", "--name", "bigger")
    assert box.well("prio", "big", "-1").startswith("Priority -1 for 300 jobs: ")
    assert box.well("pause", "big").startswith("Paused 300 jobs: ")
    assert box.well("cancel", "big").startswith(f"Cancelled 300 jobs: {array}.1, ")
    assert [row["id"] for row in box.json("queue")] == [other]
    assert box("cancel", "big") == (
        *(1, ""), "dovetail: no job of yours that has not ended is called 'big'\n"
    )  # fmt: skip
    box.well("cancel", "bigg?r")


def test_what_can_be_done_is_done_and_what_cannot_is_said(box: Box) -> None:
    first, second = box.sh("sleep 60"), box.sh("sleep 60")
    said = box("cancel", first, "99999", "nobody", second)
    assert (said.code, said.out) == (1, f"Cancelled jobs {first} and {second}.\n")
    assert said.err.splitlines() == [
        "dovetail: there is no job 99999",
        "dovetail: no job of yours that has not ended is called 'nobody'",
    ]
    said = box("cancel", first, "99999")
    assert (said.code, said.out) == (1, "")
    assert said.err == f"dovetail: job {first} was cancelled already; there is no job 99999\n"


def test_one_job_of_a_name_is_shown_and_the_last_of_several(box: Box) -> None:
    jobs = [box.sh(f"echo hello {n}; sleep 0{n}", "--name", "hello") for n in (0, 60, 60)]
    box.well("wait", jobs[0])
    box.in_phase(jobs[2], "running")
    said = box("logs", "hello")
    assert (said.code, said.out) == (0, "hello 60\n")
    told = f"dovetail: 2 jobs are called hello; this is {jobs[2]}, the last running\n"
    assert said.err == told
    assert f"job {jobs[2]} (hello" in box.well("why", "hel*")
    assert len(box.well("show", "hello").splitlines()) == 3
    box.well("cancel", jobs[2])
    assert [row["id"] for row in [box.json("show", "hello")]] == [jobs[1]]
    box.well("cancel", "hello")
    box("wait", jobs[1], jobs[2])
    assert box.well("logs", "hello") == "hello 60\n"  # of the last that ended
    said = box("logs", "hullo")
    assert (said.code, said.out) == (1, "")
    assert "there is no job called 'hullo'; " in said.err


def test_of_an_array_one_job_is_shown_and_it_is_said_which(box: Box) -> None:
    array = box.submit("--array", "0-1", "--", "sh", "-c", "echo hello $DOVETAIL_ARRAY_INDEX")
    box.well("wait", array)
    said = box("logs", array)
    assert (said.code, said.out) == (0, "hello 1\n")
    assert (
        said.err == f"dovetail: 2 jobs are of array {array}; this is {array}.1, the last finished\n"
    )
    assert f"job {array}.1 (sh" in box.well("why", array)


def test_wait_takes_names_and_says_which_are_not_there(box: Box) -> None:
    box.sh("true", "--name", "short")
    box.sh("true", "--name", "short")
    assert box("wait", "short").code == 0
    said = box("wait", "-q", "short", "nobody")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("dovetail: there is no job called 'nobody'")
    box.sh("exit 1", "--name", "sad")
    assert box("wait", "sad", "nobody").code == 3


def test_wait_says_that_several_of_a_name_have_ended_and_means_the_last(box: Box) -> None:
    first, last = box.sh("exit 1", "--name", "twice"), box.sh("true", "--name", "twice")
    box("wait", first, last)
    lists = f"dovetail --home {box.home} history lists them"
    told = f"dovetail: several jobs called twice have ended; this is {last}, the last; {lists}\n"
    for typed in ("wait", "show", "logs", "why"):
        said = box(typed, "twice")
        assert (said.code, said.err) == (0, told), typed
    assert box("wait", last).err == ""


def test_wait_by_the_name_of_an_array_means_all_of_it_also_what_has_ended(box: Box) -> None:
    script = "exit $DOVETAIL_ARRAY_INDEX"
    array = box.submit("--name", "mixed", "--array", "0-1", "--", "sh", "-c", script)
    box("wait", array)
    said = box("wait", "mixed")
    assert (said.code, said.out.count("\n"), said.err) == (3, 2, "")


def test_requeue_by_name_leaves_those_alone_that_wait(box: Box) -> None:
    jobs = [box.sh("sleep 60", "--name", "again", "--gpus", 2) for _ in range(2)]
    box.in_phase(jobs[0], "running")
    assert box.well("requeue", "again") == f"Requeued job {jobs[0]}.\n"
    said = box("requeue", jobs[1])
    assert (said.code, "waits already" in said.err) == (1, True)
    box.well("cancel", "again")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1"], "say whose priority becomes 1: prio JOB... 1"),
        (["1", "high"], "the priority comes last, a number: prio JOB... 5, not 'high'"),
        ([], "the priority comes last, a number: prio JOB... 5, not ''"),
    ],
)
def test_a_priority_without_a_job_is_explained(box: Box, words: list[str], told: str) -> None:
    said = box("prio", *words)
    assert said.code == 2
    assert said.err.startswith(f"dovetail: {told}")


def test_a_job_of_processors_alone_is_on_no_gpu() -> None:
    assert where(a_job(placement=[{"node": 0, "gpus": []}])) == ""
    assert where(a_job(placement=[{"node": 0, "gpus": [1, 2]}])) == "on 1-2"
    assert where(a_job(placement=[{"node": 3, "gpus": [0]}, {"node": 4, "gpus": []}])) == "3:0"
