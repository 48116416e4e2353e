"""What an open page is told: soon, at most four times a second, and what its viewer may see."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from dovetail.daemon.http.page_headers import PAGE_POLICY
from two_users import as_root, calls_as_nobody
from waiting import LONG_S


class Page:
    """A stream, read update by update."""

    def __init__(self, live: Any, query: str = "") -> None:
        self._connection: http.client.HTTPConnection = live.connection()
        self._connection.request("GET", f"/v1/page/stream{query}")
        self.answer = self._connection.getresponse()
        while self.answer.readline().strip():  # it is open once it has greeted
            pass

    def updates(self) -> Iterator[Any]:
        until = monotonic() + LONG_S
        while monotonic() < until:
            line = self.answer.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def until_job(self, job_id: str, phase: str) -> list[Any]:
        """All updates up to the one that tells so."""
        seen = []
        for update in self.updates():
            seen.append(update)
            if any((row["id"], row["phase"]) == (job_id, phase) for row in update["jobs"]):
                return seen
        raise AssertionError(f"job {job_id} was never {phase}: {seen}")

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def page(live: Any) -> Iterator[Page]:
    found = Page(live)
    yield found
    found.close()


def test_a_page_sees_a_job_come_run_and_end_and_its_gpu_change_hands(live: Any, page: Page) -> None:
    job_id = live.submit("sleep 0.4")
    seen = page.until_job(job_id, "finished")
    phases = [row["phase"] for update in seen for row in update["jobs"]]
    assert phases[-2:] == ["running", "finished"]
    holders = [
        [own["job"] for node in update["nodes"] for gpu in node["gpus"] for own in gpu["jobs"]]
        for update in seen
        if update["nodes"]
    ]
    assert [job_id] in holders
    assert holders[-1] == []
    assert seen[-1]["counts"] == {"running": 0, "waiting": 0}
    assert all(update["complete"] for update in seen)


def test_however_much_happens_there_are_at_most_four_updates_a_second(
    live: Any, page: Page
) -> None:
    ids = [live.submit("true") for _ in range(30)]
    told_at = [update["at"] for update in page.until_job(ids[-1], "finished")]
    assert len(told_at) > 2
    assert min(b - a for a, b in pairwise(told_at)) > 0.24


def test_a_page_that_comes_back_is_told_what_it_missed_or_to_begin_anew(
    live: Any, page: Page
) -> None:
    first = live.submit("true")
    seen = page.until_job(first, "finished")
    second = live.submit("true")
    page.until_job(second, "finished")
    back = Page(live, f"?after={seen[-1]['seq']}")
    missed = next(back.updates())
    assert (missed["complete"], [row["id"] for row in missed["jobs"]]) == (True, [second])
    back.close()
    old = Page(live, "?after=0")
    assert next(old.updates())["complete"] is False
    old.close()


def test_pages_that_come_back_at_many_places_leave_nothing_in_memory(live: Any, page: Page) -> None:
    many = {"spec": {"run": "true", "name": "n" * 190, "hold": True, "array": "0-289"}}
    last = live.ask("POST", "/v1/jobs", {"jobs": [{**many, "environment": {}, "workdir": "/"}]})[
        "ids"
    ][-1]
    page.until_job(last, "queued")
    for place in range(560):
        if place == 200:  # what Python has not yet given back is there by now
            before = _resident_mb(live)
        back = Page(live, f"?after={place}")
        assert any(row["id"] == last for row in next(back.updates())["jobs"])
        back.close()
    assert _resident_mb(live) - before < 60


def _resident_mb(live: Any) -> float:
    lines = Path(f"/proc/{live.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def test_a_priority_a_pause_and_the_policy_reach_the_page(live: Any, page: Page) -> None:
    blocking = [live.submit("sleep 60") for _ in range(2)]
    job_id = live.submit("true")
    page.until_job(job_id, "queued")
    live.ask("POST", "/v1/jobs/priority", {"ids": [job_id], "priority": 3})
    assert next(_rows(page, job_id))["priority"] == 3
    live.ask("POST", "/v1/jobs/pause", {"ids": [job_id]})
    assert "paused" in next(_rows(page, job_id))["reason"]
    live.ask("PUT", "/v1/policy", {"policy": "fifo-skip"})
    assert any(update["settings"] for update in _some(page.updates(), 3))
    live.ask("POST", "/v1/jobs/cancel", {"ids": [*blocking, job_id]})
    page.until_job(blocking[0], "cancelled")


def _rows(page: Page, job_id: str) -> Iterator[Any]:
    for update in page.updates():
        yield from (row for row in update["jobs"] if row["id"] == job_id)


def _some(updates: Iterator[Any], number: int) -> Iterator[Any]:
    for _ in range(number):
        update = next(updates)
        yield update
        if update["settings"]:
            return


def test_pages_are_told_how_many_they_are_so_that_many_ask_no_more_than_ten(
    live: Any, page: Page
) -> None:
    others = [Page(live) for _ in range(12)]
    job_id = live.submit("true")
    assert page.until_job(job_id, "finished")[-1]["pages"] == 13
    for other in others:
        other.close()


@as_root
def test_another_user_sees_that_a_job_is_there_and_not_what_it_reports(
    start: Any, open_folder: Path
) -> None:
    live = start(open_folder, system=True, group="nogroup")
    page = Page(live)
    job_id = live.submit("""echo '{"step": 1, "x7secret": 1}' >> $DOVETAIL_REPORT; sleep 0.5""")
    page.until_job(job_id, "finished")
    page.close()
    ((status, told),) = calls_as_nobody(live.socket, [("GET", "/v1/page/stream?after=0", None)])
    assert status == 200
    assert '"user":"root"' in told
    assert "x7secret" not in told
    live.close()


def test_every_answer_says_that_a_browser_is_not_to_guess_what_it_is(live: Any) -> None:
    connection = live.connection()
    connection.request("GET", "/v1/health")
    answer = connection.getresponse()
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    connection.close()
    assert "unsafe" not in PAGE_POLICY
    assert "script-src 'self'" in PAGE_POLICY
