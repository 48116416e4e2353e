"""The gateway with real replicas: routing, refusals, streams, kills, and the bounds of what it holds."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dovetail.worlds.gateway_settings import GatewaySettings
from gateway_process import Answer, GatewayProcess, gateway
from two_users import NOBODY, as_root
from waiting import LONG_S, until


def test_requests_go_to_the_replica_that_has_the_fewest(tmp_path: Path) -> None:
    with gateway(tmp_path, replicas=2) as (made, (first, second)), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: made.ask("/slow?s=0.5"), range(4)))
    served = Counter(int(answer.text.split()[0]) for answer in answers)
    assert served == {first.process.pid: 2, second.process.pid: 2}


def test_a_replica_of_another_size_gets_as_many_requests_as_it_takes(tmp_path: Path) -> None:
    with gateway(tmp_path, 2, at_once=4) as (own, (small, large)):
        own.tell({**small.row(), "at_once": 1}, large.row())
        with ThreadPoolExecutor(5) as pool:
            asked = [pool.submit(own.ask, "/slow?s=4") for _ in range(5)]
            busy = {"r0": 0, "r1": 0}
            while busy != {"r0": 1, "r1": 4}:
                busy = own.heard()["busy"]
            assert all(one.result(LONG_S).status == 200 for one in asked)


def test_bodies_and_answers_pass_unchanged_whole_or_in_chunks(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        assert made.ask("/", "POST", b"x" * 3_000_000).text.split()[1] == "3000000"
        parts = [b"y" * 70_000] * 10
        assert made.ask("/", "POST", iter(parts)).text.split()[1] == "700000"
        assert made.ask("/fail").status == 500


def test_a_streamed_answer_is_passed_on_part_by_part(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=LONG_S)
        connection.request("GET", "/stream")
        began = time.monotonic()
        answer = connection.getresponse()
        assert answer.readline() == b"part 0\n"
        first_s = time.monotonic() - began
        assert answer.read().count(b"part") == 9
        assert first_s < (time.monotonic() - began) / 2
        connection.close()


def test_websockets_are_refused_and_the_answer_says_what_to_do(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        answer = made.ask("/", upgrade="websocket", connection="Upgrade")
        assert answer.status == 501
        assert "ask for a streamed answer instead" in answer.text


def test_a_request_that_finds_the_queue_full_is_told_when_to_try_again(tmp_path: Path) -> None:
    with gateway(tmp_path, at_once=1, queue=1) as (made, _), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: made.ask("/slow?s=1"), range(8)))
    assert Counter(answer.status for answer in answers) == {200: 2, 503: 6}
    refused = next(answer for answer in answers if answer.status == 503)
    assert int(refused.headers["retry-after"]) >= 1
    assert "too busy: 1 requests wait already; try again in 1 s" in refused.text


def test_a_request_that_no_replica_takes_in_time_is_refused(tmp_path: Path) -> None:
    with gateway(tmp_path, replicas=0, queue_s=0.3) as (made, _):
        answer = made.ask("/")
        assert answer.status == 503
        assert answer.headers["retry-after"] == "3"
        assert "no replica of it is ready yet; try again in 3 s" in answer.text


def test_the_daemon_is_told_at_once_that_somebody_waits_and_nobody_is_ready(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path) as (made, (server,)), ThreadPoolExecutor(1) as pool:
        made.tell(server.row("asleep"))
        asked = pool.submit(made.ask)
        until(lambda: "waiting" in made.heard())
        made.tell(server.row())
        assert asked.result(LONG_S).status == 200


def test_a_draining_replica_answers_what_it_has_and_gets_no_more(tmp_path: Path) -> None:
    with gateway(tmp_path, replicas=2) as (made, (first, second)), ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(made.ask, "/slow?s=1") for _ in range(2)]
        until(lambda: made.heard()["busy"] == {"r0": 1, "r1": 1})
        made.tell(first.row("draining"), second.row())
        after = {int(made.ask("/").text.split()[0]) for _ in range(6)}
        assert after == {second.process.pid}
        assert {int(one.result(LONG_S).text.split()[0]) for one in asked} == {
            first.process.pid,
            second.process.pid,
        }
        until(lambda: made.heard()["busy"]["r0"] == 0)


def test_a_replica_killed_in_a_stream_of_requests_costs_at_most_those_it_had_begun(
    tmp_path: Path,
) -> None:
    """Every request has one answer, none was done twice, and only begun ones may have failed."""
    notes = tmp_path / "notes"
    with gateway(tmp_path, replicas=3, notes=notes) as (made, servers):
        answers: dict[int, Answer] = {}

        def ask(number: int) -> None:
            answers[number] = made.ask(f"/begun?id={number}&s=0.02", "POST", b"x")

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, number) for number in range(600)]
            until(lambda: len(answers) > 200)
            servers[0].kill()
            for one in asked:
                one.result(LONG_S)
    statuses = Counter(answer.status for answer in answers.values())
    assert statuses[200] + statuses[502] == 600
    assert statuses[502] <= 16
    begun = Counter(notes.read_text().split())
    assert max(begun.values()) == 1
    assert all(begun[str(number)] for number, own in answers.items() if own.status == 200)
    lost = next((own for own in answers.values() if own.status == 502), None)
    assert lost is None or "whether it has done what was asked is not known" in lost.text


def test_an_answer_that_is_not_http_is_said_to_be_none(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        answer = made.ask("/garbage")
        assert answer.status == 502
        assert "replica r0 of service 'answers' gave no answer: it answered what is not HTTP" in (
            answer.text
        )


@pytest.mark.parametrize("after_s", [0.0, 0.2])
def test_what_a_replica_sends_beyond_its_answer_is_nobodys(tmp_path: Path, after_s: float) -> None:
    with gateway(tmp_path) as (made, (replica,)):
        assert made.ask(f"/twice?after={after_s}").text == "once"
        time.sleep(2 * after_s + 0.05)
        assert made.ask("/").text.split()[0] == str(replica.process.pid)


def test_a_replica_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with gateway(tmp_path, answer_s=0.3) as (made, _):
        assert made.ask("/slow?s=30").status == 504
        assert made.ask("/notes").status == 504


def test_a_body_of_a_gigabyte_is_refused_at_its_head_and_while_it_comes(tmp_path: Path) -> None:
    with gateway(tmp_path, body_bytes=1_000_000) as (made, _):
        before = made.resident_mb()
        answer = sent_blindly(made, b"Content-Length: 1073741824\r\n", b"x" * 65536)
        assert b" 413 " in answer
        assert b"larger than 1000000 bytes" in answer
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        assert b" 413 " in sent_blindly(made, b"Transfer-Encoding: chunked\r\n", chunk)
        assert made.resident_mb() - before < 20


def sent_blindly(made: GatewayProcess, framing: bytes, part: bytes) -> bytes:
    """Up to a gigabyte, by a client that looks for an answer only when it cannot send any more."""
    with socket.create_connection(("127.0.0.1", made.port), LONG_S) as line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n")
        line.settimeout(0.5)
        try:
            for _ in range(16384):
                line.sendall(part)
        except OSError:
            pass
        line.settimeout(LONG_S)
        try:
            return line.recv(4096)
        except ConnectionResetError:
            return b""


def test_slow_clients_are_timed_out_while_others_are_served(tmp_path: Path) -> None:
    with gateway(tmp_path, client_s=0.5) as (made, _):
        heads = socket.create_connection(("127.0.0.1", made.port), LONG_S)
        heads.sendall(b"GET / HTTP/1.1\r\nHo")
        bodies = socket.create_connection(("127.0.0.1", made.port), LONG_S)
        bodies.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert made.ask("/").status == 200
        assert b" 408 " in heads.recv(4096)
        assert b" 408 " in bodies.recv(4096)
        heads.close()
        bodies.close()


def test_a_client_that_does_not_read_its_answer_takes_no_memory_and_is_cut_off(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path, client_s=0.5, at_once=1) as (made, _):
        before = made.resident_mb()
        with socket.create_connection(("127.0.0.1", made.port), LONG_S) as line:
            line.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            assert line.recv(100).startswith(b"HTTP/1.1 200")
            assert made.ask("/").status == 200  # once it was cut off
            assert made.resident_mb() - before < 20


def test_connections_above_the_most_are_refused_with_a_reason_and_bounded_memory(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path, connections=100, client_s=20) as (made, _):
        before = made.resident_mb()
        lines = [socket.create_connection(("127.0.0.1", made.port), LONG_S) for _ in range(100)]
        until(lambda: made.ask("/").status == 503)
        answer = made.ask("/")
        assert "has 100 connections open, its most" in answer.text
        assert answer.headers["retry-after"] == "1"
        assert made.resident_mb() - before < 20
        for line in lines:
            line.close()
        until(lambda: made.ask("/").status == 200)


def test_it_goes_on_while_no_daemon_is_there_and_tells_the_next_one(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        made.disconnect()
        assert made.ask("/").status == 200
        made.connect()
        load = made.load()
        assert load["answered"] == 1
        assert load["refused"] == load["failed"] == 0


def test_the_load_is_told_in_sums(tmp_path: Path) -> None:
    with gateway(tmp_path, slo_s=0.1) as (made, _):
        threads = [threading.Thread(target=made.ask, args=("/slow?s=0.2",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen = [made.load()]
        while sum(load["answered"] for load in seen) < 4:
            seen.append(made.heard().get("load") or seen.pop())
        assert sum(load["late"] for load in seen) == 4
        assert max(load["most_at_once"] for load in seen) == 4
        assert 0.2 <= max(load["service_s"] for load in seen) <= max(load["p99_s"] for load in seen)


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = GatewaySettings("answers", "127.0.0.1", port, str(tmp_path / "s"))
        listening, telling = os.pipe()
        words = [sys.executable, "-m", "dovetail.gateway", settings.text(), str(telling)]
        done = subprocess.run(words, pass_fds=[telling], check=False, timeout=LONG_S)
        os.close(telling)
        with open(listening) as told:
            assert told.read() == f"port {port} of 127.0.0.1 cannot be used: Address already in use"
        assert done.returncode == 1


def test_a_gateway_whose_folder_is_removed_ends(tmp_path: Path) -> None:
    with gateway(tmp_path) as (made, _):
        shutil.rmtree(tmp_path)
        assert made.process.wait(LONG_S) == 0


def test_errors_are_lines_of_json(tmp_path: Path) -> None:
    with gateway(tmp_path, replicas=0, queue_s=0.1) as (made, _):
        assert json.loads(made.ask("/").text).keys() == {"error"}


@as_root
def test_with_the_rights_of_another_user_it_passes_on_requests(
    tmp_path: Path,
) -> None:
    account = (NOBODY, NOBODY, ())
    with gateway(tmp_path, account=account) as (made, _):
        status = Path(f"/proc/{made.process.pid}/status").read_text()
        assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status
        assert made.ask("/", "POST", b"x" * 300_000).text.split()[1] == "300000"


def test_a_replica_that_does_not_read_a_body_keeps_its_place_for_a_bounded_time(
    tmp_path: Path,
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        gateway(tmp_path, answer_s=0.5) as (made, _),
    ):
        port = deaf.getsockname()[1]
        made.tell({"id": "deaf", "host": "127.0.0.1", "port": port, "standing": "ready"})
        answer = made.ask("/", "POST", b"x" * 30_000_000)
        assert answer.status == 504
        assert "gave no answer within 0.5 s" in answer.text


def test_who_has_gone_while_waiting_is_not_sent_to_a_replica(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with gateway(tmp_path, at_once=1, notes=notes) as (made, _), ThreadPoolExecutor(1) as pool:
        first = pool.submit(made.ask, "/slow?s=3&id=first")
        until(lambda: notes.exists() and "first" in notes.read_text())
        with socket.create_connection(("127.0.0.1", made.port)) as gone:
            gone.sendall(b"GET /?id=gone HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: made.load()["queued"] == 1)
        assert first.result().status == 200
        assert made.ask("/?id=last").status == 200
    assert notes.read_text().split() == ["first", "last"]


def test_the_age_of_a_request_counts_from_when_a_replica_was_there(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        gateway(tmp_path, replicas=0) as (made, _),
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(made.ask, "/", x_dovetail_age="7")
        time.sleep(2.0)  # it waits for one to wake
        row = {"id": "r", "host": "127.0.0.1", "port": server.getsockname()[1], "standing": "ready"}
        made.tell(row)
        replica, _ = server.accept()
        with replica:
            (age,) = re.findall(rb"x-dovetail-age: ([0-9.]+)", replica.recv(4096))
            replica.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            assert asked.result().status == 200
    assert 0 <= float(age) < 2.0
