"""Tables, times and the merging of files with options."""

from __future__ import annotations

import time
from typing import Any

from dovetail.api.forecast_row import Expected, Span
from dovetail.cli.jobs.history import unix_time
from dovetail.cli.jobs.job_columns import expected
from dovetail.cli.jobs.logs import start_of_lines
from dovetail.cli.jobs.queue import overtakes
from dovetail.cli.reach import ListedJob
from dovetail.client.connection import query_text
from dovetail.client.job_facts import details
from dovetail.client.shell import environment
from dovetail.jobfiles.merging import merged
from dovetail.text.counting import ids_text, numbers_text
from dovetail.text.tables import Column, columns_of, cut, table
from dovetail.text.times import about, ago
from job_samples import a_job


def test_times_are_told_from_now() -> None:
    assert ago(100.0, 280.0) == "3 min ago"
    assert ago(100.0, 100.5) == "just now"
    assert about(820.0, 100.0) == "in ~12 min"
    assert about(102.2, 100.0) == "in ~2 s"
    assert about(90.0, 100.0) == "now"


def test_that_a_later_place_may_start_sooner_is_noticed() -> None:
    def waits(start: float | None, **more: Any) -> ListedJob:
        span = None if start is None else Span(start, start, None)
        return ListedJob(a_job(**more), Expected(span, None))

    assert not overtakes([waits(10.0), waits(10.5), waits(20.0), waits(None)])
    assert overtakes([waits(10.0), waits(30.0), waits(20.0)])
    assert overtakes([waits(None), waits(20.0)])
    assert not overtakes([waits(30.0, placement=[{"node": 0, "gpus": [0]}]), waits(20.0)])
    assert not overtakes([waits(None, reason="paused by its user"), waits(20.0)])


def test_a_day_begins_at_midnight() -> None:
    now, midnight = time.localtime(), unix_time("today", "--since")
    assert midnight is not None
    assert time.localtime(midnight)[:6] == (*now[:3], 0, 0, 0)
    yesterday = unix_time("Yesterday", "--since")
    assert yesterday is not None
    assert midnight - yesterday in (82_800.0, 86_400.0, 90_000.0)


def test_a_table_gives_room_to_what_cannot_shrink() -> None:
    columns: list[Column[dict[str, str]]] = [
        Column("ID", lambda row: row["id"]),
        Column("NAME", lambda row: row["name"], least=5),
        Column("NOTE", lambda row: row["note"], least=5),
    ]
    rows = [{"id": "1234567", "name": "n" * 50, "note": "short"}]
    assert table(columns, rows, room=30) == [
        "ID       NAME            NOTE",
        "1234567  nnnnnnnnnnnnn…  short",
    ]


def test_wide_characters_count_twice() -> None:
    assert columns_of("训练") == 4
    assert cut("训练模型", 5) == "训练…"
    assert cut("abc", 0) == ""


def test_ids_and_numbers_are_told_shortly() -> None:
    assert ids_text(["7"]) == "job 7"
    assert ids_text(["7", "8"]) == "jobs 7 and 8"
    assert ids_text([str(i) for i in range(20)]) == "20 jobs: 0, 1, 2, 3, 4, …, 19"
    assert numbers_text([3, 0, 1, 2, 6]) == "0-3,6"


def test_a_running_job_is_expected_to_end_and_a_waiting_one_to_start() -> None:
    start, end = time.time() + 600.4, time.time() + 7200.4
    known = Expected(Span(start, start, start), Span(end, end, None))
    assert expected(ListedJob(a_job(), known)) == "start in ~10 min"
    running = a_job(placement=[{"node": 0, "gpus": [0]}])
    assert expected(ListedJob(running, known)) == "end in ~2 h"
    assert expected(ListedJob(running, Expected(None, None))) == "end unknown"
    guessed = Expected(None, Span(end, end, None, guess=True))
    assert expected(ListedJob(running, guessed)) == "end in ~2 h ?"
    (told,) = [line for line in details(running, guessed, time.time()) if "expected end" in line]
    assert told.endswith("in ~2 h; a guess: it rests on a job of which none like it has finished")
    assert expected(ListedJob(a_job())) == ""


def test_the_last_lines_of_a_log() -> None:
    raw = b"a\nb\nc\n"
    assert [raw[start_of_lines(raw, n) :] for n in (0, 1, 2, 3, 9)] == [
        *(b"", b"c\n", b"b\nc\n"),
        *(raw, raw),
    ]
    assert start_of_lines(b"a\nb", 1) == 2


def test_questions_are_spelled_for_http() -> None:
    assert query_text({"name": "a b/ü&*", "user": None, "follow": True}) == (
        "?name=a%20b%2F%C3%BC%26%2A&follow=true"
    )


def test_a_kind_and_number_in_a_file_give_way_to_options() -> None:
    file = {"run": "x", "resources": {"accelerators": "H100:4", "cpus": "8"}}
    assert merged(file, {"resources": {"gpus": 2}})["resources"] == {
        "any_of": ["H100"],
        "cpus": "8",
        "gpus": 2,
    }
    assert merged(file, {"name": "y"})["resources"] == file["resources"]


def test_a_job_does_not_inherit_what_another_job_is() -> None:
    own = {"PATH": "/bin", "DOVETAIL_JOB_ID": "3", "DOVETAIL_HOME": "/h"}
    assert environment(own) == {"PATH": "/bin", "DOVETAIL_HOME": "/h"}
