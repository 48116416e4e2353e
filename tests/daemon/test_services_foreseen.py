"""Forecasts, what-if and costs beside services: replicas are not jobs that end."""

from __future__ import annotations

import os
from typing import Any

import pytest

from service_daemon import ServiceDaemon, service_daemon
from typed_box import Box
from waiting import until


def submit(made: ServiceDaemon, estimate: str = "300s") -> str:
    spec = {"run": "sleep 300", "estimate": estimate}
    asked = {"spec": spec, "workdir": "/", "environment": {"PATH": os.environ["PATH"]}}
    return str(made.daemon.ask("POST", "/v1/jobs", {"jobs": [asked]})["ids"][0])


def test_jobs_beside_a_service_are_foreseen_and_its_replicas_have_no_end() -> None:
    with service_daemon(slots=2) as made:
        made.serve()
        replica = made.wait_for("ready")["replicas"][0]["job"]
        running, waiting = submit(made), submit(made)
        until(lambda: made.daemon.get(f"/v1/jobs/{running}")["phase"] == "running")
        told = made.daemon.get("/v1/forecast")
        assert told["limited"] == "1 replica of services is taken to run on"
        assert replica not in told["ends"]
        end, start = told["ends"][running]["expected"], told["starts"][waiting]["expected"]
        assert start == pytest.approx(end, abs=2)
        why = made.daemon.get(f"/v1/jobs/{replica}/why")
        assert "ends       when service answers does not need it any more" in why["text"]
        asked = {"spec": {"run": "sleep 60", "estimate": "60s"}}
        outcome = made.daemon.ask("POST", "/v1/whatif", asked)["as_asked"]
        assert outcome["start"]["expected"] == pytest.approx(end + 300, abs=5)
        made.daemon.ask("POST", "/v1/jobs/cancel", {"ids": [running, waiting]})


def test_what_a_thousand_requests_cost_is_told_of_a_service_and_among_the_costs() -> None:
    with service_daemon() as made:
        made.serve()
        made.wait_for("ready")
        for _ in range(5):
            assert made.ask().status == 200
        cost = until(lambda: served(made, 5))
        assert cost["gpu_s_per_thousand"] == pytest.approx(cost["gpu_hours"] * 3600 / 5 * 1000)
        (told,) = made.daemon.get("/v1/costs")["services"]
        assert (told["name"], told["answered"]) == ("answers", 5)


def served(made: ServiceDaemon, requests: int) -> Any:
    cost = made.row()["cost"]
    return cost if cost["answered"] == requests else None


def test_show_why_and_logs_know_services_by_their_name(tmp_path: Any) -> None:
    box = Box(tmp_path / "home")
    box.well("up", "--slots", 1)
    file = tmp_path / "service.yaml"
    file.write_text("name: talk\nrun: echo no weights here; exit 3\nreplicas: 1\n")
    box.well("serve", file)
    until(lambda: "in a row" in box("show", "talk").out)
    assert "(no weights here)" in box("why", "talk").out
    assert "no weights here" in box("logs", "talk").out
    assert "no weights here" in box("services", "logs", "talk").out
    assert "service talk" in box("costs").out
    assert box("show", "nobody").err.startswith("dovetail: there is no job called 'nobody'")
    box.well("services", "stop", "talk")
    box.well("down", "--cancel")
