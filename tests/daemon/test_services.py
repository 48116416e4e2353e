"""Services in a real daemon: replicas are jobs that are kept, healed, scaled and found again."""

from __future__ import annotations

import os
import re
import signal
import socket
from time import sleep
from typing import Any

import pytest

from daemon_process import Refused
from service_daemon import ask_at, error_of, service_daemon
from waiting import until


def test_a_declared_service_answers_at_its_address_and_its_replicas_are_jobs() -> None:
    with service_daemon() as made:
        row = made.serve(replicas=2)
        assert ask_at(row["address"]).status == 200  # it waits for the first replica
        until(lambda: made.states() == ["ready", "ready"])
        jobs = made.daemon.get("/v1/jobs")["jobs"]
        assert [(job["name"], job["group"], job["phase"]) for job in jobs] == [
            ("answers-0", row["id"], "running"),
            ("answers-1", row["id"], "running"),
        ]
        made.change("stop")
        assert made.daemon.get("/v1/services")["services"] == []
        until(lambda: not made.daemon.live_jobs())
        assert not listens(row["address"])


def test_a_killed_replica_is_replaced_and_the_reason_is_said() -> None:
    with service_daemon() as made:
        made.serve()
        made.wait_for("ready")
        (pid,) = made.pids()
        os.kill(pid, signal.SIGKILL)
        row = made.wait_for_trouble("1 in a row")
        assert "replica 0 (job 1): " in row["trouble"]
        until(lambda: made.states() == ["ready"] and made.pids() != [pid])
        assert made.ask().status == 200


def test_a_server_that_crashes_in_a_loop_is_backed_off_and_said() -> None:
    with service_daemon() as made:
        made.serve(command=["/bin/sh", "-c", "echo no weights >&2; exit 3"])
        row = made.wait_for_trouble("3 in a row")
        assert row["state"] == "troubled"
        assert "the next is started in" in row["trouble"]
        assert "exit" in row["trouble"]
        assert len(made.daemon.get("/v1/history")["jobs"]) == 3


def test_a_server_that_never_becomes_healthy_is_said_and_ended() -> None:
    with service_daemon() as made:
        made.serve(envs={"REPLICA_UNHEALTHY": "1"}, start_s=1, queue_s=0.2)
        row = made.wait_for_trouble("not healthy")
        assert "GET /health is answered with 503" in row["trouble"]
        answer = ask_at(row["address"])
        assert answer.status == 503
        assert "try again in" in error_of(answer)


def test_a_port_that_is_taken_is_refused_when_the_service_is_declared() -> None:
    with service_daemon() as made, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=f"listen: port {port} is taken; choose another"):
            made.serve(listen=port)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"port": 8000, "replicas": 2}, "2 replicas cannot share one port of a machine"),
        ({"replicas": {"min": 3, "max": 2}}, "min 3 is more than max 2"),
        ({"sleep": {"enter": "/s", "leave": "/w"}}, "say after which idle_s a replica sleeps"),
        ({"scaling": "best"}, "there is no scaling rule 'best'; there is reactive"),
        ({"resources": {"gpus": 0, "cpus": 4000}}, "could never run here"),
        ({"slo": 3}, "slo"),
    ],
)
def test_a_description_that_cannot_be_is_refused_in_one_line(
    spec: dict[str, Any], told: str
) -> None:
    with service_daemon() as made, pytest.raises(Refused, match=told) as refused:
        made.serve(**spec)
    assert "\n" not in str(refused.value)


def test_a_daemon_that_is_killed_and_started_again_goes_on_with_its_services() -> None:
    with service_daemon() as made:
        row = made.serve(replicas=2)
        made.wait_for("ready", "ready")
        before = made.pids()
        made.daemon.kill()
        assert ask_at(row["address"]).status == 200
        made.daemon.start()
        after = made.wait_for("ready", "ready")
        assert after["address"] == row["address"]
        assert made.pids() == before
        assert made.ask().status == 200


def test_a_gateway_that_is_killed_is_started_again_at_the_same_address() -> None:
    with service_daemon() as made:
        row = made.serve()
        made.wait_for("ready")
        os.kill(gateway_pid(row["id"], made.daemon.folder.name), signal.SIGKILL)
        until(lambda: made.row()["state"] == "serving" and answers(row["address"]))


def listens(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def answers(address: str) -> bool:
    try:
        return ask_at(address).status == 200
    except OSError:
        return False


def gateway_pid(service_id: str, home: str) -> int:
    """By its command line, which names its folder."""
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                words = file.read()
        except OSError:
            continue
        if "dovetail.gateway" in words and f"{home}/services/{service_id}/" in words:
            return int(name)
    raise AssertionError("there is no gateway")


def test_a_service_is_scaled_up_and_down_by_its_user() -> None:
    with service_daemon() as made:
        made.serve()
        made.wait_for("ready")
        made.change("scale", least=3, most=3)
        row = made.wait_for("ready", "ready", "ready")
        assert row["wanted"] == 3
        assert row["why"].startswith("the least it may have is 3")
        made.change("scale", least=1, most=1)
        made.wait_for("ready")
        assert made.ask().status == 200


def test_a_paused_service_refuses_requests_at_once_and_says_so() -> None:
    with service_daemon() as made:
        made.serve(queue_s=600)
        made.wait_for("ready")
        made.change("pause")
        row = made.wait_for("asleep")
        assert row["state"] == "paused"
        assert "it is paused" in error_of(ask_at(row["address"]))
        made.change("resume")
        made.wait_for("ready")
        assert made.ask().status == 200


def test_the_latency_of_a_service_is_told_although_nobody_asked_in_the_last_second() -> None:
    with service_daemon() as made:
        address = made.serve()["address"]
        made.wait_for("ready")
        assert ask_at(address, "/slow?s=0.2").status == 200
        until(lambda: made.row()["p99_s"] > 0.2)
        sleep(1.5)
        assert made.row()["p99_s"] > 0.2


def test_whoever_is_told_that_a_service_is_paused_or_goes_on_finds_it_so() -> None:
    with service_daemon() as made:
        address = made.serve()["address"]
        made.wait_for("ready")
        made.change("pause")
        assert ask_at(address).status == 503
        made.change("resume")
        assert ask_at(address).status == 200


def test_what_a_service_has_answered_is_known_after_the_daemon_was_stopped_and_started() -> None:
    with service_daemon() as made:
        made.serve()
        made.wait_for("ready")
        for _ in range(5):
            assert made.ask().status == 200
        until(lambda: made.row()["cost"]["answered"] == 5)
        made.daemon.stop()
        made.daemon.start()
        assert made.row()["cost"]["answered"] == 5


def test_an_slo_that_no_replica_can_keep_is_said_at_the_first_answer_with_what_would_help() -> None:
    with service_daemon() as made:
        made.serve(slo_ms=50, replicas={"min": 1, "max": 3})
        made.wait_for("ready")
        assert made.ask("/slow?s=0.2").status == 200
        row = made.wait_for_trouble("no number of them keeps 50 ms")
        told = re.search(r"a smaller model, a faster GPU or slo_ms above (\d+) ms", row["trouble"])
        assert told is not None, row["trouble"]
        assert int(told[1]) >= 200
        assert row["wanted"] == 1  # more of them would not help


def test_the_logs_of_a_service_that_crashes_say_why() -> None:
    with service_daemon() as made:
        made.serve(command=["/bin/sh", "-c", "echo no weights here >&2; exit 3"])
        row = made.wait_for_trouble("in a row")
        assert "exit code 3 (no weights here)" in row["trouble"]
        assert f"(job {row['failed_job']})" in row["trouble"]
