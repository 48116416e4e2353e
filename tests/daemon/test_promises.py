"""Whether a deadline is promised: told by the policy itself, at submission, by `why` and by `show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dovetail.api.job_row import DeadlineTold
from dovetail.api.why_row import WhyEnded, WhyWaiting
from dovetail.api.wire import plain
from dovetail.core.entries import Submitted
from dovetail.core.model import JobId, Node
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.foresight.promising import with_what_would_do
from dovetail.daemon.foresight.why import why
from dovetail.daemon.promises import promises_of
from dovetail.policies.precedence import DeadlineWord
from dovetail.text.promises import promise_text
from live_box import Box
from live_state import EPOCH, FakeService, lasting, live

HOUR = 3600.0


def judged(policy: str, *jobs: Any, gpus: int = 4) -> FakeService:
    """Jobs submitted at once to one node, and the notes and refusals of the first decision."""
    state = live(cluster=[Node("box", gpus)])
    service = FakeService(state, policy)
    for job in jobs:
        state.record(Submitted(state.now, job))
        decide(service, state)
    return service


def decide(service: FakeService, state: State) -> None:
    for action in service.chosen.decide(state):
        if type(action).__name__ in ("Note", "Refuse"):
            state.record(action)


def told(service: FakeService, job_id: str) -> DeadlineTold:
    (found,) = promises_of(service, [job_id])
    return with_what_would_do(service, found)


@pytest.mark.parametrize("policy", ["elasticflow", "flex", "chronus"])
def test_a_deadline_that_can_be_kept_is_promised_with_an_end_and_gpus(policy: str) -> None:
    service = judged(policy, lasting("a", HOUR, 2, deadline=5 * HOUR))
    found = told(service, "a")
    assert (found.promised, found.refused, found.gpus, found.would_do) == (True, False, 2, [])
    assert found.ends_by is not None
    assert found.ends_by <= found.deadline == EPOCH + 5 * HOUR
    assert promise_text(found, EPOCH).startswith("promised: it ends by ")
    assert promise_text(found, EPOCH).endswith(" on 2 GPUs")


@pytest.mark.parametrize("policy", ["elasticflow", "flex:refuse=true", "chronus"])
def test_a_refused_job_is_told_why_and_a_deadline_that_would_do(policy: str) -> None:
    service = judged(policy, lasting("a", HOUR, 4, deadline=1200.0))
    assert JobId("a") not in service.state.tracks
    found = told(service, "a")
    assert (found.promised, found.refused) == (False, True)
    assert "cannot be promised" in found.why
    assert "not promised, and refused: its deadline" in promise_text(found, EPOCH)
    (change,) = found.would_do
    assert change.field == "deadline"
    again = judged(policy, lasting("a", HOUR, 4, deadline=change.value - EPOCH))
    assert told(again, "a").promised is True


@pytest.mark.parametrize("policy", ["elasticflow:refuse=false", "flex", "chronus:refuse=false"])
def test_a_job_without_a_promise_runs_and_why_says_what_would_do(policy: str) -> None:
    service = judged(policy, lasting("a", HOUR, 4, deadline=1200.0))
    found = told(service, "a")
    assert (found.promised, found.refused, found.ends_by, found.gpus) == (False, False, None, None)
    assert found.why
    assert [change.field for change in found.would_do] == ["deadline"]
    explained = why(service, "a")
    assert isinstance(explained, WhyWaiting)
    assert explained.promise == found
    assert "deadline   not promised: " in explained.text


def test_a_wider_elastic_range_is_named_if_it_would_do() -> None:
    job = lasting("a", 2 * HOUR, 1, deadline=1.4 * HOUR, min_gpus=1, max_gpus=1)
    narrow = lasting("a", 2 * HOUR, 2, deadline=1.4 * HOUR, min_gpus=1, max_gpus=2)
    assert job.gpus == 1
    found = told(judged("elasticflow:speeds=none/scaling=1", narrow), "a")
    assert [change.field for change in found.would_do] == ["deadline", "elastic"]
    assert found.would_do[1].change == "elastic up to 4 GPUs"
    assert found.would_do[1].value == {"min": 1, "max": 4}


def test_before_the_policy_has_decided_its_answer_is_foreseen() -> None:
    service = judged("elasticflow:slot_s=0")
    for job in (lasting("a", HOUR, 2, deadline=5 * HOUR), lasting("b", HOUR, 4, deadline=1200.0)):
        service.state.record(Submitted(service.state.now, job))
    good, bad = told(service, "a"), told(service, "b")
    assert (good.promised, good.foreseen, good.would_do) == (None, True, [])
    assert promise_text(good, EPOCH) == "not promised yet, but will be as things stand"
    assert (bad.promised, bad.foreseen) == (None, False)
    assert "as things stand will not be: its deadline in 20 min" in promise_text(bad, EPOCH)
    assert [change.field for change in bad.would_do] == ["deadline"]


@pytest.mark.parametrize("policy", ["fifo", "fair-share", "genie", "srtf"])
def test_a_policy_that_promises_nothing_claims_nothing(policy: str) -> None:
    service = judged(policy, lasting("a", HOUR, 2, deadline=5 * HOUR))
    assert promises_of(service, ["a"]) == []
    explained = why(service, "a")
    assert isinstance(explained, WhyWaiting)
    assert explained.promise is None
    assert "promised" not in explained.text


def test_a_job_without_a_deadline_is_promised_nothing() -> None:
    assert promises_of(judged("flex", lasting("a", HOUR, 2)), ["a"]) == []


class _Generous:
    """Somebody else's policy, which promises everything."""

    def decide(self, view: View) -> tuple[()]:
        return ()

    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        return DeadlineWord(True, view.now + 60.0, 3)


class _Broken(_Generous):
    def deadline_word(self, view: View, track: Track) -> DeadlineWord | None:
        raise RuntimeError("no word")


def test_anybodys_policy_may_give_its_word_and_one_that_breaks_gives_none() -> None:
    service = judged("fifo", lasting("a", HOUR, 2, deadline=5 * HOUR))
    service.chosen._policy = _Generous()
    (found,) = promises_of(service, ["a"])
    assert (found.promised, found.ends_by, found.gpus) == (True, EPOCH + 60.0, 3)
    service.chosen._policy = _Broken()
    assert promises_of(service, ["a"]) == []


def test_a_daemon_tells_the_same_by_submit_show_and_why(tmp_path: Path) -> None:
    box = Box(tmp_path, policy="flex")
    try:
        kept = box.submit("sleep 60", estimate="30s", deadline="+2h")
        late = box.submit("sleep 60", estimate="3h", deadline="+1h")
        for job_id, promised in ((kept, True), (late, False)):
            (found,) = promises_of(box.service, [job_id])
            assert found.promised is promised
            assert box.job(job_id)["promise"] == plain(found)
            explained = why(box.service, job_id)
            assert not isinstance(explained, WhyEnded)
            assert explained.promise is not None
            assert explained.promise.promised is promised
    finally:
        box.close()
