"""What an object is told: on change only, the last word counts, and no more than can be written."""

from __future__ import annotations

import threading

from dovetail.worlds.declared import JOB, STUDY, Cost, DeclaredStatus, TrialsTold
from dovetail.worlds.kubernetes.objects.status import difference, status_json
from dovetail.worlds.kubernetes.objects.writing import SlowWriter
from waiting import until

NOW = 1_000_000.0


def test_what_is_not_known_is_left_out() -> None:
    refused = status_json(JOB, DeclaredStatus("refused", "nothing to run", revision=2), NOW)
    assert refused == {"phase": "Refused", "why": "nothing to run", "observedGeneration": 2}


def test_what_giving_way_has_cost_is_told() -> None:
    cost = Cost(2, 1.23456, "freeze", 0.0421, None, 24_000_000)
    told = status_json(JOB, DeclaredStatus("suspended", id="7", cost=cost), NOW)
    assert told["preemptions"] == {
        "count": 2,
        "lostGpuSeconds": 1.235,
        "rung": "freeze",
        "saveSeconds": 0.042,
        "parkedBytes": 24_000_000,
    }


def test_an_expected_time_that_moves_a_little_is_the_same() -> None:
    def start(at: float) -> str:
        return str(
            status_json(JOB, DeclaredStatus("queued", expected_start=at), NOW)["expectedStart"]
        )

    assert start(NOW + 3602) == start(NOW + 3610)
    assert start(NOW + 52) == start(NOW + 54)
    assert start(NOW + 50) != start(NOW + 70)


def test_the_best_trial_of_a_study_is_told_as_shortly_as_a_column_is() -> None:
    best = {"trial": 3, "value": 0.123456789, "step": 4, "settings": {"lr": 0.1}}
    told = status_json(STUDY, DeclaredStatus("open", trials=TrialsTold(6, {}, best, 0.1, 9)), NOW)
    assert told["best"]["value"] == 0.123457
    assert told["trials"] == {"planned": 6}


def test_only_what_is_different_is_written_and_what_is_gone_is_removed() -> None:
    now = {"phase": "Queued", "why": "no room", "preemptions": {"count": 0, "rung": "freeze"}}
    wanted = {"phase": "Running", "preemptions": {"count": 1, "rung": "freeze"}}
    assert difference(now, wanted) == {"phase": "Running", "why": None, "preemptions": {"count": 1}}
    assert difference(wanted, wanted) == {}


def test_of_many_writes_for_one_object_the_last_is_made_and_urgent_ones_go_first() -> None:
    writer, made, begun = SlowWriter("test", 1000.0, 1000, 10), [], threading.Event()
    for number in range(5):
        writer.put("same", lambda number=number: made.append(f"same {number}"))  # type: ignore[misc]
    writer.put("urgent", lambda: made.append("urgent"), is_urgent=True)
    writer.put("last", begun.set)
    writer.start()
    assert begun.wait(60.0)
    writer.stop()
    assert made == ["urgent", "same 4"]


def test_of_too_many_the_oldest_are_dropped() -> None:
    writer, made = SlowWriter("test", 1000.0, 1000, 3), list[int]()
    for number in range(10):
        writer.put(str(number), lambda number=number: made.append(number))  # type: ignore[misc]
    writer.start()
    until(lambda: len(made) == 3)
    writer.stop()
    assert (made, writer.dropped) == ([7, 8, 9], 7)


def test_so_many_a_second_are_written_and_no_more() -> None:
    writer, made = SlowWriter("test", 20.0, 1, 1000), list[int]()
    for number in range(1000):
        writer.put(str(number), lambda number=number: made.append(number))  # type: ignore[misc]
    writer.start()
    until(lambda: len(made) >= 3)
    writer.stop()
    assert len(made) < 500
