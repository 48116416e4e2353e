from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail.daemon.http import app as api
from dovetail.traces import read
from waiting import until

ROOT = Path(__file__).parents[2]


def submission(script: str = "true", **spec: Any) -> dict[str, Any]:
    return {"spec": {"run": script, **spec}, "environment": {}, "workdir": "/tmp"}


# --------------------------------------------------------------------------------------------- jobs


def test_a_job_that_was_submitted_runs_and_its_row_tells_how_it_ended(live: Any) -> None:
    job_id = live.submit("exit 3", name="three", priority=5)
    row = live.wait_for(job_id)
    assert (row["id"], row["name"], row["phase"], row["exit_code"]) == (
        job_id,
        "three",
        "failed",
        3,
    )
    assert (row["gpus"], row["priority"], row["preemptions"], row["attempts"]) == (1, 5, 0, 1)
    assert row["submitted_at"] <= row["started_at"] <= row["ended_at"] <= time.time() + 1
    assert row["spec"] == {"name": "three", "run": "exit 3", "priority": 5}
    assert row["log"] == str(live.folder / "runs" / job_id / "log")


def test_submissions_are_taken_on_all_or_none(live: Any) -> None:
    before = live.get("/v1/health")["seq"]
    bad = submission(after=["999"])
    status, answer = live.try_to("POST", "/v1/jobs", {"jobs": [submission(), bad]})
    assert (status, answer["error"]) == (
        404,
        "there is no job 999, after which this one is to come",
    )
    assert live.get("/v1/health")["seq"] == before
    ids = live.ask("POST", "/v1/jobs", {"jobs": [submission(), submission(array="0-2")]})["ids"]
    assert [own.partition(".")[2] for own in ids] == ["", "0", "1", "2"]
    for job_id in ids:
        assert live.wait_for(job_id)["phase"] == "finished"


def test_the_queue_is_listed_by_user_and_name(live: Any) -> None:
    ids = [live.submit("sleep 60", name=name) for name in ("train-a", "train-b", "eval")]
    found = live.get("/v1/jobs?name=train-*")
    assert [row["id"] for row in found["jobs"]] == ids[:2]
    assert (found["total"], found["running"], found["waiting"]) == (2, 2, 1)
    assert [row["id"] for row in live.get("/v1/jobs?limit=1")["jobs"]] == ids[:1]
    assert live.get("/v1/jobs?user=nobody-of-that-name")["jobs"] == []
    assert live.ask("POST", "/v1/jobs/cancel", {"ids": ["train-*"]})["ids"] == ids[:2]
    live.ask("POST", "/v1/jobs/cancel", {"mine": True})
    assert live.wait_for(ids[2])["phase"] == "cancelled"


def test_a_job_can_be_paused_changed_resumed_and_requeued(live: Any) -> None:
    job_id = live.submit("sleep 60")
    live.wait_for(job_id, "running")
    live.ask("POST", "/v1/jobs/pause", {"ids": [job_id]})
    assert live.wait_for(job_id, "suspended", "queued")["reason"] == "paused by its user"
    live.ask("POST", "/v1/jobs/priority", {"ids": [job_id], "priority": 7})
    assert live.get(f"/v1/jobs/{job_id}")["priority"] == 7
    live.ask("POST", "/v1/jobs/resume", {"ids": [job_id]})
    live.wait_for(job_id, "running")
    assert live.ask("POST", "/v1/jobs/requeue", {"ids": [job_id]})["ids"] == [job_id]
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


def test_the_policy_changes_while_a_job_runs(live: Any) -> None:
    job_id = live.submit("sleep 60")
    started = live.wait_for(job_id, "running")["started_at"]
    before = live.get("/v1/policy")["policy"]
    assert live.ask("PUT", "/v1/policy", {"policy": "srtf"}) == {"policy": "srtf", "trouble": ""}
    row = live.get(f"/v1/jobs/{job_id}")
    assert (row["phase"], row["started_at"], row["preemptions"]) == ("running", started, 0)
    live.ask("PUT", "/v1/policy", {"policy": before})
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


def test_nodes_tell_who_has_which_slot(live: Any) -> None:
    job_id = live.submit("sleep 60", name="holder")
    row = live.wait_for(job_id, "running")
    (node,) = live.get("/v1/nodes")["nodes"]
    assert (node["kind"], node["free"], len(node["gpus"])) == ("cpu", 1, 2)
    held = node["gpus"][row["placement"][0]["gpus"][0]]
    assert held["jobs"] == [{"job": job_id, "name": "holder", "user": row["user"], "share": 1.0}]
    assert not held["strangers"]
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


