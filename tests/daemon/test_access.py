from __future__ import annotations

import http.client
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.daemon.http.access import Peer, SocketAccess, listen_at, listen_on, peer_of, token_in
from dovetail.daemon.users import system_accounts as accounts
from two_users import NOBODY, as_root, call_as_nobody

# ------------------------------------------------------------------------------------------- socket


def test_the_socket_is_its_owners_alone(live: Any) -> None:
    assert stat.S_IMODE(live.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(live.folder.stat().st_mode) == 0o700


@as_root
def test_another_user_cannot_reach_the_socket(live: Any) -> None:
    assert call_as_nobody(live.socket, "/v1/health") == "PermissionError"


@as_root
def test_another_user_who_gets_through_to_the_socket_is_refused(
    start: Any, open_folder: Path
) -> None:
    """As if the mode were wrong for a moment: the kernel still says who it is."""
    live = start(open_folder)
    open_folder.chmod(0o755)
    live.socket.chmod(0o777)
    for method, page in (("GET", "/v1/health"), ("POST", "/v1/stop"), ("GET", "/openapi.json")):
        status, _, answer = call_as_nobody(live.socket, page, method).partition(" ")
        assert status == "403"
        assert json.loads(answer)["error"].startswith("this daemon is not yours")
    assert live.get("/v1/health")["pid"] == live.process.pid
    live.close()


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one) == Peer(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    own = SocketAccess(1000)
    assert own.of_peer(Peer(1001, 7)) is None
    assert own.of_peer(Peer(1000, 7)) is not None
    assert own.of_peer(Peer(0, 7)) is not None
    shared = SocketAccess(0, shared=True).of_peer(Peer(1001, 7))
    assert shared is not None
    assert not shared.admin


def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listen_on(path).close()
    assert path.is_socket()
    with listen_on(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_on(path), pytest.raises(BadInput, match="another daemon serves"):
        listen_on(path)


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(BadInput, match="is in the way: it is not a socket"):
        listen_on(path)
    assert path.read_text() == "precious"


def test_a_folder_that_is_missing_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot open the socket .*No such file"):
        listen_on(tmp_path / "no" / "s")


# -------------------------------------------------------------------------------------- shared box


@as_root
def test_on_a_shared_box_others_submit_and_look_but_only_owners_change(
    start: Any, open_folder: Path
) -> None:
    live = start(open_folder, system=True, group="nogroup")
    assert stat.S_IMODE(live.socket.stat().st_mode) == 0o660
    job_id = live.submit("echo private; sleep 60")
    live.wait_for(job_id, "running")

    def nobody(method: str, page: str, body: Any = None) -> tuple[int, Any]:
        text = "" if body is None else json.dumps(body)
        status, _, answer = call_as_nobody(live.socket, page, method, text).partition(" ")
        return int(status), json.loads(answer)

    status, row = nobody("GET", f"/v1/jobs/{job_id}")
    assert (status, row["user"], row["spec"], row["log"]) == (200, "root", None, None)
    for method, page, body in (
        ("POST", "/v1/jobs/cancel", {"ids": [job_id]}),
        ("GET", f"/v1/jobs/{job_id}/log", None),
        ("PUT", "/v1/policy", {"policy": "fifo"}),
        ("PUT", "/v1/tenants", {"name": "mine"}),
        ("POST", "/v1/stop", None),
    ):
        status, answer = nobody(method, page, body)
        assert (status, "may" in answer["error"]) == (403, True), page
    job = {"spec": {"run": "id -u; sleep 60"}, "workdir": "/", "environment": {"PATH": "/bin"}}
    status, answer = nobody("POST", "/v1/jobs", {"jobs": [job]})
    own = answer["ids"][0]
    row = live.wait_for(own, "running", "failed")
    assert (status, row["phase"], row["user"]) == (201, "running", "nobody")
    assert nobody("POST", "/v1/jobs/cancel", {"mine": True})[1]["ids"] == [own]
    assert live.get(f"/v1/jobs/{job_id}")["phase"] == "running"
    assert live.text(f"/v1/jobs/{own}/log") == f"{NOBODY}\n"
    live.close()


@as_root
def test_a_group_that_does_not_exist_is_told(start: Any, tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match="there is no group 'no-such-group' to open the socket"
    ):
        start(tmp_path, system=True, group="no-such-group")


@as_root
@pytest.mark.parametrize("option", ["group", "admins"])
def test_a_group_that_was_refused_is_not_taken_as_last_time(
    start: Any, tmp_path: Path, option: str
) -> None:
    start(tmp_path, system=True, group="nogroup").close()
    with pytest.raises(AssertionError, match="it did not start"):
        start(tmp_path, system=True, **{option: "no-such-group"})
    start(tmp_path, system=True).close()


# ------------------------------------------------------------------------------------------ network


def test_over_the_network_only_the_token_opens(start: Any, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start(tmp_path, listen=f"127.0.0.1:{port}")
    token = (tmp_path / "token").read_text().strip()

    def status(**headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/v1/health", headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    assert status() == 401
    assert status(authorization="Bearer ") == 401
    assert status(authorization=f"Bearer {token[:-1]}") == 401
    assert status(authorization=f"Basic {token}") == 401
    assert status(authorization="Bearer caf\xe9") == 401
    assert status(authorization=f"Bearer {token}") == 200


def test_without_listen_there_is_no_token(live: Any) -> None:
    assert not (live.folder / "token").exists()


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = token_in(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (len(first) > 40, token_in(path)) == (True, first)
    path.chmod(0o644)
    with pytest.raises(BadInput, match="can be read by others"):
        token_in(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(BadInput, match="too short"):
        token_in(path)


@pytest.mark.parametrize("address", ["", "7733", ":7733", "host:", "host:99999", "host:x"])
def test_an_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="write HOST:PORT"):
        listen_at(address)


def test_a_port_in_use_is_told_in_one_line() -> None:
    with listen_at("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot listen at '127.0.0.1:{port}': Address already"):
            listen_at(f"127.0.0.1:{port}")


def test_ipv6_hosts_stand_in_brackets() -> None:
    try:
        listener = listen_at("[::1]:0")
    except BadInput:
        pytest.skip("no IPv6 here")
    with listener:
        assert listener.family == socket.AF_INET6


def test_nobody_gets_past_limits_by_the_numbers_that_are_lent_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`newuidmap` gives one person 65,536 of them, each with limits and a share of its own."""
    lent = tmp_path / "subuid"
    lent.write_text("ann:3000000000:65536\nnot a line\nbob:x:1\nroot:0:10\n")
    monkeypatch.setattr(accounts, "SUBORDINATE", lent)
    shared = SocketAccess(daemon_uid=0, shared=True)
    for uid, may_come in ((3000000000, False), (3000065535, False), (3000065536, True), (0, True)):
        assert (shared.of_peer(Peer(uid, 5)) is not None) == may_come, uid
