"""What is noted of launches outlives a controller, and many are made sure of at once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes import launch_notes
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.launch_notes import GangNote, LaunchNotes
from dovetail.worlds.kubernetes.shelf import PodShelf

NOTE = GangNote("team-a", ("node1", "node2"), (1, 3), log_from=7)
RUN = RunId(JobId("7"), 1)


def _runs(count: int) -> list[RunId]:
    return [RunId(JobId(str(number)), 1) for number in range(count)]


def test_the_next_controller_finds_what_was_noted_last(tmp_path: Path) -> None:
    notes = LaunchNotes(tmp_path / "launches")
    notes.keep(RUN, NOTE)
    notes.keep(RunId(JobId("7"), 2), NOTE)
    notes.keep(RUN, replace(NOTE, is_made=True))
    found = LaunchNotes(tmp_path / "launches")
    assert found.find(RUN) == replace(NOTE, is_made=True)
    assert found.live() == {"7": 2}


def test_a_job_that_is_over_is_live_no_more_also_for_the_next_controller(tmp_path: Path) -> None:
    notes = LaunchNotes(tmp_path / "launches")
    notes.keep(RUN, NOTE)
    assert notes.drop(JobId("7")) == {1: NOTE}
    assert not notes.has(JobId("7"))
    assert LaunchNotes(tmp_path / "launches").live() == {}


def test_two_hundred_launches_at_once_wait_for_the_disk_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def slowly(fd: int) -> None:
        waits.append(fd)
        sleep(0.02)

    monkeypatch.setattr(os, "fdatasync", slowly)
    notes = LaunchNotes(tmp_path / "launches")
    kept = {run: notes.keep(run, NOTE) for run in _runs(200)}

    def make(run: RunId) -> None:
        notes.make_sure(kept[run])
        notes.keep(run, replace(NOTE, is_made=True))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, kept))
    assert 1 <= len(waits) <= 2


def test_who_asks_is_not_answered_before_the_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_it, is_sure = threading.Event(), threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda fd: has_it.wait(30))
    notes = LaunchNotes(tmp_path / "launches")
    notes.keep(RUN, NOTE)
    number = notes.keep(RUN, NOTE)

    def ask() -> None:
        notes.make_sure(number)
        is_sure.set()

    threading.Thread(target=ask).start()
    assert not is_sure.wait(0.2)
    has_it.set()
    assert is_sure.wait(30)


def test_a_line_that_a_loss_of_power_has_torn_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "launches"
    LaunchNotes(path).keep(RUN, NOTE)
    with path.open("ab") as file:
        file.write(b'{"job": "8", "run": 1, "no')
    found = LaunchNotes(path)
    assert found.live() == {"7": 1}
    found.keep(RunId(JobId("9"), 1), NOTE)
    assert LaunchNotes(path).live() == {"7": 1, "9": 1}


def test_after_a_full_disk_nothing_that_was_kept_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "launches"
    notes, write = LaunchNotes(path), os.write
    notes.keep(RUN, NOTE)
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        with pytest.raises(OSError, match="full"):
            notes.keep(RunId(JobId("8"), 1), NOTE)
    notes.make_sure(notes.keep(RunId(JobId("9"), 1), NOTE))
    assert LaunchNotes(path).find(RUN) == NOTE
    assert LaunchNotes(path).find(RunId(JobId("9"), 1)) == NOTE


def test_the_file_does_not_grow_with_what_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_notes, "_FEWEST_BYTES", 4096)
    path = tmp_path / "launches"
    notes = LaunchNotes(path)
    notes.keep(RUN, NOTE)
    for run in _runs(500):
        notes.keep(run._replace(number=2), NOTE)
        if run.job_id != "7":
            notes.drop(run.job_id)
    assert path.stat().st_size < 10_000
    assert LaunchNotes(path).live() == {"7": 2}


def test_who_only_looks_leaves_the_file_to_whoever_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "launches"
    notes = LaunchNotes(path)
    notes.keep(RUN, NOTE)
    looks = LaunchNotes(path)
    assert looks.has(JobId("7"))
    assert looks.drop(JobId("8")) == {}
    notes.keep(RunId(JobId("9"), 1), NOTE)
    assert LaunchNotes(path).live() == {"7": 1, "9": 1}


def test_a_pod_that_comes_when_its_job_is_over_is_still_known(tmp_path: Path) -> None:
    shelf = PodShelf(tmp_path / "runs", tmp_path / "environments", tmp_path / "socket")
    shelf.launches.keep(RUN, NOTE)
    shelf.forget_live(JobId("7"))
    assert Gang(RUN, shelf.launch(RUN), shelf.launches).note == NOTE
