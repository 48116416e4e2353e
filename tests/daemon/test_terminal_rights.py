"""Who may look into a job's terminal, type there and run commands beside it: its user, and
administrators; and nobody whose account or group has gone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.daemon.history.submission_records import SubmissionRecord
from dovetail.daemon.users import still_allowed as module
from dovetail.daemon.users import system_accounts as accounts
from dovetail.daemon.users.still_allowed import StillAllowed
from dovetail.daemon.users.system_accounts import Person
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.shortage import Short
from two_users import NOBODY, as_nobody, as_root, calls_as_nobody
from typed_box import Box
from waiting import until

SHELL = {"run": "exec sh", "preemptible": False}


@pytest.fixture
def shared(open_folder: Path) -> Iterator[Box]:
    box = Box(open_folder / "home")
    box.well("up", "--system", "--group", "nogroup", "--slots", 2)
    yield box
    box("down", "--cancel")


def terminal_of_nobody(box: Box, linger_s: float = 600.0) -> str:
    sent = {
        "spec": SHELL,
        "workdir": "/",
        "environment": {"PATH": "/bin:/usr/bin", "TERM": "dumb"},
        "terminal": {"rows": 24, "columns": 80, "linger_s": linger_s},
    }
    path = box.home / "dovetail.sock"
    status, answer = as_nobody(path, "POST", "/v1/jobs", {"jobs": [sent]})
    assert status == 201, answer
    box.in_phase(str(answer["ids"][0]), "running")
    return str(answer["ids"][0])


@as_root
def test_another_user_neither_sees_nor_types_nor_runs_anything(shared: Box) -> None:
    job = shared.submit("--", "sleep", "600")
    shared.in_phase(job, "running")
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/jobs/{job}/console", None),
        ("POST", f"/v1/jobs/{job}/console/input?session=x", None),
        ("POST", f"/v1/jobs/{job}/console/size", {"rows": 5, "columns": 5}),
        ("POST", f"/v1/jobs/{job}/exec", {"argv": ["id"]}),
        ("GET", f"/v1/jobs/{job}/exec/1", None),
        ("POST", f"/v1/jobs/{job}/exec/1/signal", {"signal": 9}),
    ]
    for (_, path, _), (status, answer) in zip(
        calls, calls_as_nobody(shared.home / "dovetail.sock", calls), strict=True
    ):
        assert status == 403, (path, answer)
        assert "only root or an administrator may" in answer
    door = next((shared.home / "runs" / job).glob("*/door"))
    connect = (
        "import os,socket,sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        "socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    )
    tried = subprocess.run(
        ["python3", "-c", connect, str(door)], capture_output=True, text=True, check=False
    )
    assert "PermissionError" in tried.stderr or "AF_UNIX path too long" in tried.stderr


@as_root
def test_a_shell_and_what_runs_beside_it_have_its_users_rights_and_no_more(shared: Box) -> None:
    job = terminal_of_nobody(shared)
    path = shared.home / "dovetail.sock"
    asked = {"argv": ["sh", "-c", "id -u; id -G; cat /etc/shadow; exit 4"]}
    status, answer = as_nobody(path, "POST", f"/v1/jobs/{job}/exec", asked)
    assert status == 201, answer
    page = f"/v1/jobs/{job}/exec/{answer['console']}"
    ended = until(lambda: (told := as_nobody(path, "GET", page)[1])["over"] and told)
    assert ended["code"] == 4
    said = shared("exec", job, "--", "id", "-u")  # an administrator gets the user's rights, too
    assert said.out == f"{NOBODY}\n"
    as_their_shell = shared("exec", job, "--", "sh", "-c", "cat /etc/shadow")
    assert as_their_shell.code == 1
    pid = ProcessRun(next((shared.home / "runs" / job).glob("[0-9]*"))).main_pid()
    assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}" in Path(f"/proc/{pid}/status").read_text()


@as_root
def test_a_shell_that_nobody_has_looked_at_ends_also_after_a_restart(shared: Box) -> None:
    job = terminal_of_nobody(shared, linger_s=1.0)
    shared.well("down")
    shared.well("up", "--system")
    row = shared.until(job, lambda row: row["ended_at"] is not None)
    assert row["reason"] == "its terminal was gone for 1 s"


class People:
    """The list of users, as it changes."""

    def __init__(self) -> None:
        self.who: Person | None = Person(1000, "ann", 1000)
        self.groups: tuple[int, ...] = (1000, 77)
        self.is_away = False

    def person(self, uid: int) -> Person | None:
        if self.is_away:
            raise Short("the directory does not answer")
        return self.who

    def groups_of(self, who: Person) -> tuple[int, ...]:
        return self.groups


def test_a_shell_does_not_outlive_its_users_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    people, record = People(), SubmissionRecord(uid=1000, user="ann")
    now = [0.0]
    monkeypatch.setattr(accounts, "person", people.person)
    monkeypatch.setattr(accounts, "groups_of", people.groups_of)
    monkeypatch.setattr(accounts, "group_number", lambda name: 77)
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def why() -> str:
        now[0] += 60.0
        return allowed.why_not(record)

    allowed = StillAllowed("dovetail", 0)
    assert why() == ""
    people.groups = (1000,)
    assert why() == "ann is not in the group dovetail any more"
    people.groups = (1000, 77)
    people.is_away = True
    assert why() == ""
    people.is_away, people.who = False, None
    assert [why() for _ in range(5)] == [""] * 5  # a directory that is away says so, too
    assert why() == "user ann is not known to the system any more"
    people.who = Person(1000, "bob", 1000)
    assert why() == "user 1000, who was ann, is bob now"
    strangers = StillAllowed("dovetail", 0)
    people.who, people.groups = Person(1000, "ann", 1000), (1000,)
    assert strangers.why_not(record) == ""  # got in in another way
    assert strangers.why_not(SubmissionRecord(uid=0, user="root")) == ""
