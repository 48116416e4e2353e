"""The way of a browser to the daemon, and who is kept off it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from bridge_process import BridgeProcess
from dovetail.bridge.local_peers import is_ours
from dovetail.bridge.visitors import LINK_S, Visitors
from dovetail.daemon.users.callers import user_name
from two_users import NOBODY, as_root
from waiting import LONG_S, until

POST = json.dumps({"jobs": [{"spec": {"run": "true"}, "workdir": "/"}]}).encode()


def test_the_link_opens_the_page_once_and_the_browser_is_known_from_then_on(
    bridge: BridgeProcess,
) -> None:
    first = bridge.enter()
    assert first.status == 200
    assert first.headers["refresh"] == "0; url=/page/"
    told = first.headers["set-cookie"]
    assert "HttpOnly" in told
    assert "SameSite=Strict" in told
    assert "Path=/" in told
    assert bridge.ask("GET", "/v1/health").status == 200
    assert bridge.ask("GET", "/").headers["location"] == "/page/"
    again = bridge.ask("GET", bridge.path, cookie=None)
    assert again.status == 403
    assert "used already, or is too old" in again.text
    assert "set-cookie" not in again.headers


def test_who_has_no_cookie_is_told_how_to_get_one(bridge: BridgeProcess) -> None:
    answer = bridge.ask("GET", "/v1/jobs")
    assert answer.status == 401
    assert "dovetail dashboard" in answer.text
    assert bridge.ask("GET", "/v1/jobs", cookie="dovetail-0000=x").status == 401
    assert bridge.ask("GET", "/open/", cookie=None).status == 403


def test_the_daemon_sees_the_user_and_neither_cookie_nor_token(
    bridge: BridgeProcess, live: Any
) -> None:
    bridge.enter()
    answer = bridge.ask("POST", "/v1/jobs", POST, authorization="Bearer stolen")
    assert answer.status == 201
    job_id = json.loads(answer.text)["ids"][0]
    assert live.wait_for(job_id)["user"] == user_name(os.getuid())


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"origin": "https://evil.example"}, "a page of 'https://evil.example'"),
        ({"origin": "null"}, "a page of 'null'"),
        ({"origin": None}, "which page asks for it"),
        ({"origin": "http://127.0.0.1:8888"}, "a page of 'http://127.0.0.1:8888'"),
        ({"sec_fetch_site": "cross-site"}, "another site"),
        ({"sec_fetch_site": "same-site"}, "another site"),
        ({"host": "evil.example"}, "under the name 'evil.example'"),
        ({"host": "127.0.0.1.evil.example:80"}, "under the name"),
        ({"host": None}, "cannot be read"),
    ],
)
def test_no_other_sites_page_can_make_the_browser_change_anything(
    bridge: BridgeProcess, live: Any, headers: dict[str, Any], why: str
) -> None:
    """With the cookie, as if the browser had sent it."""
    bridge.enter()
    planted = POST.replace(b'"run"', b'"name": "planted", "run"')
    answer = bridge.ask("POST", "/v1/jobs", planted, **headers)
    assert answer.status in (400, 403)
    assert why in answer.text.replace("&#x27;", "'")
    assert live.get("/v1/jobs?name=planted")["jobs"] == []
    assert live.get("/v1/history?name=planted")["jobs"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "rebound.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://rebound.example"},
    ],
)
def test_nor_read_anything(bridge: BridgeProcess, headers: dict[str, Any]) -> None:
    bridge.enter()
    assert bridge.ask("GET", "/v1/jobs", **headers).status == 403


def test_a_link_under_a_rebound_name_is_worth_nothing_and_stays_good(bridge: BridgeProcess) -> None:
    assert bridge.ask("GET", bridge.path, host="rebound.example").status == 403
    assert bridge.enter().status == 200


def test_a_forwarded_port_of_another_number_is_the_same_place(bridge: BridgeProcess) -> None:
    bridge.enter()
    assert bridge.ask("GET", "/v1/health", host="localhost:8123").status == 200


def test_a_second_request_behind_the_first_is_not_passed_on(
    bridge: BridgeProcess, live: Any
) -> None:
    """It would come to the daemon unlooked at."""
    bridge.enter()
    with socket.create_connection(("127.0.0.1", bridge.port), timeout=LONG_S) as connection:
        head = f"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nCookie: {bridge.cookie}\r\n\r\n"
        connection.sendall(head.encode() + b"POST /v1/stop HTTP/1.1\r\nHost: dovetail\r\n\r\n")
        said = b""
        while piece := connection.recv(1 << 16):
            said += piece
    assert said.count(b"HTTP/1.1") == 1
    assert live.get("/v1/health")["pid"] == live.process.pid


def test_a_page_is_told_what_happens_as_it_happens(bridge: BridgeProcess, live: Any) -> None:
    bridge.enter()
    with socket.create_connection(("127.0.0.1", bridge.port), timeout=LONG_S) as connection:
        head = f"GET /v1/page/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {bridge.cookie}\r\n\r\n"
        connection.sendall(head.encode())
        said = connection.recv(1 << 16)
        live.submit("true")
        while b'"phase":"finished"' not in said:
            said += connection.recv(1 << 16)
    until(lambda: live.get("/v1/health")["jobs"]["running"] == 0)


def test_it_ends_with_ctrl_c_without_a_word_of_python(bridge: BridgeProcess) -> None:
    told = bridge.end()
    assert "Traceback" not in told
    assert "Ctrl-C ends it" in told


def test_without_a_daemon_it_says_how_to_start_one(tmp_path: Any) -> None:
    with pytest.raises(AssertionError, match=r"no daemon answers at .* start one: dovetail"):
        BridgeProcess(tmp_path / "none")


_AS_NOBODY = """
import encodings.idna, http.client, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("GET", sys.argv[2], headers={"cookie": sys.argv[3]})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@as_root
def test_another_user_of_the_machine_gets_nowhere_even_with_link_and_cookie(
    bridge: BridgeProcess,
) -> None:
    def nobody(path: str, cookie: str) -> str:
        words = [sys.executable, "-I", "-S", "-c", _AS_NOBODY, str(bridge.port), path, cookie]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert nobody(bridge.path, "").startswith("403")  # and the link is not used up
    bridge.enter()
    told = nobody("/v1/jobs", bridge.cookie)
    assert told.startswith("403")
    assert "another user of this machine" in told


