"""Replays of the past under other policies: each a process of its own, nice to all others, in a folder
that is removed when another takes its place."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import mkdtemp
from threading import Lock
from typing import Final, final

from dovetail.api.page_row import ReplayTold
from dovetail.core.entries import NodeJoined
from dovetail.core.errors import BadInput
from dovetail.core.journal import encode
from dovetail.core.model import Node
from dovetail.daemon.active_policy import PREDICTOR, make
from dovetail.daemon.history import as_trace
from dovetail.daemon.history.usage import WantedJobs
from dovetail.daemon.refusals import Conflict, NotFound
from dovetail.daemon.service import Service
from dovetail.daemon.users.callers import Caller
from dovetail.store import Filter

_PROGRAM = "dovetail.library.replaying"
_ASKED, _TRACE, _PROGRESS, _REPORT = "asked.json", "trace.jsonl", "progress.json", "report.html"
_MOST_POLICIES = 6
_AT_ONCE = 2  # of all users

_NONE: Final = ReplayTold(part=0.0, state="none", text="", jobs=0, policies=[])


@dataclass(slots=True)
class _Replay:
    user: str
    folder: Path
    process: Popen[bytes]
    jobs: int
    policies: list[str] = field(default_factory=list)


@final
class Replays:
    """The last one of each user."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._lock: Final = Lock()
        self._kept: Final[dict[str, _Replay]] = {}

    def begin(
        self, only: Filter, policies: Sequence[str], nodes: Sequence[Node], caller: Caller
    ) -> ReplayTold:
        if not 1 <= len(policies) <= _MOST_POLICIES:
            raise BadInput(f"policies: name one to {_MOST_POLICIES}")
        for policy in policies:
            make(policy)
        text = as_trace.trace(self._service, WantedJobs(only), "jsonl")
        if not text.strip():
            raise NotFound("no job has run in that time; there is nothing to replay")
        with self._lock:
            self._check_room(caller)
            self._forget(caller.name)
            replay = _started(caller.name, text, policies, nodes)
            self._kept[caller.name] = replay
        return _told(replay)

    def told(self, caller: Caller) -> ReplayTold:
        replay = self._kept.get(caller.name)
        return _NONE if replay is None else _told(replay)

    def report(self, caller: Caller) -> str:
        try:
            return (self._of(caller).folder / _REPORT).read_text("utf-8")
        except OSError:
            raise NotFound("the replay has no report yet") from None

    def cancel(self, caller: Caller) -> None:
        with self._lock:
            self._forget(caller.name)

    def close(self) -> None:
        with self._lock:
            for user in list(self._kept):
                self._forget(user)

    def _of(self, caller: Caller) -> _Replay:
        found = self._kept.get(caller.name)
        if found is None:
            raise NotFound("you have asked for no replay")
        return found

    def _check_room(self, caller: Caller) -> None:
        others = [own for own in self._kept.values() if own.user != caller.name]
        if sum(own.process.poll() is None for own in others) >= _AT_ONCE:
            raise Conflict("others' replays are running; try again when they are done")

    def _forget(self, user: str) -> None:
        replay = self._kept.pop(user, None)
        if replay is not None:
            replay.process.kill()
            replay.process.wait()
            shutil.rmtree(replay.folder, ignore_errors=True)


def _started(user: str, trace: str, policies: Sequence[str], nodes: Sequence[Node]) -> _Replay:
    folder = Path(mkdtemp(prefix="dovetail-replay-"))
    (folder / _TRACE).write_text(trace)
    asked = {
        "policies": list(policies),
        "predictor": PREDICTOR,
        "nodes": [encode(NodeJoined(0.0, node), 0.0) for node in nodes],
        "title": "The past under other policies",
    }
    (folder / _ASKED).write_text(json.dumps(asked))
    command = [sys.executable, "-P", "-m", _PROGRAM, str(folder)]
    with open(folder / "said", "wb") as said:
        process = Popen(command, stdin=DEVNULL, stdout=said, stderr=said, start_new_session=True)
    return _Replay(user, folder, process, trace.count("\n"), list(policies))


def _told(replay: _Replay) -> ReplayTold:
    try:
        told = json.loads((replay.folder / _PROGRESS).read_text())
    except (OSError, ValueError):
        told = {"part": 0.0, "state": "running", "text": "reading the history"}
    if told["state"] == "running" and replay.process.poll() is not None:
        told = {"part": 1.0, "state": "failed", "text": "the simulation ended before its time"}
    return ReplayTold(jobs=replay.jobs, policies=replay.policies, **told)
