"""One user cannot fill the disk for all: what is reported and handed in is measured where it lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import LimitSet, Reported
from dovetail.core.model import Limit
from dovetail.core.state import State
from dovetail.daemon import stdin
from dovetail.daemon.refusals import NotAllowed
from dovetail.daemon.submissions import Submission
from dovetail.daemon.users.limits import Intake, Limits
from dovetail.jobfiles import arrays
from dovetail.jobfiles.job_model import read
from dovetail.worlds.local.folders import StdinRing
from live_box import ME, Box, box

MB = 1_000_000


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path) as made:
        yield made


def bytes_in(folder: Path) -> int:
    """Of all files there; the reserve for a full disk is not ours to count."""
    files = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    return sum(file.stat().st_size for file in files if "reserve" not in file.name)


def test_reports_without_end_do_not_grow_the_journal_without_end(here: Box) -> None:
    script = """import os
line = '{"step": %d, "loss": 0.5, "' + "x" * 150 + '": 1.0}\\n'
with open(os.environ["DOVETAIL_REPORT"], "w") as file:
    file.writelines(line % step for step in range(50_000))
"""
    before = here.daemon.store.path.stat().st_size
    job = here.submit(["python3", "-c", script])
    (row,) = here.wait(job)
    assert (row["phase"], row["last_report"]["step"]) == ("finished", 49_999)
    reported = [entry for entry in here.journal() if isinstance(entry, Reported)]
    assert reported[0].step == 0
    assert len(reported) + row["last_report"]["left_out"] == 50_000
    grown = (
        bytes_in(here.home.state)
        - before
        - (here.home.folder(job) / "reports.jsonl").stat().st_size
    )
    assert grown < 12 * MB


def test_what_an_array_has_in_common_is_kept_once(here: Box) -> None:
    """In a request of about 1 MB: a script, a command and variables."""
    before = bytes_in(here.home.state)
    secret = {f"SECRET{i}": "s" * 100_000 for i in range(3)}
    ids = here.service.submit([_array(f"true # {'x' * 700_000}", secret)], ME)
    assert len(ids) == 200
    written = bytes_in(here.home.state) - before
    assert written < 5 * MB, f"{written / MB:.1f} MB"
    here.service.cancel(ids[2:], ME)
    assert {row["phase"] for row in here.wait(*ids[:2])} == {"finished"}
    assert here.job(ids[1])["spec"]["run"].startswith("true # xx")
    here.wait_for(lambda: not list(here.home.environments.iterdir()))


def _array(run: str, environment: dict[str, str]):  # type: ignore[no-untyped-def]
    from dovetail.daemon.submissions import Submission
    from dovetail.jobfiles.job_model import read

    given = {"PATH": os.environ["PATH"], **environment}
    return Submission(read({"run": run, "array": "0-199"}), given, "/")


def test_members_of_an_array_know_their_environment_after_a_restart(tmp_path: Path) -> None:
    first = Box(tmp_path, slots=1)
    blocker = first.submit("sleep 600")
    first.wait_until(blocker, "running")
    ids = first.service.submit([_array("echo $TOKEN $DOVETAIL_ARRAY_INDEX", {"TOKEN": "t"})], ME)
    first.service.cancel(ids[2:], ME)
    first.leave()
    with box(tmp_path, slots=1) as again:
        again.service.cancel([blocker], ME)
        again.wait(*ids[:2])
        assert [again.log(own) for own in ids[:2]] == ["t 0\n", "t 1\n"]
        again.wait_for(lambda: not list(again.home.environments.iterdir()))


def test_bytes_a_day_are_allowed_and_forgotten_evenly() -> None:
    state = State()
    state.record(LimitSet(0.0, Limit("ann", megabytes=10.0)))
    intake = Intake(Limits(shared=True, admins="gpu-admins"))
    intake.charge("ann", 8 * MB, state, 0.0)
    with pytest.raises(
        NotAllowed, match=r"may hand in 10 MB a day; 8.0 MB are used and this takes 4"
    ):
        intake.charge("ann", 4 * MB, state, 0.0)
    with pytest.raises(NotAllowed, match="a member of group gpu-admins"):
        intake.charge("ann", 4 * MB, state, 1.0)
    intake.charge("bob", 4 * MB, state, 0.0)
    intake.charge("ann", 4 * MB, state, 86400 / 4)
    Intake(Limits(shared=False)).charge("ann", 1e12, state, 0.0)


def taken(*sent: Any) -> tuple[int, bool]:
    answer = stdin.take(*sent)
    return answer.taken, answer.open


def test_what_is_sent_to_jobs_that_wait_is_bounded_for_all_of_a_user_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand may wait, and four megabytes each would fill the disk for everybody."""
    monkeypatch.setattr(stdin, "ALL_WAITING_BYTES", 10)
    first, second, third, fourth = (StdinRing(tmp_path / name) for name in "1234")
    assert taken(first, 0, b"1234567", False, False, "ann") == (7, True)
    assert taken(second, 0, b"1234567", True, False, "ann") == (3, True)
    assert taken(third, 0, b"1234567", True, False, "ann") == (0, True)
    assert taken(third, 0, b"1234567", True, False, "bob") == (7, True)
    assert taken(second, 3, b"4567", True, True, "ann") == (7, True)  # it runs by now
    first.path.unlink()  # and this one has ended
    assert taken(fourth, 0, b"1234567", True, False, "ann") == (7, True)


def test_the_indices_of_an_array_are_read_once_and_not_by_each_of_its_members(
    here: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else ten thousand of them in a list keep everybody waiting for minutes."""
    asked: list[str] = []
    read_range = arrays._range

    def counted(piece: str, room: int) -> range:
        asked.append(piece)
        return read_range(piece, room)

    monkeypatch.setattr(arrays, "_range", counted)
    indices = ",".join(map(str, range(7, 307)))
    spec = read({"run": "true", "slurm": True, "array": indices})
    here.service.submit([Submission(spec, {}, "/")], ME)
    assert len(asked) == 300
