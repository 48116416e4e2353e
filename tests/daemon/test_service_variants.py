"""A service with variants: which one answers follows from the load, the SLO and what they cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.jobfiles.service_model import read_service
from service_daemon import ServiceDaemon, ask_at, service_daemon
from waiting import LONG_S, until

SMALL_S = 0.06
SPEC: dict[str, Any] = {
    "slo_ms": 150,
    "resources": {"gpus": 2},
    "at_once": 16,
    "latency": {"fixed_ms": 5, "per_item_ms": 1},
    "replicas": {"min": 0, "max": 2},
    "idle_s": 2,
    "envs": {"REPLICA_TAKES_small": str(SMALL_S)},
    "variants": [
        {
            "name": "small",
            "resources": {"gpus": 1},
            "at_once": 1,
            "accuracy": 0.9,
            "latency": {"fixed_ms": SMALL_S * 1e3},
        }
    ],
}


def variant_at(address: str) -> str:
    answer = ask_at(address, "/variant")
    assert answer.status == 200, answer.text
    return answer.text


@contextmanager
def asked_all_the_time(address: str, pause_s: float, lines: int = 4) -> Iterator[list[str]]:
    """Which variants have answered so far."""
    over, told = Event(), list[str]()

    def ask() -> None:
        while not over.wait(pause_s):
            told.append(variant_at(address))

    with ThreadPoolExecutor(lines) as pool:
        running = [pool.submit(ask) for _ in range(lines)]
        try:
            yield told
        finally:
            over.set()
            for own in running:
                own.result(LONG_S)


def awake(made: ServiceDaemon) -> list[tuple[str, str]]:
    rows = made.row()["replicas"]
    return sorted((own["variant"], own["state"]) for own in rows if own["state"] != "asleep")


def test_little_load_is_answered_by_the_cheap_variant_and_much_by_the_one_that_needs_fewer() -> (
    None
):
    """Not a request is lost at the changes; what is not needed any more sleeps."""
    with service_daemon() as made:
        row = made.serve(**SPEC)
        assert variant_at(row["address"]) == "small"
        with asked_all_the_time(row["address"], 0.01) as told:
            until(lambda: awake(made) == [("answers", "ready")])
            why = made.row()["why"]
            assert "requests a second need" in why
            assert "of answers" in why
            assert "of small it would take" in why
            until(lambda: told[-4:] == ["answers"] * 4)
        with asked_all_the_time(row["address"], 0.5, lines=1):
            until(lambda: awake(made) == [("small", "ready")])
        until(lambda: awake(made) == [])
        states = {own["state"] for own in made.row()["replicas"]}
        assert states == {"asleep"}
        assert "nobody asks; small answers the next one" in made.row()["why"]


def test_the_old_variant_makes_room_where_there_is_none_for_both() -> None:
    with service_daemon(slots=2) as made:
        row = made.serve(**SPEC)
        assert variant_at(row["address"]) == "small"
        with asked_all_the_time(row["address"], 0.01) as told:
            until(lambda: awake(made) == [("answers", "ready")])
            until(lambda: told[-4:] == ["answers"] * 4)


def test_who_has_to_be_accurate_is_answered_by_the_accurate_variant() -> None:
    with service_daemon() as made:
        row = made.serve(**SPEC, least_accuracy=0.95)
        assert variant_at(row["address"]) == "answers"
        until(lambda: "small is less accurate than 0.95" in _why_while_asked(made, row["address"]))


def _why_while_asked(made: ServiceDaemon, address: str) -> str:
    variant_at(address)
    return str(made.row()["why"])


def test_a_file_that_is_too_hopeful_is_corrected_by_what_requests_take() -> None:
    """The small one is said to take 1 ms: it would do for all. It takes 60."""
    small = {**SPEC["variants"][0], "latency": {"fixed_ms": 1}}
    with service_daemon() as made:
        row = made.serve(**{**SPEC, "variants": [small]})
        assert variant_at(row["address"]) == "small"
        with asked_all_the_time(row["address"], 0.01):
            until(lambda: made.row()["variant"] == "answers")


def test_a_restarted_daemon_goes_on_with_the_variant_that_answers() -> None:
    with service_daemon() as made:
        row = made.serve(**{**SPEC, "idle_s": 60})
        with asked_all_the_time(row["address"], 0.01):
            until(lambda: awake(made) == [("answers", "ready")])
        made.daemon.kill()
        made.daemon.start()
        until(made.states)
        assert made.row()["variant"] == "answers"
        time.sleep(1.0)
        assert awake(made) == [("answers", "ready")]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"slo_ms": 5}, "slo_ms: no configuration keeps 5 ms: one request alone takes 6 ms"),
        ({"latency": None}, "latency: 'answers' and its variants are compared by it"),
        ({"least_accuracy": 1, "accuracy": 0.95}, "least_accuracy: 1 is more than any variant has"),
        ({"scaling": "reactive"}, "scaling: with variants it follows from the choice"),
        ({"latency": {"profile": "a.csv"}}, "latency: that is for simulations"),
        ({"variants": [{"name": "small"}]}, "variants[0].latency: this field is needed"),
        (
            {"variants": [{"name": "answers", "latency": {"fixed_ms": 1}}]},
            "variants: 'answers' is the name of two",
        ),
    ],
)
def test_a_description_that_cannot_be_is_one_line(changed: dict[str, Any], told: str) -> None:
    spec = {"name": "answers", "command": ["serve", "{port}"], **SPEC, **changed}
    with pytest.raises(BadInput) as error:
        read_service(spec)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_variant_that_could_never_run_is_refused_when_the_service_is_declared() -> None:
    with service_daemon() as made:
        large = {**SPEC["variants"][0], "name": "large", "resources": {"gpus": 64}}
        asked = {**SPEC, "variants": [large]}
        with pytest.raises(Exception, match="could never run here"):
            made.serve(**asked)
        assert made.daemon.get("/v1/services")["services"] == []