def test_whose_a_connection_is_stands_in_the_table_of_the_system(tmp_path: Any) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: 0100007F:{local} 0100007F:{far} {state} 0:0 00:0 0 {uid}        0 1\n"
    table = tmp_path / "tcp"
    peer, own = ("127.0.0.1", 40000), ("127.0.0.1", 8080)

    def known(**fields: Any) -> bool:
        usual = {"local": "9C40", "far": "1F90", "state": "01", "uid": os.getuid()}
        table.write_text(head + row.format(**usual | fields))
        return is_ours(peer, own, table)

    assert known()
    assert not known(uid=NOBODY)
    assert not known(local="9C41")
    assert not known(state="06", uid=0)  # its process has gone: the system says root
    assert is_ours(peer, own, tmp_path / "none")  # not every system tells


def test_a_link_is_good_for_five_minutes_and_a_newer_one_replaces_it() -> None:
    now = [0.0]
    visitors = Visitors(lambda: now[0])
    first, second = visitors.new_link(), visitors.new_link()
    assert visitors.enter(first) is None
    now[0] = LINK_S + 1
    assert visitors.enter(second) is None
    third = visitors.new_link()
    value = visitors.enter(third)
    assert value
    assert visitors.enter(third) is None
    assert visitors.knows(f"other=1; {visitors.cookie_name}={value}")
    assert not visitors.knows(f"{visitors.cookie_name}=")
    assert not Visitors().knows(f"{visitors.cookie_name}={value}")
