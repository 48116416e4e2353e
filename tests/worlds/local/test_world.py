"""Real jobs under a real daemon: every way they can end, wait and give way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import sleep

import pytest

from dovetail.core.entries import Interrupted, Reported, Restored, Saved
from dovetail.core.errors import BadInput
from dovetail.core.model import Tenant
from dovetail.daemon.submissions import Submission
from dovetail.jobfiles.job_model import read
from live_box import ME, Box, box

TICKS = "i=0; while [ $i -lt {n} ]; do sleep 0.05; i=$((i+1)); echo $i; done"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("box"), policy="fifo-skip") as made:
        yield made


def test_a_job_runs_and_finishes(here: Box) -> None:
    job = here.submit("echo hello; echo oops >&2")
    (row,) = here.wait(job)
    assert (row["phase"], row["exit_code"], row["reason"]) == ("finished", 0, "")
    assert here.log(job).split() == ["hello", "oops"]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 3", 3, "exit code 3"),
        ("kill -SEGV $$", 139, "killed by signal 11 (SIGSEGV)"),
        ("kill -KILL $$", 137, "killed by signal 9 (SIGKILL)"),
    ],
)
def test_a_job_that_fails_says_how(here: Box, script: str, code: int, reason: str) -> None:
    (row,) = here.wait(here.submit(script))
    assert (row["phase"], row["exit_code"], row["reason"]) == ("failed", code, reason)


def test_a_job_over_two_nodes_is_a_question_of_the_world(here: Box) -> None:
    """The format knows it; this machine is one node."""
    with pytest.raises(BadInput, match="it asks for 2 nodes, and this machine is one node"):
        here.submit("true", nodes=2)
    (row,) = here.wait(here.submit("true", nodes=1))
    assert row["phase"] == "finished"


def test_an_absent_command_is_named(here: Box) -> None:
    (row,) = here.wait(here.submit(["no-such-command-anywhere", "x"]))
    assert (row["phase"], row["exit_code"]) == ("failed", 127)
    assert "no-such-command-anywhere" in row["reason"]


def test_a_work_folder_that_is_gone_is_named(here: Box, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    first = here.submit("sleep 0.5", resources={"gpus": 2})
    job = here.submit("true", resources={"gpus": 2}, workdir=str(folder))
    folder.rmdir()
    (_, row) = here.wait(first, job)
    assert row["phase"] == "failed"
    assert str(folder) in row["reason"]


def test_a_retry_is_a_new_attempt(here: Box) -> None:
    job = here.submit("echo try $DOVETAIL_ATTEMPT; test $DOVETAIL_ATTEMPT = 2", retries=3)
    (row,) = here.wait(job)
    assert row["phase"] == "finished"
    assert here.log(job).splitlines() == ["try 0", "try 1", "try 2"]


@pytest.mark.parametrize("code", [75, 85])
def test_an_exit_code_asks_to_be_started_again(here: Box, code: int) -> None:
    job = here.submit(f'test "$DOVETAIL_RESUMED" = 1 && exit 0; exit {code}')
    (row,) = here.wait(job)
    assert row["phase"] == "finished"
    assert row["preemptions"] == 0


def test_a_job_that_only_asks_to_be_started_again_ends_at_last(here: Box) -> None:
    (row,) = here.wait(here.submit("exit 75"))
    assert (row["phase"], row["exit_code"]) == ("failed", 75)


def test_a_time_limit_is_kept(here: Box) -> None:
    (row,) = here.wait(here.submit("sleep 60", time_limit=0.5))
    assert (row["phase"], row["exit_code"]) == ("failed", 124)
    assert "time limit" in row["reason"]
    assert row["run_s"] < 5


def test_a_job_waits_for_those_it_comes_after(here: Box) -> None:
    first = here.submit("sleep 0.5")
    second = here.submit("true", after=[first])
    assert here.job(second)["reason"] == f"waits for job {first}"
    rows = here.wait(first, second)
    assert rows[1]["started_at"] >= rows[0]["ended_at"]


def test_a_job_that_comes_after_a_failed_one_fails_and_says_so(here: Box) -> None:
    first = here.submit("sleep 0.3; exit 1")
    second = here.submit("true", after=[first])
    (row,) = here.wait(second)
    assert row["phase"] == "failed"
    assert f"job '{first}'" in row["reason"]


def test_a_cancelled_job_leaves_no_process_behind(here: Box) -> None:
    job = here.submit("(setsid sleep 1000 &) ; sleep 1000")
    here.wait_until(job, "running")
    here.service.cancel([job], ME)
    assert here.phase(job) == "cancelled"
    here.wait_for(lambda: not (here.home.runs / "live" / job).exists())
    assert f"DOVETAIL_JOB_ID={job}\0" not in _environments()


def _environments() -> str:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path("/proc", name, "environ").read_text(errors="replace"))
        except OSError:
            continue
    return "".join(text for text in found if f"{Path('runs')}" in text)


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(here: Box) -> None:
    job = here.submit("trap '' TERM; while true; do sleep 0.1; done", checkpoint={"grace": 0.5})
    here.wait_until(job, "running")
    here.service.cancel([job], ME)
    here.wait_for(lambda: not (here.home.runs / "live" / job).exists(), 10)


def test_a_paused_job_stops_and_goes_on_where_it_was(here: Box) -> None:
    job = here.submit(TICKS.format(n=40))
    here.wait_for(lambda: here.phase(job) == "running" and len(here.log(job).split()) > 5)
    here.service.pause([job], ME)
    here.wait_for(lambda: here.job(job)["preemption"] is not None)
    assert here.phase(job) == "suspended"
    seen = here.log(job)
    here.wait_for(lambda: True)
    assert here.log(job) == seen
    here.service.resume([job], ME)
    (row,) = here.wait(job)
    assert here.log(job).split() == [str(i) for i in range(1, 41)]
    assert (row["preemptions"], row["preemption"]["rung"]) == (1, "freeze")
    kinds = [type(e) for e in here.journal() if getattr(e, "job_id", "") == job]
    assert kinds.count(Saved) == kinds.count(Restored) == 1


def test_a_paused_job_that_waits_does_not_start(here: Box) -> None:
    blockers = [here.submit("sleep 0.6") for _ in range(2)]
    job = here.submit("true")
    here.service.pause([job], ME)
    here.wait(*blockers)
    assert here.phase(job) == "queued"
    here.service.resume([job], ME)
    here.wait(job)


def test_a_requeued_job_starts_over(here: Box) -> None:
    job = here.submit("echo begin $DOVETAIL_RESUMED; sleep 0.7")
    here.wait_until(job, "running")
    here.wait_for(lambda: "begin" in here.log(job))
    here.service.requeue([job], ME)
    (row,) = here.wait(job)
    assert row["phase"] == "finished"
    assert here.log(job).count("begin") == 2
    assert [e.reason for e in here.journal() if isinstance(e, Interrupted) and e.job_id == job] == [
        f"requeued by {ME.name}"
    ]


def test_a_suspended_job_that_is_killed_from_outside_is_reported(here: Box) -> None:
    job = here.submit("sleep 60")
    here.wait_until(job, "running")
    here.service.pause([job], ME)
    here.wait_for(lambda: here.job(job)["preemption"] is not None)
    keeper = here.home.folder(job) / "1" / "keeper.json"
    os.kill(json.loads(keeper.read_text())["child"], signal.SIGKILL)
    (row,) = here.wait(job)
    assert (row["phase"], row["exit_code"]) == ("failed", 137)


def test_a_keeper_that_is_killed_is_noticed(here: Box) -> None:
    job = here.submit("sleep 60")
    here.wait_until(job, "running")
    keeper = here.home.folder(job) / "1" / "keeper.json"
    os.kill(json.loads(keeper.read_text())["pid"], signal.SIGKILL)
    (row,) = here.wait(job)
    assert row["phase"] == "failed"
    assert "killed from outside" in row["reason"]


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        ('{"step": 3, "loss": 0.5}', 3, {"loss": 0.5}),
        ('{"step": 1, "loss": "NaN"}', 1, {"loss": "nan"}),
        ('{"step": 1, "loss": NaN}', 1, {"loss": "nan"}),
        ('{"step": 1e300, "loss": 1}', None, {"loss": 1.0}),
        ('{"step": -5}', -5, {}),
        ('{"loss": "high", "acc": true, "lr": 1e-4}', None, {"lr": 1e-4}),
    ],
)
def test_reports_of_every_kind_have_a_clear_outcome(
    here: Box, line: str, step: float | None, metrics: dict[str, object]
) -> None:
    job = here.submit(f"echo '{line}' >> $DOVETAIL_REPORT")
    (row,) = here.wait(job)
    assert row["phase"] == "finished"
    assert row["last_report"]["step"] == step
    assert row["last_report"]["metrics"] == metrics


@pytest.mark.parametrize("line", ["not json", "[1, 2]", '{"a": ' * 5000, "", "x" * 100_000])
def test_reports_that_cannot_be_read_are_left_out(here: Box, line: str) -> None:
    script = here.home.state / "line"
    script.write_text(line + "\n")
    job = here.submit(
        f"cat {script} >> $DOVETAIL_REPORT; echo '{{\"step\": 7}}' >> $DOVETAIL_REPORT"
    )
    (row,) = here.wait(job)
    assert row["last_report"]["step"] == 7


def test_a_step_may_go_backwards(here: Box) -> None:
    job = here.submit('for s in 5 2 9 1; do echo "{\\"step\\": $s}" >> $DOVETAIL_REPORT; done')
    here.wait(job)
    steps = [e.step for e in here.journal() if isinstance(e, Reported) and e.job_id == job]
    assert steps == [5, 2, 9, 1]


def test_an_array_runs_once_per_index_and_no_more_at_once_than_it_says(here: Box) -> None:
    ids = here.service.submit(
        [_submission(here, "echo $DOVETAIL_ARRAY_INDEX; sleep 0.2", array="3-6%1")], ME
    )
    rows = here.wait(*ids)
    assert [here.log(job).strip() for job in ids] == ["3", "4", "5", "6"]
    spans = sorted((row["started_at"], row["ended_at"]) for row in rows)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


def _submission(here: Box, run: str, **fields: object) -> Submission:
    return Submission(read({"run": run, **fields}), dict(os.environ), str(here.home.state))


def test_the_environment_is_as_submitted_and_goes_when_the_job_has_ended(here: Box) -> None:
    job = here.submit('echo "$SECRET"', environment={"SECRET": "s3cr3t-value"})
    here.wait(job)
    assert here.log(job) == "s3cr3t-value\n"
    assert not here.home.environment(job).exists()
    for path in (here.home.journal, here.home.log):
        if path.exists():
            assert b"s3cr3t-value" not in path.read_bytes()


def test_a_job_that_prints_a_lot_keeps_only_the_end(here: Box) -> None:
    job = here.submit("head -c 200000000 /dev/zero | tr '\\0' x; echo; echo the end")
    here.wait(job)
    assert here.log(job).endswith("the end\n")
    size = sum(path.stat().st_size for path in here.home.folder(job).glob("log*"))
    assert size <= 64 * 1024 * 1024


def test_a_job_that_can_never_fit_is_not_taken_on(here: Box) -> None:
    with pytest.raises(BadInput, match=r"job 'true' could never run here: .* 2 GPUs"):
        here.submit("true", resources={"gpus": 3})


def test_a_job_that_fits_no_longer_waits_with_a_reason_until_it_does(here: Box) -> None:
    other = here.submit("sleep 60", resources={"gpus": 2})
    job = here.submit("true", resources={"gpus": 2}, tenant="lab")
    here.service.set_tenant(Tenant("lab", gpu_quota=1.0), ME)
    here.wait_for(lambda: "the tenant's quota is 1 GPUs" in here.job(job)["reason"])
    assert here.phase(job) == "queued"
    here.service.cancel([other], ME)
    here.wait(other)
    assert here.phase(job) == "queued"
    here.service.set_tenant(Tenant("lab"), ME)
    (row,) = here.wait(job)
    assert row["phase"] == "finished"


def test_policies_change_while_jobs_run(here: Box) -> None:
    job = here.submit(TICKS.format(n=20))
    here.wait_until(job, "running")
    for policy in ("srtf", "las", "tiresias", "fair-share", "gittins", "fifo-skip"):
        here.service.set_policy(policy, ME)
        assert here.service.policy().policy == policy
    (row,) = here.wait(job)
    assert (row["phase"], row["preemptions"]) == ("finished", 0)


def test_a_job_that_is_requeued_before_it_could_begin_lines_up_again(here: Box) -> None:
    """It has GPUs that somebody else is still leaving: there are no processes to end."""
    both = {"resources": {"gpus": 2}}
    stubborn = here.submit("trap '' TERM; sleep 60; sleep 60", checkpoint={"grace": 2}, **both)
    here.wait_until(stubborn, "running")
    here.service.cancel([stubborn], ME)
    job = here.submit("echo begin; sleep 0.2", **both)
    here.wait_until(job, "starting")
    here.service.requeue([job], ME)
    (row,) = here.wait(job)
    assert (row["phase"], here.log(job).count("begin")) == ("finished", 1)


def test_cancelling_members_that_wait_lets_no_more_of_their_array_run_at_once(here: Box) -> None:
    ids = here.service.submit([_submission(here, "sleep 60", array="0-5%1")], ME)
    here.wait_until(ids[0], "running")
    here.service.cancel(ids[1:4], ME)
    sleep(0.3)
    assert [here.phase(job_id) for job_id in ids[4:]] == ["queued", "queued"]
    here.service.cancel([ids[0]], ME)
    here.wait_until(ids[4], "running")
    assert here.phase(ids[5]) == "queued"
    here.service.cancel(ids[4:], ME)