NOBODYS: dict[str, Any] = {"users": [], "groups": []}


def test_a_tenant_gets_a_quota_and_loses_it(live: Any) -> None:
    told = live.ask("PUT", "/v1/tenants", {"name": "lab", "gpu_quota": 1})["tenants"]
    assert told == [{"name": "lab", "gpu_quota": 1.0, "weight": 1.0, "gpus": 0.0, **NOBODYS}]
    told = live.ask("PUT", "/v1/tenants", {"name": "lab", "gpu_quota": None})["tenants"]
    assert told[0]["gpu_quota"] is None
    assert live.get("/v1/tenants")["tenants"] == told


# --------------------------------------------------------------------------------------------- past


def test_what_has_run_is_told_and_can_be_simulated(live: Any, tmp_path: Path) -> None:
    since = time.time() - 0.01
    ids = [live.submit("sleep 0.3", name=f"past-{i}") for i in range(3)]
    never = live.submit("true", after=[live.submit("sleep 60")])
    for job_id in ids:
        live.wait_for(job_id)
    live.ask("POST", "/v1/jobs/cancel", {"mine": True})
    live.wait_for(never)
    told = live.get(f"/v1/history?name=past-*&since={since}&limit=2")["jobs"]
    assert (len(told), told[0]["id"]) == (2, ids[-1])
    for suffix in ("csv", "jsonl"):
        path = tmp_path / f"trace.{suffix}"
        path.write_text(live.text(f"/v1/history/trace?since={since}&name=past-*&format={suffix}"))
        assert "sleep" not in path.read_text()
        arrivals = read(path).arrivals
        assert [arrival.job.id for arrival in arrivals] == ids
        assert all(0.29 < arrival.work_s < 5 for arrival in arrivals)
        assert arrivals[0].at == 0


def stream(live: Any, path: str, **headers: str) -> Any:
    connection = live.connection()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    return connection, answer


def events(answer: Any, count: int) -> list[tuple[int, Any]]:
    """The next so many, as pairs of number and entry."""
    found: list[tuple[int, Any]] = []
    number = 0
    while len(found) < count:
        field, _, value = answer.readline().decode().rstrip("\n").partition(": ")
        if field == "id":
            number = int(value)
        elif field == "data":
            found.append((number, json.loads(value)))
    return found


def test_the_journal_is_streamed_and_a_stream_that_broke_goes_on_where_it_was(live: Any) -> None:
    live.wait_for(live.submit("true"))
    last = live.get("/v1/health")["seq"]
    connection, answer = stream(live, f"/v1/events?after={last - 3}")
    first = events(answer, 2)
    connection.close()
    connection, answer = stream(live, "/v1/events?after=0", **{"last-event-id": str(first[-1][0])})
    job_id = live.submit("true")
    rest = events(answer, 2)
    connection.close()
    assert [number for number, _ in first + rest] == [last - 2, last - 1, last, last + 1]
    assert rest[-1][1]["submitted"]["id"] == job_id
    live.wait_for(job_id)


def test_a_stream_without_a_beginning_starts_now(live: Any) -> None:
    connection, answer = stream(live, "/v1/events")
    job_id = live.submit("true")
    ((_, entry),) = events(answer, 1)
    connection.close()
    assert entry["submitted"]["id"] == job_id
    live.wait_for(job_id)


# --------------------------------------------------------------------------------------------- logs


def test_a_log_is_read_as_a_whole_or_from_its_tail(live: Any) -> None:
    job_id = live.submit("echo first; echo second >&2")
    live.wait_for(job_id)
    assert live.text(f"/v1/jobs/{job_id}/log") == "first\nsecond\n"
    assert live.text(f"/v1/jobs/{job_id}/log?tail=7") == "second\n"
    assert live.text(f"/v1/jobs/{job_id}/log?tail=0") == ""


def test_that_a_log_is_not_kept_any_more_is_said(live: Any) -> None:
    job_id = live.submit("echo over")
    live.wait_for(job_id, "finished")
    until(lambda: not (live.folder / "runs" / "live" / job_id).exists())
    shutil.rmtree(live.folder / "runs" / job_id)
    status, told = live.try_to("GET", f"/v1/jobs/{job_id}/log")
    assert (status, told["error"]) == (404, f"the log of job {job_id} is not kept any more")
    assert live.get(f"/v1/jobs/{job_id}")["log"] is None


