"""Who may have how much on a shared box. Two real users: nobody, who has limits, and root."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import LimitSet, TenantSet
from dovetail.core.model import Limit, Tenant
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import NAMES, Limits
from two_users import as_nobody, as_root
from typed_box import Box
from waiting import until

pytestmark = as_root
ROOT = {"PATH": "/bin:/usr/bin"}


@pytest.fixture(scope="module")
def shared(start: Any) -> Iterator[Any]:
    folder = Path(tempfile.mkdtemp(prefix="dovetail-"))
    live = start(folder, system=True, group="nogroup", admins="daemon", slots=4, policy="fifo")
    yield live
    live.close()
    shutil.rmtree(folder)


@pytest.fixture
def box(shared: Any) -> Iterator[Any]:
    """One daemon for all: every test begins without jobs, without limits and with its policy."""
    yield shared
    shared.ask("PUT", "/v1/policy", {"policy": "fifo"})
    for user in ("nobody", "*"):
        limit(shared, user, **dict.fromkeys(NAMES))
    if ids := [row["id"] for row in shared.get("/v1/jobs")["jobs"]]:
        shared.ask("POST", "/v1/jobs/cancel", {"ids": ids})
    live = shared.folder / "runs" / "live"
    until(lambda: not any(live.iterdir()))


def ask(box: Any, method: str, page: str, body: Any = None) -> tuple[int, Any]:
    return as_nobody(box.socket, method, page, body)


def job(run: str = "sleep 600", **spec: Any) -> dict[str, Any]:
    return {"spec": {"run": run, **spec}, "workdir": "/", "environment": ROOT}


def submit(box: Any, number: int = 1, **spec: Any) -> tuple[int, Any]:
    return ask(box, "POST", "/v1/jobs", {"jobs": [job(**spec)] * number})


def limit(box: Any, user: str = "nobody", **limits: Any) -> None:
    box.ask("PUT", "/v1/limits", {"user": user, **limits})


def phases(box: Any) -> dict[str, str]:
    return {row["id"]: row["phase"] for row in box.get("/v1/jobs?user=nobody")["jobs"]}


def running(box: Any) -> list[str]:
    ids = [own for own, phase in phases(box).items() if phase == "running"]
    return sorted(ids, key=float)


# ----------------------------------------------------------------------------- what is refused


def test_a_priority_above_ones_own_is_refused_wherever_it_is_asked_for(box: Any) -> None:
    status, answer = submit(box, priority=1e9)
    assert status == 403
    assert "may give jobs a priority of 0 at most, not 1e+09" in answer["error"]
    assert "ask an administrator (root, or a member of group daemon)" in answer["error"]
    (own,) = submit(box)[1]["ids"]
    assert ask(box, "POST", "/v1/jobs/priority", {"ids": [own], "priority": 1})[0] == 403
    assert ask(box, "POST", "/v1/jobs/priority", {"ids": [own], "priority": -1})[0] == 200
    study = {"name": "s", "run": "true {x}", "space": {"x": {"choice": [1]}}, "metric": "m"}
    spec = {**study, "steps": 1, "trials": 1, "priority": 7}
    assert ask(box, "POST", "/v1/studies", {"spec": spec, "workdir": "/"})[0] == 403
    limit(box, priority=5)
    assert submit(box, priority=5)[0] == 201
    box.ask("POST", "/v1/jobs/priority", {"ids": [own], "priority": 50})
    assert ask(box, "POST", "/v1/jobs/priority", {"ids": [own], "priority": 40})[0] == 200


def test_nothing_is_suggested_that_would_be_refused(box: Any) -> None:
    box.ask("PUT", "/v1/policy", {"policy": "priority"})
    box.ask("POST", "/v1/jobs", {"jobs": [job(resources={"gpus": 4}, estimate="1h")]})
    (own,) = submit(box, resources={"gpus": 4}, estimate="1h")[1]["ids"]
    spec = {"run": "true", "resources": {"gpus": 4}, "estimate": "1h"}

    def suggested(page: str) -> list[tuple[str, Any]]:
        body = {"spec": spec, "by": "+70m"} if page == "/v1/whatif" else None
        found = ask(box, "POST" if body else "GET", page, body)[1]
        rows = found["alternatives"] if body else found["would_start"]
        return [(row["field"], row["value"]) for row in rows]

    why, whatif = f"/v1/jobs/{own}/why", "/v1/whatif"
    asked = [field for page in (why, whatif) for field, _ in suggested(page)]
    assert not {"priority", "gpus,priority", "pause"} & {*asked}
    limit(box, priority=0.5)
    values = [
        value for page in (why, whatif) for field, value in suggested(page) if field == "priority"
    ]
    assert values
    assert max(values) <= 0.5


def test_a_tenant_nobody_has_made_is_refused_with_those_one_may_use(box: Any) -> None:
    box.ask("PUT", "/v1/tenants", {"name": "vision", "users": ["nobody"]})
    box.ask("PUT", "/v1/tenants", {"name": "speech", "groups": ["daemon"]})
    box.ask("PUT", "/v1/tenants", {"name": "open"})
    for wrong, why in (("vison", "there is no tenant 'vison'"), ("speech", "nobody may not use")):
        status, answer = submit(box, tenant=wrong)
        assert status == 403
        assert why in answer["error"]
        assert "choose one of: open, vision, or ask an administrator" in answer["error"]
    assert submit(box, tenant="open")[0] == 201
    (own,) = submit(box)[1]["ids"]  # who belongs to one does not escape its quota
    assert box.get(f"/v1/jobs/{own}")["tenant"] == "vision"
    assert box.submit("true", tenant="speech"), "administrators may use any"
    box.ask("PUT", "/v1/tenants", {"name": "vision", "users": ["root"]})


def test_jobs_beyond_the_limit_are_refused_with_the_number_that_is_there(box: Any) -> None:
    limit(box, queued=3)
    assert submit(box, 2)[0] == 201
    status, answer = submit(box, 2)
    assert status == 403
    assert "may have 3 jobs that have not ended; 2 are there and 2 more are" in answer["error"]
    assert submit(box, array="0-1")[0] == 403
    assert submit(box)[0] == 201
    status, answer = submit(box, resources={"gpus": 4})
    limit(box, queued=None, gpus=2)
    assert (
        "asks for 4 GPUs, and nobody may have 2 at once"
        in submit(box, resources={"gpus": 4})[1]["error"]
    )


def test_only_administrators_set_limits_and_a_group_may_administer(box: Any) -> None:
    assert ask(box, "PUT", "/v1/limits", {"user": "nobody", "priority": 9})[0] == 403
    told = ask(box, "GET", "/v1/limits")[1]
    assert [row["user"] for row in told["limits"]] == ["*", "nobody"]
    asked = {"user": "*", "priority": 9}
    status, answer = as_nobody(box.socket, "PUT", "/v1/limits", asked, groups=[1])
    assert status == 200, answer


# --------------------------------------------------------------------------- what waits instead


@pytest.mark.parametrize("policy", ["fifo", "fair-share", "round-robin", "frugal"])
def test_a_user_never_has_more_at_work_than_allowed_whatever_the_policy(
    box: Any, policy: str
) -> None:
    box.ask("PUT", "/v1/policy", {"policy": policy})
    limit(box, running=2)
    ids = submit(box, 4)[1]["ids"]
    until(lambda: len(running(box)) == 2)
    time.sleep(0.3)
    assert running(box) == ids[:2]
    why = ask(box, "GET", f"/v1/jobs/{ids[2]}/why")[1]
    assert "nobody may have 2 jobs at work at once" in why["because"]
    assert "ask an administrator" in why["because"]
    ask(box, "POST", "/v1/jobs/resume", {"mine": True})  # no way around it
    ask(box, "POST", "/v1/jobs/pause", {"ids": [ids[3]]})
    ask(box, "POST", "/v1/jobs/resume", {"ids": [ids[3]]})
    time.sleep(0.3)
    assert running(box) == ids[:2]
    ask(box, "POST", "/v1/jobs/cancel", {"ids": [ids[0]]})
    until(lambda: running(box) == ids[1:3])


def test_gpus_are_limited_too_and_a_larger_job_is_not_passed_by_smaller_ones(box: Any) -> None:
    limit(box, gpus=3)
    first = submit(box, resources={"gpus": 2})[1]["ids"][0]
    large = submit(box, resources={"gpus": 2})[1]["ids"][0]
    small = submit(box)[1]["ids"][0]
    until(lambda: running(box) == [first])
    time.sleep(0.3)
    assert running(box) == [first]
    ask(box, "POST", "/v1/jobs/cancel", {"ids": [first]})
    until(lambda: running(box) == [large, small])


def test_an_array_and_what_comes_after_others_go_in_one_by_one(box: Any) -> None:
    limit(box, running=1)
    first = submit(box, run="sleep 0.3")[1]["ids"][0]
    after = submit(box, run="sleep 0.3", after=[first])[1]["ids"][0]
    array = submit(box, run="sleep 0.3", array="0-3%2")[1]["ids"]
    seen = 0
    while phases(box):
        seen = max(seen, len(running(box)))
    assert seen == 1
    ended = {row["id"]: row["phase"] for row in box.get("/v1/history")["jobs"]}
    assert [ended[own] for own in (first, after, *array)] == ["finished"] * 6


def test_a_study_runs_as_many_trials_at_once_as_its_user_may_have(box: Any) -> None:
    limit(box, running=2)
    study = {"name": "s", "run": "sleep 600 {x}", "space": {"x": {"int": [0, 99]}}, "metric": "m"}
    spec = {**study, "steps": 1, "trials": 6}
    status, answer = ask(box, "POST", "/v1/studies", {"spec": spec, "workdir": "/"})
    assert status == 201, answer
    until(lambda: len(running(box)) == 2)
    plain = submit(box)[1]["ids"][0]
    time.sleep(0.3)
    assert len(running(box)) == 2
    assert plain not in running(box)
    ask(box, "POST", "/v1/studies/s/cancel")
    until(lambda: running(box) == [plain])


def test_a_limit_that_is_lowered_holds_for_those_in_line(box: Any) -> None:
    blocker = box.submit("sleep 600", resources={"gpus": 4})
    box.wait_for(blocker, "running")
    ids = submit(box, 3)[1]["ids"]
    limit(box, "*", running=1)
    until(lambda: "limit" in box.get(f"/v1/jobs/{ids[2]}")["reason"])
    box.ask("POST", "/v1/jobs/cancel", {"ids": [blocker]})
    until(lambda: running(box) == ids[:1])
    limit(box, gpu_hours=1e-6)
    ask(box, "POST", "/v1/jobs/cancel", {"ids": [ids[0]]})
    until(lambda: "GPU-hours in 30 days" in box.get(f"/v1/jobs/{ids[1]}")["reason"])
    assert running(box) == []


# ------------------------------------------------------------------------------ the command line


def test_how_somebody_is_told_is_short_and_is_counted(box: Any) -> None:
    ids = submit(box, number=3, run="sleep 600 # " + 30_000 * "x")[1]["ids"]
    long = "https://x/" + "y" * 5_000
    for asked in ({"mine": True, "notify": [long]}, {"ids": ids, "notify": f"mail:a@{long}"}):
        status, answer = ask(box, "POST", "/v1/jobs/notify", asked)
        assert (status, "has 2,000 characters at most" in answer["error"]) == (422, True)
        assert len(answer["error"]) < 300
    assert submit(box, notify=[long])[0] == 422
    limit(box, megabytes=5)  # forgotten slowly
    before = used(box)
    assert ask(box, "POST", "/v1/jobs/notify", {"mine": True, "notify": "desktop"})[0] == 200
    assert used(box) - before > 0.09  # what is written anew: all of the description of each
    limit(box, megabytes=0.09)
    status, answer = ask(box, "POST", "/v1/jobs/notify", {"ids": ids, "notify": "mail"})
    assert (status, "may hand in 0 MB a day" in answer["error"]) == (403, True)
    assert box.get(f"/v1/jobs/{ids[0]}")["spec"]["notify"] == ["desktop"]


def test_what_an_array_has_in_common_is_not_written_again_for_each_who_is_told(box: Any) -> None:
    (first, *_) = submit(box, array="0-19", run="sleep 600 # " + 90_000 * "x")[1]["ids"]
    limit(box, megabytes=5)
    before = used(box)
    asked = {"ids": [first.partition(".")[0]], "notify": "desktop"}
    assert ask(box, "POST", "/v1/jobs/notify", asked)[0] == 200
    assert used(box) - before < 0.02
    told = box.get(f"/v1/jobs/{first}")["spec"]
    assert (told["notify"], len(told["run"]) > 90_000) == (["desktop"], True)


def test_stopping_and_resuming_a_study_is_counted(box: Any) -> None:
    study = {"name": "s", "run": "sleep 600 {x}", "space": {"x": {"int": [0, 99]}}, "metric": "m"}
    spec = {**study, "steps": 1, "trials": 6}
    assert ask(box, "POST", "/v1/studies", {"spec": spec, "workdir": "/"})[0] == 201
    limit(box, megabytes=5)  # forgotten slowly
    before = used(box)
    for verb in ("stop", "resume"):
        assert ask(box, "POST", f"/v1/studies/s/{verb}")[0] == 200
    assert used(box) - before > 0.005
    limit(box, megabytes=0.001)
    assert ask(box, "POST", "/v1/studies/s/resume")[0] == 403
    assert ask(box, "POST", "/v1/studies/s/cancel")[0] == 200  # to end it is always allowed


def test_making_tokens_is_counted_and_revoking_them_always_allowed(box: Any) -> None:
    limit(box, megabytes=5)
    before = used(box)
    made = ask(box, "POST", "/v1/tokens", {"name": "laptop"})[1]
    assert used(box) > before
    limit(box, megabytes=0.0001)
    assert ask(box, "POST", "/v1/tokens", {"name": "phone"})[0] == 403
    assert ask(box, "POST", "/v1/tokens/revoke", {"ids": [made["id"]]})[0] == 200


def used(box: Any) -> float:
    """Megabytes of the day."""
    rows = ask(box, "GET", "/v1/limits")[1]["limits"]
    return float(next(row for row in rows if row["user"] == "nobody")["used"]["megabytes"])


def test_limits_are_set_and_seen_from_the_command_line(box: Any) -> None:
    typed = Box(box.folder)
    out = typed.well("limit", "set", "nobody", "--running", "2", "--priority", "none")
    assert out == (
        "nobody may have: queued 10000, running 2, gpus no limit, gpu-hours no limit,"
        " priority no limit, megabytes 1000.\n"
    )
    out = typed.well("limit")
    assert "everybody" in out
    assert "0 of 2" in out
    assert typed("limit", "set", "nobody", "--running", "many").code == 2
    assert "for nobody, group daemon." in typed.well(
        "tenant", "set", "vision", "--users", "nobody", "--groups", "daemon"
    )


def test_who_is_not_known_yet_is_taken_with_a_warning(box: Any) -> None:
    typed = Box(box.folder)
    said = typed("limit", "set", "nobdoy", "--running", "2")
    told = "dovetail: warning: the system knows no {}: this holds once there is one\n"
    assert (said.code, said.err) == (0, told.format("user 'nobdoy'"))
    said = typed("tenant", "set", "vision", "--users", "nobody,nobdoy", "--groups", "daemon,labb")
    assert said.err == told.format("user 'nobdoy'") + told.format("group 'labb'")
    for known in ("nobody", "*", "12345"):
        assert typed("limit", "set", known, "--running", "none").err == ""


def test_what_is_not_named_stays_as_it_is(box: Any) -> None:
    typed = Box(box.folder)
    typed.well("limit", "set", "nobody", "--running", "8", "--gpus", "4")
    out = typed.well("limit", "set", "nobody", "--priority", "10")
    assert "running 8, gpus 4, gpu-hours no limit, priority 10" in out
    assert "running no limit, gpus 4" in typed.well(
        "limit", "set", "nobody", "--running", "default"
    )


@pytest.mark.parametrize("typed", ["nan", "inf", "-3", "1e30"])
def test_a_limit_that_is_no_number_is_refused_in_words_of_the_command(box: Any, typed: str) -> None:
    told = Box(box.folder)("limit", "set", "nobody", "--queued", typed)
    assert told.code == 2
    assert f"--queued {typed}: write a number from 0 to 1e+15, none or default" in told.err


def test_who_may_not_set_a_tenant_is_told_whom_to_ask(box: Any) -> None:
    status, told = ask(box, "PUT", "/v1/tenants", {"name": "mine", "users": ["nobody"]})
    assert status == 403
    assert "ask an administrator (root, or a member of group daemon)" in told["error"]


def test_limits_and_members_survive_a_restart() -> None:
    state = State()
    state.record(LimitSet(1.0, Limit("ann", queued=5.0, priority=inf)))
    state.record(TenantSet(1.0, Tenant("vision", users=("bob",), groups=("lab",))))
    again = restore(take(state), 10)
    assert again.limits == state.limits
    assert again.room.tenants == state.room.tenants


def test_a_box_of_ones_own_has_no_limits() -> None:
    state, ann = State(), Caller(1000, "ann", admin=False)
    state.record(LimitSet(0.0, Limit("ann", queued=0.0, priority=0.0)))
    state.record(TenantSet(0.0, Tenant("vision", users=("bob",))))
    own = Limits(shared=False)
    own.check_number(100_000, "ann", state)
    own.check_priority(1e9, ann, state)
    assert own.tenant_for(ann, "any", state) == "any"
    assert not own.of("ann", state).at_work
