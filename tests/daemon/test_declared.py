"""Jobs and studies that are declared in the world are taken on once, followed, and cancelled when they
are withdrawn."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from declared_board import Board
from dovetail.core.entries import Submitted
from dovetail.daemon.declared import attending
from dovetail.daemon.service import Service
from dovetail.worlds.declared import JOB, SERVICE, STUDY
from live_box import ME, Box, box
from waiting import until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again now and then is tried at once."""
    monkeypatch.setattr(attending, "_TRY_AGAIN_S", 0.1)


def services(here: Box) -> list[str]:
    return [own.id for own in here.daemon.services.all(ME).services]


def job(tmp_path: Path, run: str = "sleep 60", **fields: Any) -> dict[str, Any]:
    return {"run": run, "workdir": str(tmp_path), **fields}


def submitted(here: Box) -> list[str]:
    return [entry.job.id for entry in here.journal() if isinstance(entry, Submitted)]


def test_a_declared_job_is_of_its_tenant_and_is_told_its_life(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("train", job(tmp_path, "exit 3"))
        until(lambda: board.status("train").phase == "failed")
        status = board.status("train")
        row = here.job(status.id)
    assert (row["name"], row["tenant"], row["user"]) == ("train", "team-a", "team-a")
    assert (status.exit_code, status.why) == (3, "exit code 3")
    assert status.started_at is not None
    assert status.ended_at is not None


def test_one_that_waits_is_told_why_and_one_that_runs_where(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world(), slots=1):
        board.apply("first", job(tmp_path, time_limit="10m"))
        until(lambda: board.status("first").phase == "running")
        board.apply("second", job(tmp_path))
        until(lambda: board.status("second").why)
        assert board.status("first").placement.endswith(":0")
        assert "GPU" in board.status("second").why or "room" in board.status("second").why
        until(lambda: board.status("second").expected_start is not None)


def test_one_that_is_withdrawn_is_cancelled(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("train", job(tmp_path))
        until(lambda: board.status("train").phase == "running")
        board.delete("train")
        here.wait_until(board.status("train").id, "cancelled")


def test_it_is_taken_on_once_however_often_the_daemon_ends(tmp_path: Path) -> None:
    board = Board()
    board.apply("train", job(tmp_path))
    first = Box(tmp_path / "box", board.world())
    until(lambda: board.status("train").phase == "running")
    first.leave()
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("other", job(tmp_path, "true"))
        until(lambda: board.status("other").phase == "finished")
        assert len(submitted(here)) == 2


def test_one_whose_answer_came_too_late_is_not_taken_on_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was submitted, and who asked was told that it was not."""
    from dovetail.daemon.refusals import Unavailable

    board, usual, calls = Board(), Service.submit, []

    def late(self: Service, *given: Any) -> list[str]:
        calls.append(usual(self, *given))
        if len(calls) == 1:
            raise Unavailable("the daemon is busy")
        return calls[-1]

    monkeypatch.setattr(Service, "submit", late)
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("train", job(tmp_path))
        until(lambda: board.status("train").phase == "running")
        assert calls[0] == calls[1] == submitted(here)


def test_one_that_was_withdrawn_while_no_daemon_ran_is_cancelled_by_the_next(
    tmp_path: Path,
) -> None:
    board = Board()
    board.apply("train", job(tmp_path))
    first = Box(tmp_path / "box", board.world())
    until(lambda: board.status("train").phase == "running")
    first.leave()
    board.delete("train")
    with box(tmp_path / "box", world=board.world()) as here:
        here.wait_until(board.status("train").id, "cancelled")


def test_what_is_wrong_is_refused_in_words_and_taken_on_when_it_is_mended(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()):
        board.apply("train", job(tmp_path, priority="high"))
        until(lambda: board.status("train").phase == "refused")
        assert "priority" in board.status("train").why
        board.apply("train", job(tmp_path, "true"))
        until(lambda: board.status("train").phase == "finished")


def test_a_priority_may_be_edited_and_nothing_else(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("train", job(tmp_path))
        until(lambda: board.status("train").phase == "running")
        board.apply("train", job(tmp_path, priority=7))
        until(lambda: here.job(board.status("train").id)["priority"] == 7)
        board.apply("train", job(tmp_path, "sleep 61", priority=7))
        until(lambda: board.status("train").trouble)
        assert board.status("train").trouble == (
            "spec.run changed after it was taken on: it goes on as it was; delete it and apply it "
            "again to have it so"
        )
        assert board.status("train").phase == "running"


def test_no_tenant_can_name_another_or_come_after_its_jobs(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()):
        board.apply("theirs", job(tmp_path), tenant="team-b")
        until(lambda: board.status("theirs", "team-b").phase == "running")
        board.apply("posing", job(tmp_path, tenant="team-b"))
        number = board.status("theirs", "team-b").id
        until(lambda: board.status("posing").phase == "refused")
        assert "leave it out" in board.status("posing").why
        for way in ("after", "after_any", "after_failed"):
            board.apply(way, {**job(tmp_path), way: [number]})
            until(partial(_is_refused, board, way))
            assert board.status(way).why.startswith(f"there is no job {number},")


def _is_refused(board: Board, name: str) -> bool:
    return board.status(name).phase == "refused"


@pytest.mark.parametrize("kind", [JOB, STUDY])
@pytest.mark.parametrize("way", ["http://10.0.0.1/admin", "mail:all@example.org"])
def test_nobody_is_written_to_because_an_object_names_them(
    tmp_path: Path, kind: str, way: str
) -> None:
    """It would be the daemon's own network, and its own mail server."""
    board = Board()
    with box(tmp_path / "box", world=board.world()):
        board.apply("loud", job(tmp_path, "true", notify=["desktop", way]), kind)
        until(lambda: board.status("loud").phase == "refused")
        assert f"notify: '{way}' is an address" in board.status("loud").why


def test_an_array_is_told_by_how_many_are_in_which_phase(tmp_path: Path) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world()):
        board.apply("many", job(tmp_path, "exit $((DOVETAIL_ARRAY_INDEX / 2))", array="0-2"))
        until(lambda: sum(board.status("many").members.values()) == 3)
        until(lambda: board.status("many").members == {"finished": 2, "failed": 1})
        assert board.status("many").phase == "failed"


def test_a_declared_study_is_opened_told_and_cancelled(tmp_path: Path) -> None:
    board = Board()
    study = {
        "run": 'for i in 1 2 3; do echo "{{\\"step\\": $i, \\"loss\\": {x}}}"; sleep 0.1; done',
        "workdir": str(tmp_path),
        "space": {"x": {"float": [0, 1]}},
        "metric": "loss",
        "steps": 3,
        "trials": 2,
    }
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("digits", study, STUDY)
        until(lambda: board.status("digits", "team-a").phase == "closed")
        trials = board.status("digits").trials
        assert trials is not None
        assert (trials.planned, trials.by_state["done"]) == (2, 2)
        assert trials.best is not None
        long = {**study, "run": "sleep 60 # {x}"}
        board.apply("long", long, STUDY)
        until(lambda: board.status("long").phase == "open")
        board.delete("long")
        until(lambda: here.daemon.studies.all(ME).studies[0].state != "open")


def service(**fields: Any) -> dict[str, Any]:
    words = [sys.executable, "-m", "http.server", "{port}", "--bind", "{host}"]
    usual = {"command": words, "health": "/", "workdir": "/usr"}
    return {**usual, "envs": {"PATH": os.environ["PATH"]}, **fields}


def test_a_declared_service_is_told_its_address_follows_its_replicas_and_ends_with_its_object(
    tmp_path: Path,
) -> None:
    board = Board()
    with box(tmp_path / "box", world=board.world(), slots=2) as here:
        board.apply("answers", service(), SERVICE)
        until(lambda: board.status("answers").phase == "serving")
        status = board.status("answers")
        assert status.members == {"ready": 1}
        assert status.address.startswith("http://127.0.0.1:")
        board.apply("answers", service(replicas=2), SERVICE)
        until(lambda: board.status("answers").members == {"ready": 2})
        board.apply("answers", service(replicas=2, health="/else"), SERVICE)
        until(lambda: "spec.health changed" in board.status("answers").trouble)
        board.delete("answers")
        until(lambda: not services(here))


def test_a_declared_service_is_taken_on_once_and_one_that_cannot_be_is_refused_in_words(
    tmp_path: Path,
) -> None:
    board = Board()
    board.apply("answers", service(), SERVICE)
    first = Box(tmp_path / "box", board.world())
    until(lambda: board.status("answers").phase == "serving")
    known = board.status("answers").id
    first.leave()
    with box(tmp_path / "box", world=board.world()) as here:
        board.apply("wrong", service(replicas={"min": 2, "max": 1}), SERVICE)
        until(lambda: board.status("wrong").phase == "refused")
        assert "min 2 is more than max 1" in board.status("wrong").why
        assert services(here) == [known]
        board.delete("answers")
        until(lambda: not services(here))
