"""`dovetail dashboard` as a process of its own, and a browser's requests to it, header by header."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from waiting import LONG_S


class Answer(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage


class BridgeProcess:
    """Ended with the block."""

    def __init__(
        self, home: Path | None, *words: str, environment: Mapping[str, str] | None = None
    ) -> None:
        named = [] if home is None else ["--home", str(home)]
        command = [sys.executable, "-m", "dovetail.cli.main", *named, *words]
        self.process = subprocess.Popen(
            [*command, "dashboard", "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        found = re.fullmatch(r"Open (http://127\.0\.0\.1:(\d+)(/open/\S+))\n", line)
        if found is None:
            raise AssertionError(line + self.process.communicate(timeout=LONG_S)[1])
        self.link, self.path = found[1], found[3]
        self.port = int(found[2])
        self.cookie = self._said = ""

    def __enter__(self) -> BridgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> str:
        """By Ctrl-C; what it said on the way."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self._said = self.process.communicate(timeout=LONG_S)[1]
        return self._said

    def enter(self) -> Answer:
        """By the link, as a browser does."""
        answer = self.ask("GET", self.path)
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> Answer:
        """With the cookie, and as a page of its own would: what differs is given, None leaves it out."""
        own: dict[str, Any] = {"host": f"127.0.0.1:{self.port}", "cookie": self.cookie or None}
        if method != "GET":
            own |= {"origin": f"http://127.0.0.1:{self.port}", "content-type": "application/json"}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), answer.headers)
        finally:
            connection.close()
