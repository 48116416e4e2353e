"""Something that answers like a daemon with studies, from answers made up beforehand."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from dovetail.api.study_row import StudiesTold, StudyOpen, StudyPage
from dovetail.api.wire import text_of
from dovetail.daemon.studies.rows import row_in
from typed_box import Box


class StudyDaemon:
    """Tells of one study, each time as the next of `scenes` has it; the last one for ever."""

    def __init__(self, *scenes: StudyPage) -> None:
        self.scenes = list(scenes)
        self.asked: list[tuple[str, str, Any]] = []
        self.more = 0  # studies that a list leaves out

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((method, path, body))
        path = path.partition("?")[0]
        if not self.scenes:
            return (200, {"studies": [], "more": 0}) if path == "/v1/studies" else _unknown(path)
        study = self.scenes[0]
        known = (f"/v1/studies/{study.name}", f"/v1/studies/{study.id}")
        if method == "POST" and path == "/v1/studies":
            jobs = [trial.job for trial in study.trials]
            return 201, StudyOpen(
                study=study.id, name=study.name, planned=study.trial_count, trials=jobs
            )
        if method == "GET" and path == "/v1/studies":
            return 200, StudiesTold(studies=[row_in(self._next())], more=self.more)
        if method == "GET" and path in known:
            return 200, self._next()
        if method == "POST" and path.rpartition("/")[0] in known:
            return 200, row_in(study)
        return _unknown(path)

    def _next(self) -> StudyPage:
        return self.scenes.pop(0) if len(self.scenes) > 1 else self.scenes[0]


def _unknown(path: str) -> tuple[int, Any]:
    name = path.split("/")[3]
    return 404, {"error": f"there is no study {name!r}; dovetail study list names those there are"}


@contextmanager
def serving(daemon: StudyDaemon, home: Path) -> Iterator[Box]:
    """Whoever types commands in the box speaks to it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = daemon.answer(self.command, self.path, json.loads(raw or "null"))
            told = text_of(answer[1]).encode()
            self.send_response(answer[0])
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST = _reply  # noqa: N815

        def address_string(self) -> str:
            return "here"

        def log_message(self, *_: object) -> None:
            pass

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    home.mkdir(exist_ok=True)
    with Server(str(home / "dovetail.sock"), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield Box(home)
        server.shutdown()
