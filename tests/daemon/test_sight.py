"""What the API hides in one place it hides everywhere: all pages of its schema, asked by another."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dovetail.daemon.http import app as api
from dovetail.daemon.http.visibility import Sight
from dovetail.daemon.users.callers import Caller
from two_users import as_nobody, as_root, calls_as_nobody
from waiting import until

MARK = "x7secret7x"
_REPORT = f"""echo '{{"step": 1, "{MARK}": 0.5}}' >> $DOVETAIL_REPORT; echo {MARK}; sleep 0.3;"""
_BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/whatif": [{"spec": {"run": "true", "name": "plain"}, "by": "+1h"}],
    "/v1/policy": [{"policy": "fifo"}],
    "/v1/tenants": [{"name": "mine"}],
    "/v1/limits": [{"user": "*"}],
    "/plan": [{}],
}


@pytest.fixture(scope="module")
def seen(start: Any) -> Iterator[Any]:
    """Everybody's daemon with root's jobs and studies, which hold the mark wherever a text fits."""
    folder = Path(tempfile.mkdtemp(prefix="dovetail-"))
    live = start(folder, system=True, group="nogroup", slots=8, policy="fifo-skip")
    work = folder / MARK
    work.mkdir()
    jobs = [_handed_in(live, work, **fields) for fields in _jobs()]
    studies = [_opened(live, work, name, run) for name, run in _studies()]
    for job_id in jobs[:3]:
        live.wait_for(job_id)
    until(lambda: live.get("/v1/studies/failing")["state"] == "closed")
    until(lambda: live.get("/v1/studies/open")["best"])
    yield live, jobs, studies
    live.ask("POST", "/v1/studies/open/cancel")
    live.close()
    shutil.rmtree(folder)


def _jobs() -> list[dict[str, Any]]:
    shell = ["sh", "-c"]
    return [
        {"command": [*shell, f"{_REPORT} exit 3", MARK], "envs": {"TOKEN": MARK}},
        {"command": [f"/nowhere/{MARK}"]},
        {"command": ["true"], "setup": f"echo {MARK} >&2; exit 9"},
        {"command": [*shell, f"{_REPORT} sleep 600", MARK], "metric_pattern": f"(?P<{MARK}>[0-9])"},
        {"command": [*shell, f"sleep 600; echo {MARK}"], "resources": {"gpus": 8}},
        {"run": f"sleep 600 {MARK}", "setup": f"echo {MARK}", "array": "0-1"},
    ]


def _studies() -> list[tuple[str, str]]:
    report = f"""echo '{{"step": 1, "{MARK}": 0.5, "{MARK}2": 1}}' >> $DOVETAIL_REPORT"""
    return [("failing", f"echo {MARK}; exit 4"), ("open", f"{report}; sleep 600")]


def _handed_in(live: Any, work: Path, **spec: Any) -> str:
    job = {"spec": {"name": "plain", **spec}, "workdir": str(work)}
    job["environment"] = {"PATH": "/bin:/usr/bin", "SECRET": MARK}
    return str(live.ask("POST", "/v1/jobs", {"jobs": [job]})["ids"][0])


def _opened(live: Any, work: Path, name: str, run: str) -> str:
    spec = {
        "name": name,
        "run": f"{run} # {{lr}}",
        "space": {"lr": {"choice": [f"{MARK}1", f"{MARK}2"]}},
        "metric": MARK,
        "steps": 3,
        "trials": 2,
    }
    asked = {"spec": spec, "workdir": str(work), "environment": {"PATH": "/bin", "KEY": MARK}}
    return str(live.ask("POST", "/v1/studies", asked)["study"])


def _calls(jobs: list[str], studies: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Every method of every page, with everything that its path may name."""
    known = {"job_id": jobs, "name": [*studies, "failing", "open"], "console": ["1"]}
    for page, methods in api.bare_app().openapi()["paths"].items():
        names = [part[1:-1] for part in page.split("/") if part.startswith("{")]
        assert set(names) <= set(known), f"say here what {names} may be, and ask that page too"
        for method, told in methods.items():
            for values in product(*(known[name] for name in names)):
                path = page.format(**dict(zip(names, values, strict=True)))
                for body in _bodies(page, told, jobs):
                    yield method.upper(), path + _query(page), body


