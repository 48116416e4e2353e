"""An address for other machines: by a token, encrypted, and replicas learn nothing of either."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from dovetail.api.token_text import digest_of
from gateway_process import Answer, GatewayProcess, gateway
from own_certificate import certificate, needs_openssl
from waiting import LONG_S, until

SECRET = "s" * 43
TOKEN = f"Bearer dvt_abc_{SECRET}"


def asked(own: GatewayProcess, token: str, path: str = "/headers", **headers: str) -> Answer:
    return own.ask(path, **({"authorization": token} if token else {}), **headers)


def ready(own: GatewayProcess) -> None:
    """It knows a token."""
    own.tell_tokens(abc=SECRET)
    until(lambda: asked(own, TOKEN).status == 200)


def test_without_a_token_nobody_is_answered_and_nothing_reaches_a_replica(tmp_path: Path) -> None:
    with gateway(tmp_path, notes=tmp_path / "notes", network="open") as (own, _):
        early = asked(own, TOKEN)
        assert early.status == 503
        assert early.headers["retry-after"] == "1"
        ready(own)
        own.load()
        for token in ("", "Bearer dvt_abc_wrong", f"Basic {SECRET}", f"Bearer {SECRET}"):
            refused = asked(own, token, "/?id=stranger")
            assert refused.status == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert not (tmp_path / "notes").exists()
        assert asked(own, TOKEN, "/?id=known").status == 200
        assert own.load()["arrived"] == 1  # strangers are no load: nobody is woken for them
        assert (tmp_path / "notes").read_text() == "known\n"


def test_a_replica_sees_neither_the_token_nor_the_cookies_of_our_pages(tmp_path: Path) -> None:
    with gateway(tmp_path, network="open") as (own, _):
        ready(own)
        cookie = "dovetail-ab12=secret; theme=dark; __Host-dovetail=secret; dovetail-session=secret"
        seen = asked(own, TOKEN, cookie=cookie)
        assert "theme=dark" in seen.text
        assert "secret" not in seen.text
        assert SECRET not in seen.text
        assert "set-cookie" not in seen.headers  # nor may it set one
        assert "clear-site-data" not in seen.headers  # or clear them


def test_a_replica_of_this_machines_address_sees_no_cookies_of_our_pages_either(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path) as (own, _):
        seen = own.ask("/headers", cookie="dovetail-ab12=secret", authorization="Bearer of-its-own")
        assert "secret" not in seen.text
        assert "of-its-own" in seen.text


def test_who_guesses_waits_and_keeps_out_nobody_whose_token_they_do_not_know(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path, network="open") as (own, _):
        ready(own)
        statuses = [asked(own, f"Bearer dvt_{number}_x").status for number in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        assert asked(own, TOKEN).status == 200


def test_a_token_that_is_revoked_or_over_is_refused(tmp_path: Path) -> None:
    with gateway(tmp_path, network="open") as (own, _):
        ready(own)
        own.tell_tokens(other=SECRET)
        until(lambda: asked(own, TOKEN).status == 401)
        own.say({"tokens": {"abc": (digest_of(SECRET), time.time() - 1)}})
        assert asked(own, TOKEN).status == 401


def encrypted(own: GatewayProcess, cert: Path, path: str) -> tuple[int, bytes]:
    trusting = ssl.create_default_context(cafile=str(cert))
    line = http.client.HTTPSConnection("localhost", own.port, timeout=LONG_S, context=trusting)
    with closing(line):
        line.request("GET", path, headers={"authorization": TOKEN})
        answer = line.getresponse()
        return answer.status, answer.read()


@needs_openssl
def test_with_a_certificate_answers_are_encrypted_also_large_and_streamed_ones(
    tmp_path: Path,
) -> None:
    cert, key = certificate(tmp_path)
    with gateway(tmp_path, network="open", tls=(str(cert), str(key))) as (own, _):
        own.tell_tokens(abc=SECRET)
        until(lambda: encrypted(own, cert, "/")[0] == 200)
        assert encrypted(own, cert, "/stream")[1].count(b"part") == 10
        assert len(encrypted(own, cert, "/large")[1]) == 64_000_000
        with socket.create_connection(("127.0.0.1", own.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in _all_of(plain)


def _all_of(line: socket.socket) -> bytes:
    found = b""
    line.settimeout(LONG_S)
    try:
        while part := line.recv(4096):
            found += part
    except OSError:
        pass
    return found


@needs_openssl
def test_who_does_not_shake_hands_is_cut_off_and_takes_bounded_memory(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    settings: dict[str, Any] = {"network": "open", "tls": (str(cert), str(key)), "client_s": 2}
    with gateway(tmp_path, **settings) as (own, _):
        own.tell_tokens(abc=SECRET)
        until(lambda: encrypted(own, cert, "/")[0] == 200)
        before = own.resident_mb()
        lines = [socket.create_connection(("127.0.0.1", own.port), LONG_S) for _ in range(900)]
        assert own.resident_mb() - before < 300
        for line in lines:
            assert _all_of(line) == b""  # after at most 2 s
            line.close()
        assert encrypted(own, cert, "/")[0] == 200


def test_an_address_without_a_token_keeps_no_other_out(tmp_path: Path) -> None:
    with ExitStack() as held, gateway(tmp_path, network="open", connections=80) as (own, _):
        ready(own)
        for _ in range(100):
            client = held.enter_context(socket.socket())
            client.bind(("127.0.0.2", 0))
            client.connect(("127.0.0.1", own.port))
        told = client.recv(1000).decode()  # the last of them
        assert "10 connections open from 127.0.0.2 on which no token was shown yet" in told
        assert asked(own, TOKEN, "/").status == 200


def test_who_has_shown_a_token_may_have_all_connections(tmp_path: Path) -> None:
    with ExitStack() as held, gateway(tmp_path, network="open", connections=40) as (own, _):
        ready(own)
        for _ in range(20):
            line = http.client.HTTPConnection("127.0.0.1", own.port, timeout=LONG_S)
            held.enter_context(closing(line))
            line.request("GET", "/", headers={"authorization": TOKEN})
            answer = line.getresponse()
            assert (answer.status, bool(answer.read())) == (200, True)
