"""Intervals that learn from what was told before, across restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from dovetail.core.entries import Finished, Submitted
from dovetail.core.model import JobId, Seconds
from dovetail.core.state import State
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.forecast import forecast
from dovetail.daemon.foresight.forecast_record import (
    END,
    MOST_KEPT,
    START,
    Promises,
    Record,
    TimePromise,
)
from dovetail.daemon.foresight.scenarios import Drawn
from dovetail.testing import job
from live_box import Box, box
from live_state import live, start

ALL = 12
NEXT = Drawn(100.0, 80.0, 100.0, 130.0)


def waiting(number: int = ALL) -> tuple[State, list[JobId]]:
    jobs = [job(f"{n}") for n in range(number)]
    return live(*jobs), [own.id for own in jobs]


def promised(record: Record, state: State, ids: list[JobId], known: bool = True) -> None:
    at = state.now
    starts = {job_id: Drawn(at + 100.0, at + 80.0, at + 100.0, at + 130.0) for job_id in ids}
    record.judge(state, "fifo")
    record.note(state, starts, {}, ids if known else ())


def begins(state: State, job_id: JobId, at: Seconds) -> None:
    """Runs for a second, from then on."""
    state.record(Submitted(at, job(f"clock{at}")))  # time passes
    start(state, job_id, 1)
    state.record(Finished(at + 1.0, job_id))


def told(record: Record, known: bool = True, which: int = START) -> tuple[float, float]:
    span = record.stretched(NEXT, 0.0, which, known)
    assert span.high is not None
    return span.low, span.high


def test_an_interval_reaches_as_far_as_those_told_before_have_needed() -> None:
    state, ids = waiting()
    record = Record()
    promised(record, state, ids)
    assert told(record) == (80.0, 130.0)  # nothing has come to light
    for n, job_id in enumerate(ids):
        begins(state, job_id, 400.0 + 2 * n)  # four times as late as was said
    record.judge(state, "fifo")
    low, high = told(record)
    assert high > 380
    assert low <= 80
    assert told(record, known=False) == (80.0, 130.0)  # each kind of question by itself
    assert told(record, which=END) == (80.0, 130.0)
    record.judge(state, "srtf")
    assert told(record) == (80.0, 130.0)  # another policy begins anew


def test_an_interval_that_would_reach_into_another_century_is_open_instead() -> None:
    state, ids = waiting()
    record = Record()
    promised(record, state, ids)
    for n, job_id in enumerate(ids):
        begins(state, job_id, 3e7 + 2 * n)  # a year late, where half a minute was left for errors
    record.judge(state, "fifo")
    span = record.stretched(NEXT, 0.0, START, known=True)
    assert span.expected == 100.0
    assert span.high is None


def test_those_that_still_wait_count_with_what_they_have_waited() -> None:
    """Who is late is not judged until it starts: by then everybody else has been told the same."""
    state, ids = waiting()
    record = Record()
    promised(record, state, ids)
    for n, job_id in enumerate(ids[:4]):
        begins(state, job_id, 95.0 + 2 * n)  # as was said
    record.judge(state, "fifo")
    assert told(record)[1] < 200
    state.record(Submitted(3_000.0, job("later")))
    record.judge(state, "fifo")
    assert told(record)[1] > 3_000


def test_who_starts_at_once_was_told_nothing() -> None:
    state, ids = waiting(1)
    record, now = Record(), state.now
    record.note(state, {ids[0]: Drawn(now, now, now, now)}, {}, ids)
    begins(state, ids[0], 5.0)
    record.judge(state, "fifo")
    assert told(record) == (80.0, 130.0)


class _Journal:
    """The rows of meta."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def keep_meta(self, key: str, value: str, forget: Iterable[str] = ()) -> None:
        self.rows[key] = value
        for old in forget:
            del self.rows[old]

    def meta_after(self, key: str, prefix: str) -> str | None:
        later = sorted(own for own in self.rows if own > key and own.startswith(prefix))
        return self.rows[later[0]] if later else None


def test_of_what_was_told_the_latest_is_kept_and_only_under_the_policy_of_now() -> None:
    journal = _Journal()
    promises = Promises(journal)
    for n in range(25):
        own = [TimePromise(JobId(f"{n}.{m}"), True, 0.0, NEXT, None) for m in range(100)]
        promises.keep("fifo", own)
    policy, found = Promises(journal).kept()
    assert policy == "fifo"
    assert MOST_KEPT <= len(found) < MOST_KEPT + 200
    assert found[-1] == TimePromise(JobId("24.99"), True, 0.0, NEXT, None)
    promises.keep("srtf", found[:1])
    assert [json.loads(row)[1] for row in journal.rows.values()] == ["srtf"]


def _stretched(own: Box) -> list[object]:
    forecast(own.service)
    record = likenesses.take(own.service).record
    assert record is not None
    return [
        record.stretched(NEXT, 0.0, which, known)
        for which in (START, END)
        for known in (False, True)
    ]


def test_a_daemon_that_starts_again_goes_on_with_what_it_had_told(tmp_path: Path) -> None:
    with box(tmp_path, slots=1) as own:
        for n in range(6):
            own.submit(f"sleep 0.{n + 1}", name="train", estimate="1s")
        forecast(own.service)
        own.wait_for(lambda: not own.service.look(lambda view, now: len(view.tracks)))
        before = _stretched(own)
        own.leave()
    with box(tmp_path, slots=1) as again:
        assert _stretched(again) == before
    assert any(span != NEXT.span for span in before)
