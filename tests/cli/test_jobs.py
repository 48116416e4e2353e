"""Submitting, looking and changing, by commands, against a real daemon with two slots."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from typed_box import Box


def test_a_job_runs_with_the_folder_and_the_variables_it_was_submitted_with(
    box: Box, tmp_path: Path
) -> None:
    job = box.submit(
        "--env", "B=two words", "--", "sh", "-c", 'echo "$A|$B|$PWD|$DOVETAIL_JOB_ID"',
        cwd=tmp_path, A="one",
    )  # fmt: skip
    assert box.well("wait", job).startswith(f"job {job} (sh) finished after ")
    assert box.well("logs", job) == f"one|two words|{tmp_path}|{job}\n"
    row = box.json("show", job)
    assert (row["phase"], row["exit_code"], row["attempts"], row["preemptions"]) == (
        *("finished", 0),
        *(1, 0),
    )
    assert row["submitted_at"] <= row["started_at"] <= row["ended_at"]
    assert {"id", "name", "gpus", "priority", "last_report", "reason"} <= set(row)


def test_a_job_submitted_by_a_job_is_not_taken_for_that_one(box: Box) -> None:
    job = box.submit("--", "sh", "-c", "echo [$DOVETAIL_ARRAY_INDEX]", DOVETAIL_ARRAY_INDEX="5")
    box.well("wait", job)
    assert box.well("logs", job) == "[]\n"


def test_submit_prints_a_sentence_an_id_or_json(box: Box) -> None:
    assert box.well("submit", "--", "true").startswith("Submitted job ")
    assert box.submit("--", "true").isdigit()
    assert set(json.loads(box.well("submit", "--json", "--", "true"))) == {"id"}
    array = json.loads(box.well("submit", "--json", "--array", "3-5", "--", "true"))
    assert array["ids"] == [f"{array['id']}.{i}" for i in (3, 4, 5)]
    assert box("wait", array["id"]).code == 0
    assert [row["id"] for row in box.json("show", array["id"])] == array["ids"]


def test_the_queue_lists_what_runs_and_what_waits(box: Box) -> None:
    long = "a-name-that-is-far-too-long-for-any-table-and-yet-somebody-has-chosen-it-for-a-job"
    first = box.sh("sleep 60", "--gpus", 2, "--name", long)
    second = box.sh("sleep 60", "--priority", 3, "--name", "second")
    box.in_phase(first, "running")
    lines = box.well("queue").splitlines()
    assert lines[0].split() == [
        "ID",
        "NAME",
        "USER",
        "PHASE",
        "GPUS",
        "PRIO",
        "FOR",
        "EXPECTED",
        "NOTE",
    ]
    assert all(len(line) <= 100 for line in lines)
    assert "…" in lines[1]
    assert "running" in lines[1]
    assert "on 0-1" in lines[1]
    assert [row["name"] for row in box.json("queue")] == [long, "second"]
    assert box.well("ps", "-o", "id,prio", "--name", "sec*") == f"ID  PRIO\n{second:<2}     3\n"
    assert box.well("queue", "--user", "nobody-at-all").count("\n") == 1
    assert "\x1b" not in box.well("queue", TERM="xterm")
    assert box("cancel", first, second).out == f"Cancelled jobs {first} and {second}.\n"
    assert box.json("queue") == []


def test_jobs_are_cancelled_by_pattern_and_all_at_once(box: Box) -> None:
    held = [box.sh("sleep 60", "--gpus", 2, "--name", f"sweep-{i}") for i in range(3)]
    other = box.sh("sleep 60", "--gpus", 2, "--name", "other")
    assert box.well("cancel", "sweep-*") == f"Cancelled jobs {held[0]}, {held[1]} and {held[2]}.\n"
    assert box.json("show", held[0])["phase"] == "cancelled"
    assert box.well("cancel", "--mine") == f"Cancelled job {other}.\n"
    assert box.well("cancel", "--mine") == "There is no job to cancel.\n"
    assert box("cancel", "sweep-*").code == 1


def test_a_paused_job_makes_room_and_goes_on_when_resumed(box: Box) -> None:
    job = box.sh("echo begun; sleep 1; echo over", "--gpus", 2)
    box.in_phase(job, "running")
    assert box.well("pause", job) == f"Paused job {job}.\n"
    assert box.in_phase(job, "suspended")["reason"] == "paused by its user"
    other = box.sh("true", "--gpus", 2)
    box.well("wait", other)
    assert box.well("resume", job) == f"Resumed job {job}.\n"
    box.well("wait", job)
    assert box.well("logs", job) == "begun\nover\n"
    assert box.json("show", job)["preemptions"] == 1


def test_a_requeued_job_starts_over(box: Box) -> None:
    job = box.sh("echo attempt; sleep 60")
    box.in_phase(job, "running")
    box.until(job, lambda row: box.well("logs", job) != "")
    assert box.well("requeue", job) == f"Requeued job {job}.\n"
    box.until(job, lambda row: box.well("logs", job).count("attempt") == 2)
    box.well("cancel", job)


def test_the_priority_changes_the_order(box: Box) -> None:
    first = box.sh("sleep 60", "--gpus", 2)
    box.in_phase(first, "running")
    job = box.sh("true", "--gpus", 2)
    assert box.well("prio", job, -5) == f"Priority -5 for job {job}.\n"
    assert box.json("show", job)["priority"] == -5
    box.well("cancel", "--mine")


def test_a_job_comes_after_another(box: Box, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = box.sh(f"while [ ! -e {go} ]; do sleep 0.05; done")
    second = box.sh("true", "--after", first)
    assert box.json("show", second)["reason"] == f"waits for job {first}"
    go.touch()
    box.well("wait", second)
    rows = [box.json("show", job) for job in (first, second)]
    assert rows[0]["ended_at"] <= rows[1]["started_at"]


def test_a_job_comes_after_every_member_of_an_array(box: Box) -> None:
    array = box.submit("--array", "0-2", "--", "sleep", "1")
    job = box.submit("--after", array, "--", "true")
    assert f"{array}.2" in box.json("show", job)["after"]
    box.well("wait", job)


def test_a_job_that_takes_too_long_is_stopped(box: Box) -> None:
    job = box.sh("sleep 60", "--time-limit", "1s")
    said = box("wait", job)
    assert said.code == 3
    assert "failed" in said.out
    assert "limit" in said.out


def test_a_job_that_fails_is_tried_again(box: Box, tmp_path: Path) -> None:
    job = box.sh(
        f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) = 3", "--retries", 5
    )
    box.well("wait", job)
    assert box.json("show", job)["attempts"] == 3


def test_exit_code_75_asks_to_be_started_again(box: Box, tmp_path: Path) -> None:
    job = box.sh(f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; exit 75")
    box.well("wait", job)
    assert box.json("show", job)["phase"] == "finished"


def test_reports_are_shown(box: Box) -> None:
    job = box.sh("""echo '{"step": 7, "loss": 0.25}' >> $DOVETAIL_REPORT; sleep 60""")
    report = box.until(job, lambda row: row["last_report"])["last_report"]
    assert (report["step"], report["metrics"]) == (7, {"loss": 0.25})
    assert "step 7, loss 0.25" in box.well("queue")
    assert "progress" in box.well("show", job)
    box.well("cancel", job)


def test_wait_gives_up_in_time(box: Box) -> None:
    job = box.sh("sleep 60")
    said = box("wait", "--timeout", "0.3", job)
    assert said.code == 124
    assert said.err.startswith(f"dovetail: job {job} is still ")
    box.well("cancel", job)
    assert box("wait", job).code == 3


def test_logs_are_followed_and_their_end_shown(box: Box) -> None:
    job = box.sh("for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done")
    assert box.well("logs", "-f", job) == "".join(f"line {i}\n" for i in range(1, 6))
    assert box.well("logs", "--tail", 2, job) == "line 4\nline 5\n"
    assert box.well("logs", "--tail", 99, job) == box.well("logs", job)
    assert box.well("logs", "--tail", 0, job) == ""
    assert box.well("logs", "-f", "--tail", 1, job) == "line 5\n"


def test_the_history_is_listed_and_becomes_a_trace(box: Box, tmp_path: Path) -> None:
    job = box.sh("exit 4", "--name", "in-history")
    assert box("wait", job).code == 3
    row = box.json("history", "--name", "in-history", "--since", "1h")[0]
    assert (row["id"], row["phase"], row["exit_code"]) == (job, "failed", 4)
    assert "in-h" in box.well("history")
    assert box.json("history", "--until", "2001-01-01") == []
    trace = tmp_path / "trace.csv"
    assert "dovetail compare" in box.well("history", "--trace", trace)
    box.well("simulate", trace, "--cluster", "1x2", "--policy", "fifo")


def test_the_history_of_failed_jobs_alone_is_listed_and_written(box: Box, tmp_path: Path) -> None:
    failed, well = box.sh("exit 4", "--name", "sorted-out"), box.sh("true", "--name", "sorted-out")
    assert box("wait", failed, well).code == 3
    asked = ("history", "--name", "sorted-out")
    assert [row["id"] for row in box.json(*asked, "--phase", "failed")] == [failed]
    assert [row["id"] for row in box.json(*asked, "--phase", "finished")] == [well]
    assert len(box.json(*asked)) == 2
    assert len(box.well(*asked, "--csv", "--phase", "failed").splitlines()) == 2
    assert "Wrote 1 job to" in box.well(*asked, "--phase", "failed", "--trace", tmp_path / "a.csv")


def test_nodes_policy_and_tenants(box: Box) -> None:
    (node,) = box.json("nodes")
    assert [gpu["index"] for gpu in node["gpus"]] == [0, 1]
    assert box.well("nodes").splitlines()[0].startswith("NODE")
    assert box.well("policy") == "fifo-skip\n"
    assert box.well("policy", "set", "srtf") == "srtf decides now, in place of fifo-skip.\n"
    assert box.json("policy")["policy"] == "srtf"
    box.well("policy", "set", "fifo-skip")
    assert box.well("tenant", "set", "lab", "--quota", 1).startswith("Tenant lab has a quota of 1")
    assert box.json("tenant")[0]["gpu_quota"] == 1


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show", 99999], 1, "dovetail: there is no job 99999"),
        (["show", "abc"], 1, "there is no job called 'abc'"),
        (["logs", 99999], 1, "dovetail: there is no job 99999"),
        (["cancel"], 2, "say which jobs to cancel"),
        (["cancel", 99999], 1, "dovetail: there is no job 99999"),
        (["prio", 1], 2, "say whose priority becomes 1"),
        (["submit"], 2, "say what to run"),
        (["submit", "no-such-file.yaml"], 1, "there is no file 'no-such-file.yaml'"),
        (["submit", "gone"], 1, "'gone'; for a command: dovetail submit -- gone …"),
        (["run", "gone"], 1, "'gone'; for a command: dovetail run -- gone …"),
        (["whatif", "a gone"], 1, "'a gone'; for a command: dovetail whatif -- 'a gone' …"),
        (["predict", "gone"], 1, "'gone'; for a command: dovetail predict -- gone …"),
        (["submit", "/tmp"], 1, "/tmp is a folder"),
        (
            ["submit", "--time-limit", "soon", "--", "true"],
            1,
            "dovetail: time_limit: 'soon' is not",
        ),
        (["submit", "--gpus", "two", "--", "true"], 2, "'two' is not a whole number"),
        (["submit", "--env", "NOT_THERE_AT_ALL", "--", "true"], 2, "write NAME=VALUE"),
        (["submit", "--after", 99999, "--", "true"], 1, "there is no job 99999"),
        (["run", "--array", "0-3", "--", "true"], 2, "run follows one job"),
        (["queue", "-o", "colour"], 2, "'colour' is not a column"),
        (["policy", "set", "best"], 1, "there is no policy 'best'"),
        (["history", "--since", "yore"], 2, "--since yore: write 2h"),
        (["top"], 1, "top needs a terminal"),
        (["sumbit"], 2, "No such command"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    box: Box, words: list[object], code: int, sentence: str
) -> None:
    said = box(*words)
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
    assert sentence in said.err


def test_a_reader_that_has_enough_is_no_error(box: Box) -> None:
    command = " ".join(box.command("history"))
    assert os.system(f"{command} 2>&1 | head -1 | grep -q ID") == 0


def test_submit_says_whether_a_deadline_is_promised(box: Box) -> None:
    before = box.json("policy")["policy"]
    box.well("policy", "set", "flex:predictor=user-estimate")
    try:
        due = ("--estimate", "3h", "--deadline")
        kept = box.well("submit", *due, "+9h", "--", "sleep", "60").splitlines()
        assert kept[1].startswith("Its deadline is promised: it ends by ")
        refused = box.well("submit", *due, "+1h", "--", "sleep", "60").splitlines()
        assert len(refused) == 2
        assert refused[1].startswith("Its deadline is not promised: the job could be done in ")
        assert " (would do: a deadline of " in refused[1]
        told = box.json("submit", *due, "+1h", "--", "sleep", "60")
        assert told["deadlines"][0]["promised"] is False
        assert "not promised: the job could be done in " in box.well("show", told["id"])
        array = box.well("submit", *due, "+1h", "--array", "1-2", "--", "sleep", "60")
        assert array.splitlines()[1] == "Promised: the deadlines of 0 of 2 jobs."
        assert box.submit(*due, "+9h", "--", "sleep", "60").isdigit()
    finally:
        box.well("policy", "set", before)
        box("cancel", "--all")


def test_submit_claims_no_promise_under_a_policy_that_gives_none(box: Box) -> None:
    said = box.well("submit", "--estimate", "3h", "--deadline", "+9h", "--", "true")
    assert len(said.splitlines()) == 1
    assert "deadlines" not in box.json("submit", "--deadline", "+9h", "--", "true")