def test_following_a_log_starts_before_the_job_and_ends_with_it(live: Any) -> None:
    blocker = live.submit("sleep 60", resources={"gpus": 2})
    job_id = live.submit("echo one; sleep 0.4; echo two")
    connection, answer = stream(live, f"/v1/jobs/{job_id}/log?follow=true")
    live.ask("POST", "/v1/jobs/cancel", {"ids": [blocker]})
    assert answer.readline() == b"one\n"
    assert live.get(f"/v1/jobs/{job_id}")["phase"] == "running"
    assert answer.read() == b"two\n"
    connection.close()
    assert live.wait_for(job_id)["phase"] == "finished"


def test_what_a_cancelled_job_says_at_last_is_still_followed(live: Any) -> None:
    job_id = live.submit("trap 'sleep 0.5; echo saved; exit' TERM; echo up; sleep 60 & wait")
    connection, answer = stream(live, f"/v1/jobs/{job_id}/log?follow=true")
    assert answer.readline() == b"up\n"
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})
    assert answer.read() == b"saved\n"
    connection.close()


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/v1/jobs/99", None, 404, "there is no job 99"),
        ("GET", "/v1/jobs/99/log", None, 404, "there is no job 99"),
        ("GET", "/v1/jobs/x", None, 422, "job_id: 'x' is not a job id, such as 12 or 12.3"),
        ("GET", "/v1/jobs/1%2F..%2F2", None, 404, "there is no such page"),
        ("GET", "/v1/jobs?limit=-1", None, 422, "limit: '-1' is refused"),
        ("GET", "/v1/history?since=nan", None, 422, "since: 'nan' is refused"),
        ("GET", "/nowhere", None, 404, "there is no such page"),
        ("DELETE", "/v1/jobs", None, 405, "this page does not know that method"),
        ("POST", "/v1/jobs", {}, 422, "jobs: this field is needed"),
        ("POST", "/v1/jobs", {"jobs": []}, 422, "jobs: a list is refused"),
        ("POST", "/v1/jobs", {"jobs": [{"spec": {}}]}, 422, "nothing to run"),
        (
            *("POST", "/v1/jobs", {"jobs": [submission(), submission(colour="red")]}, 422),
            "jobs[1].spec: colour: there is no such field",
        ),
        (
            *("POST", "/v1/jobs", {"jobs": [{**submission(), "gpus": 1}]}, 422),
            "there is no field 'gpus' in such a request",
        ),
        (
            "POST",
            "/v1/jobs",
            {"jobs": [{**submission(), "spec": 7}]},
            422,
            "jobs[0].spec: 7 is not",
        ),
        ("POST", "/v1/jobs/cancel", {"mine": "yes"}, 422, "mine: 'yes' is refused"),
        ("POST", "/v1/jobs/cancel", {}, 400, "say which jobs: some ids, or mine"),
        ("POST", "/v1/jobs/cancel", {"ids": ["99"]}, 404, "there is no job 99"),
        ("POST", "/v1/jobs/pause", {"ids": ["no-*"]}, 404, "no job of yours"),
        ("POST", "/v1/jobs/priority", {"ids": ["1"], "priority": 1e12}, 422, "priority: "),
        ("PUT", "/v1/policy", {"policy": "best"}, 400, "there is no policy 'best'"),
        ("PUT", "/v1/tenants", {"name": "a\nb"}, 422, "name: "),
        ("PUT", "/v1/tenants", {"name": "a", "weight": 0}, 422, "weight: 0 is refused"),
    ],
)
def test_every_mistake_gets_one_clear_line(
    live: Any, method: str, path: str, body: Any, status: int, told: str
) -> None:
    found, answer = live.try_to(method, path, body)
    assert (found, list(answer)) == (status, ["error"])
    assert told in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"jobs": NaN}', "the request is not JSON: NaN is no number in JSON"),
        (b'{"jobs": -Infinity}', "the request is not JSON: -Infinity is no number in JSON"),
        (b"{", "the request is not JSON"),
        (b"\xff", "the request is not JSON: not UTF-8"),
        (b"[" * 100_000, "the request is not JSON: nested too deeply"),
        (b"7", "the request needs a JSON object"),
    ],
)
def test_what_is_not_json_is_refused(live: Any, body: bytes, told: str) -> None:
    status, answer = live.raw("POST", "/v1/jobs", body, **{"content-type": "application/json"})
    assert status == 422
    assert told in json.loads(answer)["error"]


def test_a_request_without_end_is_refused(live: Any) -> None:
    def chunks() -> Any:
        for _ in range(17):
            yield b" " * (1 << 20)

    connection = live.connection()
    connection.request(
        "POST",
        "/v1/jobs",
        chunks(),  # with no length told beforehand
        {"content-type": "application/json", "transfer-encoding": "chunked"},
        encode_chunked=True,
    )
    answer = connection.getresponse()
    assert (answer.status, "larger than 16 MB" in answer.read().decode()) == (413, True)
    connection.close()
    status, _ = live.raw("POST", "/v1/jobs", b"", **{"content-length": str(1 << 40)})
    assert status == 413


