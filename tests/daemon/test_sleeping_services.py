"""Replicas that sleep and are woken by requests; training that gives way to them and goes on."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from service_daemon import ask_at, service_daemon
from waiting import LONG_S, until


def answers_nothing(port: int) -> bool:
    """Is the server behind that port suspended? Its connection is made by the kernel all the same."""
    with socket.create_connection(("127.0.0.1", port), LONG_S) as line:
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")
        line.settimeout(0.5)
        try:
            return not line.recv(1)
        except TimeoutError:
            return True


def test_an_idle_replica_sleeps_and_a_request_wakes_the_same_process() -> None:
    with service_daemon() as made:
        row = made.serve(replicas={"min": 0, "max": 1}, idle_s=1, queue_s=LONG_S)
        pid = ask_at(row["address"]).text.split()[0]
        asleep = made.wait_for("asleep")
        assert asleep["state"] == "asleep"
        assert made.daemon.phase("1") == "suspended"
        assert answers_nothing(asleep["replicas"][0]["port"])
        began = time.monotonic()
        assert ask_at(row["address"]).text.split()[0] == pid
        assert time.monotonic() - began < 10
        made.wait_for("asleep")


def test_a_sleeping_replica_stays_asleep_over_a_kill_of_the_daemon_and_is_woken_after_it() -> None:
    with service_daemon() as made:
        row = made.serve(replicas={"min": 0, "max": 1}, idle_s=1, queue_s=LONG_S)
        pid = ask_at(row["address"]).text.split()[0]
        made.wait_for("asleep")
        made.daemon.kill()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask_at, row["address"])
            time.sleep(0.3)
            made.daemon.start()
            assert asked.result(LONG_S).text.split()[0] == pid


def test_training_gives_way_to_a_woken_replica_and_goes_on_when_it_sleeps() -> None:
    """One slot: the training job has it while nobody asks, and loses no step."""
    with service_daemon(slots=1) as made:
        row = made.serve(replicas={"min": 0, "max": 1}, idle_s=1, queue_s=LONG_S)
        made.wait_for("asleep")
        steps = made.daemon.folder / "steps"
        job = made.daemon.submit(f"for i in $(seq 1 60); do echo $i >> {steps}; sleep 0.05; done")
        until(steps.exists)
        assert ask_at(row["address"]).status == 200
        assert made.daemon.wait_for(job)["phase"] == "finished"
        assert steps.read_text().split() == [str(number) for number in range(1, 61)]
        given_way = made.daemon.get(f"/v1/jobs/{job}")
        assert given_way["preemptions"] >= 1


def test_a_replica_that_host_memory_has_no_room_for_ends_to_sleep_and_is_started_anew() -> None:
    """Else it would keep its place for ever, and training would not have it."""
    with service_daemon(slots=1, suspended_gb=0.001) as made:
        row = made.serve(replicas={"min": 0, "max": 1}, idle_s=1, queue_s=LONG_S)
        pid = ask_at(row["address"]).text.split()[0]
        made.wait_for("asleep")
        job = made.daemon.submit("sleep 0.1")
        assert made.daemon.wait_for(job)["phase"] == "finished"
        assert ask_at(row["address"]).text.split()[0] != pid
        assert made.row()["failed"] == 0
        assert made.row()["trouble"] == ""


def test_why_tells_a_job_that_gave_way_to_a_service_what_it_was_to_lose() -> None:
    with service_daemon(slots=1) as made:
        row = made.serve(replicas={"min": 0, "max": 1}, idle_s=3)
        made.wait_for("asleep")
        begun = made.daemon.folder / "begun"
        job = made.daemon.submit(f"touch {begun}; sleep 4")
        until(begun.exists)
        assert ask_at(row["address"]).status == 200
        told = made.daemon.get(f"/v1/jobs/{job}/why")["text"]
        assert "GPU-seconds by it" in " ".join(told.split())
        assert made.daemon.wait_for(job)["phase"] == "finished"


def test_load_brings_more_replicas_and_they_sleep_when_it_is_over() -> None:
    with service_daemon() as made:
        row = made.serve(replicas={"min": 1, "max": 3}, at_once=1, idle_s=2)
        made.wait_for("ready")
        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(ask_at, row["address"], "/slow?s=0.3") for _ in range(60)]
            until(lambda: made.row()["wanted"] == 3)
            assert all(own.result(LONG_S).status == 200 for own in asked)
        why = made.row()["why"]
        assert re.search(r"requests (a second|in work|waiting)|nobody asks", why), why
        made.wait_for("ready", "asleep", "asleep")
        until(lambda: made.row()["wanted"] == 1)


def test_a_server_that_sleeps_by_itself_is_told_to(tmp_path: os.PathLike[str]) -> None:
    notes = f"{tmp_path}/notes"
    with service_daemon() as made:
        row = made.serve(
            replicas={"min": 0, "max": 1},
            idle_s=1,
            envs={"REPLICA_NOTES": notes},
            sleep={"enter": "/sleep?id=enter", "leave": "/wake_up?id=leave"},
        )
        made.wait_for("asleep")
        assert ask_at(row["address"], "/?id=request").status == 200
        with open(notes) as file:
            assert file.read().split() == ["enter", "leave", "request"]


SLEEPER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
calls = []
class Handler(BaseHTTPRequestHandler):
    def answer(self):
        if self.path in ("/sleep?level=1", "/wake_up"):
            time.sleep(0.7)  # weights are moved
            calls.append(self.path)
        asleep = calls[-1:] == ["/sleep?level=1"]
        body = " ".join(calls).encode()
        self.send_response(500 if asleep and self.path == "/" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *args):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_that_sleeps_by_itself_is_told_before_and_after_and_no_request_meets_it_asleep() -> (
    None
):
    with service_daemon() as made:
        made.serve(
            command=[sys.executable, "-c", SLEEPER, "{port}"],
            replicas={"min": 0, "max": 1},
            idle_s=1,
            sleep={"enter": "/sleep?level=1", "leave": "/wake_up"},
        )
        made.wait_for("asleep")
        answer = made.ask()
        assert (answer.status, answer.text) == (200, "/sleep?level=1 /wake_up")
        made.wait_for("asleep")
        assert made.ask().status == 200