def _query(page: str) -> str:
    return {"/v1/events": "?after=0", "/v1/history/trace": "?format=jsonl"}.get(page, "")


def _bodies(page: str, told: Any, jobs: list[str]) -> list[Any]:
    if "requestBody" not in told:
        return [None]
    own: dict[str, Any] = {"spec": {"run": "true", "name": "own"}, "workdir": "/"}
    after = [{"jobs": [{**own, "spec": {**own["spec"], "after": [job]}}]} for job in jobs]
    spec = {"name": "open", "run": "true {x}", "space": {"x": {"choice": [1]}}, "metric": "m"}
    study = {"spec": {**spec, "steps": 1, "trials": 1}, "workdir": "/"}
    changes = [{"ids": [job], "priority": 1} for job in jobs]
    if page == "/v1/jobs":
        return after
    if page == "/v1/studies":
        return [study]
    return _BODIES.get(page) or [
        {"ids": one["ids"]} if "priority" not in page else one for one in changes
    ]


@as_root
def test_nothing_that_a_job_or_study_is_told_says_or_reports_is_shown_to_another_user(
    seen: Any,
) -> None:
    live, jobs, studies = seen
    calls = list(_calls(jobs, studies))
    answers = calls_as_nobody(live.socket, calls)
    assert len(answers) == len(calls) > 60
    leaks = {
        f"{method} {page}": answer[max(answer.index(MARK) - 200, 0) :][:400]
        for (method, page, _), (status, answer) in zip(calls, answers, strict=True)
        if MARK in answer
    }
    assert not leaks
    statuses = {f"{m} {p}": status for (m, p, _), (status, _) in zip(calls, answers, strict=True)}
    assert {call: own for call, own in statuses.items() if own >= 500} == {}
    assert statuses[f"GET /v1/jobs/{jobs[0]}/log"] == 403
    assert statuses[f"GET /v1/jobs/{jobs[0]}"] == 200  # that it is there is no secret


@as_root
def test_the_owner_and_administrators_see_all_of_it(seen: Any) -> None:
    live, jobs, _ = seen
    assert MARK in json.dumps(live.get(f"/v1/jobs/{jobs[0]}")["spec"])
    assert MARK in live.get(f"/v1/jobs/{jobs[1]}")["reason"]
    assert MARK in json.dumps(live.get("/v1/studies/open")["best"]["settings"])
    assert MARK in live.text(f"/v1/jobs/{jobs[0]}/log")


@as_root
def test_values_that_somebody_elses_study_has_reached_are_not_shown(seen: Any) -> None:
    live, _, _ = seen
    own = live.get("/v1/studies/open")
    assert own["best"]["value"] == 0.5
    status, told = as_nobody(live.socket, "GET", "/v1/studies/open")
    assert (status, told["best"], told["target"], told["reached_s"]) == (200, None, None, None)
    assert [trial["steps"] for trial in told["trials"]] == [
        trial["steps"] for trial in own["trials"]
    ]
    assert {(trial["value"], trial["best"]) for trial in told["trials"]} == {(None, None)}
    assert not any(trial["points"] for trial in told["trials"])
    rows = as_nobody(live.socket, "GET", "/v1/studies")[1]["studies"]
    assert {row["best"] for row in rows} == {None}


def test_an_entry_of_somebody_elses_keeps_its_form_and_loses_its_texts() -> None:
    eve = Sight(Caller(1001, "eve", admin=False), {"1": "ann", "2": "eve"}.get, lambda study: None)
    said = '{"at":1.0,"reported":"%s","step":3,"metrics":{"loss":0.5},"upto":9}'
    assert json.loads(eve.line(said % "1"))["metrics"] == {}
    assert eve.line(said % "2") == said % "2"
    assert json.loads(eve.line(said % "77"))["metrics"] == {}, "whose nobody knows is nobody's"
    failed = json.loads(eve.line('{"at":1.0,"failed":"1","reason":"x","lost_s":0.0,"new":"y"}'))
    assert failed == {"at": 1.0, "failed": "1", "reason": "", "lost_s": 0.0}