def test_headers_have_an_end(live: Any) -> None:
    try:
        status, _ = live.raw("GET", "/v1/health", **{"x-long": "x" * 1_000_000})
    except OSError:  # the server hangs up in the middle
        return
    assert status == 400


# ------------------------------------------------------------------------------------------ secrets


def test_the_environment_reaches_the_job_and_nothing_else(start: Any, tmp_path: Path) -> None:
    live = start(tmp_path, keep=["environments=no"])
    secret = "hunter2-in-the-environment"
    environment = {"TOKEN": secret, "ODD": "caf\udce9"}  # the latter is no proper text
    script = 'printf %s "$TOKEN$MORE" | wc -c; printf %s "$ODD" | wc -c; sleep 0.5'
    job_id = live.submit(script, environment, envs={"MORE": secret})
    live.wait_for(job_id, "running")
    told = [live.text(path) for path in ("/v1/jobs", f"/v1/jobs/{job_id}", "/metrics")]
    live.wait_for(job_id)
    assert live.text(f"/v1/jobs/{job_id}/log") == f"{2 * len(secret)}\n4\n"
    for bad in ({"A": secret, "B": 7}, {"A=" + secret: ""}, [secret], {"A": secret + "\0"}):
        body = {"jobs": [{**submission(), "environment": bad}]}
        status, answer = live.try_to("POST", "/v1/jobs", body)
        assert status == 422
        told.append(answer["error"])
    told += [live.text("/v1/history"), live.text("/v1/history/trace"), live.own_log()]
    files = [path for path in live.folder.rglob("*") if path.is_file()]
    told += [path.read_bytes().decode(errors="replace") for path in files]
    assert len(files) > 5
    assert not [text for text in told if secret in text]


def test_the_environment_of_an_ended_job_is_one_private_file_that_goes_with_its_folder(
    live: Any,
) -> None:
    secret = "hunter2-for-another-run"
    job_id = live.submit("true", {"TOKEN": secret})
    live.wait_for(job_id)
    kept = live.folder / "runs" / job_id / "environment.json"
    until(kept.exists)
    files = [path for path in live.folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == [kept]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.stat().st_uid == os.geteuid()


# ------------------------------------------------------------------------------------ daemon itself


def test_health_tells_who_it_is(live: Any) -> None:
    told = live.get("/v1/health")
    assert (told["pid"], told["full"], told["notices"]) == (live.process.pid, False, [])
    assert told["jobs"] == {"running": 0, "waiting": 0}
    assert 0 < told["uptime_s"] < 1000


def test_the_daemon_stops_when_told_to_and_the_jobs_go_on(start: Any, tmp_path: Path) -> None:
    live = start(tmp_path)
    job_id = live.submit("echo $$; sleep 0.3; exec sleep 60")
    live.wait_for(job_id, "running")
    connection, answer = stream(live, f"/v1/jobs/{job_id}/log?follow=true")
    pid = int(answer.readline())
    assert live.ask("POST", "/v1/stop") == {"stopping": True}
    assert live.process.wait(120) == 0
    connection.close()
    os.kill(pid, 0)
    again = start(tmp_path)
    assert again.get(f"/v1/jobs/{job_id}")["phase"] == "running"
    os.kill(pid, signal.SIGKILL)
    assert again.wait_for(job_id)["exit_code"] == 137


def test_the_published_schema_is_up_to_date(live: Any) -> None:
    """`python -m dovetail.daemon.http.app > docs/openapi.json` writes it anew."""
    published = (ROOT / "docs" / "openapi.json").read_text()
    assert published == api.text()
    assert live.get("/openapi.json") == json.loads(published)


def test_an_environment_goes_with_its_job_also_when_nobody_was_there(
    start: Any, tmp_path: Path
) -> None:
    live = start(tmp_path)
    kept, ended = live.submit("sleep 60"), live.submit("true")
    live.wait_for(ended)
    environments = tmp_path / "env"
    until(lambda: [path.stem for path in environments.iterdir()] == [kept])
    live.process.kill()
    live.process.wait()
    (environments / f"{ended}.json").write_text("{}")
    (environments / "77.json").write_text("{}")
    again = start(tmp_path)
    until(lambda: [path.stem for path in environments.iterdir()] == [kept])
    again.close()
