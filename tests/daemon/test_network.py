"""Over the network: tokens of users, the login of browsers, and those who try without."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from daemon_process import DaemonProcess
from dovetail.daemon.http.access import SocketAccess
from dovetail.daemon.http.sessions import Sessions
from dovetail.daemon.users import tokens as tokens_module
from dovetail.gateway.guesses import MOST_GUESSES, WITHIN_S, Guesses
from two_users import as_nobody, as_root
from waiting import LONG_S, until


class Answer(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage

    @property
    def error(self) -> str:
        return str(json.loads(self.text)["error"])


class Box:
    """A daemon that listens, and what comes to its port."""

    def __init__(self, live: DaemonProcess, port: int) -> None:
        self.live, self.port = live, port
        self.name = f"127.0.0.1:{port}"
        self.admin = (live.folder / "token").read_text().strip()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: Any) -> Answer:
        connection = self.open(method, path, body, **headers)
        answer = connection.getresponse()
        try:
            return Answer(answer.status, answer.read().decode(), answer.headers)
        finally:
            connection.close()

    def open(
        self, method: str, path: str, body: bytes | None = None, **headers: Any
    ) -> http.client.HTTPConnection:
        own = {name.replace("_", "-"): value for name, value in headers.items() if value}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG_S)
        connection.request(method, path, body, own)
        return connection

    def by(self, token: str, path: str = "/v1/health", method: str = "GET") -> Answer:
        return self.ask(method, path, authorization=f"Bearer {token}")

    def make_token(self, **fields: Any) -> Any:
        return self.live.ask("POST", "/v1/tokens", {"name": "laptop", **fields})

    def log_in(self, token: str, **headers: Any) -> Answer:
        own = {"origin": f"http://{self.name}", "host": self.name, **headers}
        form = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask(
            "POST", "/page/login", urlencode({"token": token}).encode(), **{**form, **own}
        )


def listening(start: Callable[..., DaemonProcess], folder: Path, **settings: Any) -> Box:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    return Box(start(folder, listen=f"127.0.0.1:{port}", **settings), port)


@pytest.fixture(scope="module")
def box(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Box:
    return listening(start, tmp_path_factory.mktemp("home"))


# ------------------------------------------------------------------------------------------- tokens


def test_a_token_is_shown_once_kept_as_a_digest_and_worth_nothing_once_revoked(box: Box) -> None:
    made = box.make_token()
    assert box.by(made["secret"]).status == 200
    (row,) = box.live.get("/v1/tokens")["tokens"]
    assert (row["id"], row["name"], "secret" in row) == (made["id"], "laptop", False)
    secret = made["secret"].rpartition("_")[2].encode()
    assert not any(secret in path.read_bytes() for path in box.live.folder.glob("dovetail.db*"))
    box.live.ask("POST", "/v1/tokens/revoke", {"ids": [made["id"]]})
    assert box.by(made["secret"]).status == 401
    assert box.live.get("/v1/tokens")["tokens"] == []


def test_tokens_outlive_the_daemon_and_revocations_too(start: Any, tmp_path: Path) -> None:
    box = listening(start, tmp_path)
    kept, gone = box.make_token(), box.make_token()
    box.live.ask("POST", "/v1/tokens/revoke", {"ids": [gone["id"]]})
    box.live.kill()
    box.live.start()
    assert (box.by(kept["secret"]).status, box.by(gone["secret"]).status) == (200, 401)


def test_an_open_stream_ends_when_its_token_is_revoked(box: Box) -> None:
    made = box.make_token()
    opened = box.open("GET", "/v1/page/stream", authorization=f"Bearer {made['secret']}")
    stream = opened.getresponse()
    assert stream.readline().startswith(b"retry")
    box.live.ask("POST", "/v1/tokens/revoke", {"ids": [made["id"]]})
    job_id = box.live.submit("true")
    assert f'"id":"{job_id}"'.encode() not in stream.read()  # and it has an end
    opened.close()
    box.live.wait_for(job_id)


def test_a_token_makes_no_tokens_and_is_over_in_time(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = box.make_token(days=1e-7)
    until(lambda: box.by(made["secret"]).status == 401)
    for token in (box.make_token()["secret"], box.admin):
        body = json.dumps({"name": "more"}).encode()
        own = {"authorization": f"Bearer {token}", "content_type": "application/json"}
        answer = box.ask("POST", "/v1/tokens", body, **own)
        assert (answer.status, "cannot make tokens" in answer.error) == (403, True)
    _revoke_all(box)


def test_nobody_can_have_tokens_without_end(box: Box) -> None:
    for _ in range(tokens_module.MOST_TOKENS):
        box.make_token()
    status, told = box.live.try_to("POST", "/v1/tokens", {"name": "one more"})
    assert (status, "revoke some first" in told["error"]) == (400, True)
    _revoke_all(box)


def _revoke_all(box: Box) -> None:
    ids = [row["id"] for row in box.live.get("/v1/tokens")["tokens"]]
    box.live.ask("POST", "/v1/tokens/revoke", {"ids": ids})


def test_who_guesses_waits_and_keeps_no_owner_of_a_token_out(start: Any, tmp_path: Path) -> None:
    box = listening(start, tmp_path)
    made = box.make_token()
    told = [box.by(f"dvt_0000000000_{n}") for n in range(MOST_GUESSES + 1)]
    assert [answer.status for answer in told] == [401] * MOST_GUESSES + [429]
    assert 0 < int(told[-1].headers["retry-after"]) <= WITHIN_S
    assert box.by(made["secret"]).status == box.by(box.admin).status == 200
    for n in range(MOST_GUESSES):
        assert box.by(f"dvt_{made['id']}_{n}").status == 401
    assert box.by(made["secret"]).status == 429  # somebody is at this very token
    assert box.log_in(made["secret"]).status == 429
    assert box.by(box.admin).status == 200


def test_guesses_are_forgotten_after_a_minute_and_bounded() -> None:
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    for _ in range(MOST_GUESSES):
        guesses.wrong("10.0.0.1", "a")
    assert guesses.wait_s("10.0.0.1", "a") == WITHIN_S
    assert guesses.wait_s("10.0.0.2", "a") == guesses.wait_s("10.0.0.1", "b") == 0
    now[0] = WITHIN_S
    assert guesses.wait_s("10.0.0.1", "a") == 0
    for n in range(20_000):
        guesses.wrong(f"10.0.{n}", "")
    assert len(guesses._wrong) == 10_000


# ------------------------------------------------------------------------------------------- browsers


@pytest.fixture(scope="module")
def door(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Box:
    """A daemon at which nobody has guessed."""
    return listening(start, tmp_path_factory.mktemp("door"))


def test_a_browser_logs_in_with_a_token_looks_changes_and_logs_out(door: Box) -> None:
    page = door.ask("GET", "/page/", accept="text/html")
    assert (page.status, page.headers["location"]) == (303, "/page/login")
    login = door.ask("GET", "/page/login")
    assert (login.status, 'type="password"' in login.text) == (200, True)
    assert "script-src 'self'" in login.headers["content-security-policy"]
    assert door.ask("GET", "/page/static/style.css").status == 200
    made = door.make_token()
    answer = door.log_in(made["secret"])
    told = answer.headers["set-cookie"]
    assert (answer.status, answer.headers["location"]) == (303, "/page/")
    assert "HttpOnly" in told
    assert "SameSite=Strict" in told
    own: dict[str, Any] = {"cookie": told.partition(";")[0], "host": door.name}
    assert door.ask("GET", "/page/", accept="text/html", **own).status == 200
    body = json.dumps({"jobs": [{"spec": {"run": "true"}, "workdir": "/"}]}).encode()
    change = {**own, "origin": f"http://{door.name}", "content_type": "application/json"}
    assert door.ask("POST", "/v1/jobs", body, **change).status == 201
    out = door.ask("POST", "/page/logout", b"", **change)
    assert "Max-Age=0" in out.headers["set-cookie"]
    _revoke_all(door)
    assert door.ask("GET", "/v1/health", **own).status == 401  # with the token the session ends


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": None},
        {"origin": "null"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"host": "rebound.example"},
        {"host": "rebound.example", "origin": "http://rebound.example"},
    ],
)
def test_no_other_page_rides_on_a_session(door: Box, headers: dict[str, Any]) -> None:
    cookie = door.log_in(door.admin).headers["set-cookie"].partition(";")[0]
    own = {"cookie": cookie, "host": door.name, "origin": f"http://{door.name}"}
    door.live.ask("PUT", "/v1/policy", {"policy": "fifo-skip"})
    body = json.dumps({"policy": "fifo"}).encode()
    own["content_type"] = "application/json"
    assert door.ask("PUT", "/v1/policy", body, **{**own, **headers}).status in (401, 403)
    assert door.live.get("/v1/policy")["policy"] == "fifo-skip"
    assert door.ask("PUT", "/v1/policy", body, **own).status == 200


def test_a_wrong_token_on_the_page_says_so_and_sets_nothing(door: Box) -> None:
    answer = door.log_in("dvt_no_such")
    assert (answer.status, "no token of this daemon" in answer.text) == (401, True)
    assert "set-cookie" not in answer.headers
    hostile = door.log_in("<script>alert(1)</script>")
    assert "<script>alert" not in hostile.text


def test_a_form_with_too_many_fields_is_refused_in_words(door: Box) -> None:
    kind = "application/x-www-form-urlencoded"
    own = {"content-type": kind, "host": door.name, "origin": f"http://{door.name}"}
    many = door.ask("POST", "/page/login", b"a=1&" * 20 + b"token=x", **own)
    assert (many.status, "the form has too many fields" in many.text) == (400, True)
    strange = door.ask("POST", "/page/login", b"a=1&" * 20, **{**own, "origin": "http://evil"})
    assert strange.status == 403


def test_a_session_is_of_one_token_one_name_and_one_secret() -> None:
    sessions, other = Sessions("secret"), Sessions("another")
    value = sessions.value("t1", "digest", "box:7733")
    assert sessions.token_in(value) == "t1"
    assert sessions.holds(value, "digest", "box:7733")
    assert not sessions.holds(value, "another", "box:7733")
    assert not sessions.holds(value, "digest", "rebound:7733")
    assert not other.holds(value, "digest", "box:7733")
    token_id, until_text, mac = value.split(".")
    assert not sessions.holds(f"admin.{until_text}.{mac}", "digest", "box:7733")
    assert not sessions.holds(f"{token_id}.{int(until_text) + 1}.{mac}", "digest", "box:7733")
    for wrong in ("", "a.b", f"{token_id}.1.{mac}", f"{token_id}.x.{mac}", "a.b.c.d"):
        assert sessions.token_in(wrong) is None


# ------------------------------------------------------------------------------------------ two users


@as_root
def test_what_a_token_lets_do_is_what_its_user_may(start: Any, open_folder: Path) -> None:
    box = listening(start, open_folder, system=True, group="nogroup")
    job_id = box.live.submit("echo private; sleep 600")
    status, made = as_nobody(box.live.socket, "POST", "/v1/tokens", {"name": "theirs"})
    assert status == 201
    assert box.by(made["secret"], f"/v1/jobs/{job_id}").status == 200
    assert box.by(made["secret"], f"/v1/jobs/{job_id}/log").status == 403
    assert box.by(made["secret"], "/v1/stop", "POST").status == 403
    assert json.loads(box.by(made["secret"], "/v1/page/me").text)["user"] == "nobody"
    mine = box.make_token()
    assert [row["name"] for row in box.live.get("/v1/tokens")["tokens"]] == ["theirs", "laptop"]
    listed = as_nobody(box.live.socket, "GET", "/v1/tokens")[1]["tokens"]
    assert [row["name"] for row in listed] == ["theirs"]
    told = as_nobody(box.live.socket, "POST", "/v1/tokens/revoke", {"ids": [mine["id"]]})
    assert told[0] == 404  # nor is it said that there is such a token
    assert box.by(mine["secret"]).status == 200
    box.live.close()


@as_root
def test_who_is_no_longer_in_the_group_is_let_in_by_no_token(start: Any, open_folder: Path) -> None:
    """The socket's mode keeps them out there; here it is looked up."""
    box = listening(start, open_folder, system=True, group="nogroup")
    _, made = as_nobody(box.live.socket, "POST", "/v1/tokens", {"name": "theirs"})
    assert box.by(made["secret"]).status == 200
    box.live.stop()
    again = listening(start, open_folder, system=True, group="daemon")
    assert again.by(made["secret"]).status == 401
    again.live.close()


def test_the_daemons_own_user_is_whom_its_token_stands_for(box: Box) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    told = json.loads(box.by(box.admin, "/v1/page/me").text)
    assert (told["user"], told["admin"]) == (name, True)
    assert SocketAccess(os.geteuid()).is_admin(os.geteuid())
