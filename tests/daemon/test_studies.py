"""Studies on a real daemon: their trials take turns, others are let be, and what goes wrong is told."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.wire import plain
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.daemon.foresight.forecast import forecast
from dovetail.daemon.foresight.why import why
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.studies import rows as study_quiet
from dovetail.daemon.users.callers import Caller
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.local import making
from live_box import ME, Box, box
from study_box import TRAIN, closed, open_study, opened, page, steps_told

WITH_PBT = pytest.mark.skipif(find_spec("dovetail.tune.rules.pbt") is None, reason="without pbt")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Box]:
    with box(tmp_path / "box", policy="fifo-skip") as made:
        yield made


def test_trials_take_turns_and_every_step_is_made_once(here: Box) -> None:
    jobs = open_study(here)
    found = closed(here)
    assert found["reason"] == "all trials are done"
    assert [trial["state"] for trial in found["trials"]] == ["done"] * 4
    assert steps_told(found) == [[1, 2, 3, 4]] * 4
    assert [trial["job"] for trial in found["trials"]] == jobs
    assert found["switches"] > 4
    assert found["switch"]["rung"] == "freeze"
    best = min(found["trials"], key=lambda trial: trial["best"])
    assert found["best"]["trial"] == best["number"]
    assert found["best"]["settings"] == best["settings"]
    assert [row["name"] for row in plain(here.daemon.studies.all(ME))["studies"]] == ["digits"]
    assert not list(here.home.environments.glob("s1*"))  # nobody needs it any more


def test_a_paused_trial_releases_its_slot_to_another_job(here: Box) -> None:
    open_study(here, trials=2, steps=40, pace=0.1)
    here.wait_for(lambda: page(here)["running"] == 2)
    other = here.submit("true")
    assert here.job(other)["phase"] == "queued"
    row = plain(here.daemon.studies.stop("digits", ME))
    assert row["state"] == "stopped"
    here.wait(other)
    assert here.job(other)["phase"] == "finished"
    here.wait_for(lambda: page(here)["paused"] == 2)
    before = steps_told(page(here))
    here.daemon.studies.resume("digits", ME)
    here.wait_for(lambda: page(here)["running"] == 2)
    here.wait_for(lambda: len(steps_told(page(here))[0]) > len(before[0]))
    after = steps_told(page(here))
    assert [row == list(range(1, len(row) + 1)) for row in after] == [True, True]


def test_only_so_many_run_at_once(here: Box) -> None:
    open_study(here, at_once=1, trials=3)
    found = closed(here)
    stints = sorted(tuple(stint[:2]) for trial in found["trials"] for stint in trial["stints"])
    assert len(stints) >= 6
    assert all(end <= begin for (_, end), (begin, _) in pairwise(stints))


def test_a_study_ends_when_its_target_is_reached(here: Box) -> None:
    open_study(here, target=1.6, stop_at_target=True, steps=100)
    found = closed(here)
    assert "has reached the target of 1.6" in found["reason"]
    assert found["reached_s"] <= found["age_s"]
    assert found["done"] == 0
    assert found["stopped"] == 4
    assert {here.job(trial["job"])["phase"] for trial in found["trials"]} == {"cancelled"}


@pytest.mark.parametrize(
    ("budget", "reason"), [({"time": "1s"}, "its budget of 1 s"), ({"gpu_hours": 0.0004}, "0.0004")]
)
def test_a_study_ends_when_its_budget_is_spent(
    here: Box, budget: dict[str, Any], reason: str
) -> None:
    open_study(here, budget=budget, steps=1000)
    found = closed(here)
    assert reason in found["reason"]
    assert found["age_s"] < 60  # all steps would take minutes


def test_a_study_ends_at_its_deadline(here: Box) -> None:
    open_study(here, deadline="+1s", steps=1000)
    assert closed(here)["reason"] == "its deadline has come"


# ------------------------------------------------------------------------------- what goes wrong


def test_a_study_whose_first_trials_all_fail_is_closed_with_the_reason(here: Box) -> None:
    open_study(here, script="import sys; sys.exit('no such file: data.npz')", trials=9)
    found = closed(here)
    failed = found["failed"]
    assert f"all {failed} trials that were begun failed without a report" in found["reason"]
    assert found["reason"].endswith("the last line of its log: no such file: data.npz")
    assert 3 <= failed < 9


def test_a_trial_that_fails_is_failed_and_the_study_goes_on(here: Box) -> None:
    script = "import os\nif os.environ['DOVETAIL_TRIAL'] == '1': raise SystemExit(3)\n"
    open_study(here, script=script + TRAIN, trials=3, steps=2)
    found = closed(here)
    assert [trial["state"] for trial in found["trials"]] == ["done", "failed", "done"]
    assert found["reason"] == "2 of 3 trials are done, 1 failed"


def test_a_metric_that_never_comes_is_named_with_those_that_came(here: Box) -> None:
    open_study(here, metric="accuracy", trials=9, steps=1)
    found = closed(here)
    assert "it ended without reporting 'accuracy'; it reported loss" in found["reason"]


def test_a_trial_that_only_reports_another_metric_is_warned_of_while_it_runs(
    here: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_quiet, "LEAST_S", 0.5)
    monkeypatch.setattr(study_quiet, "UNHEARD_S", 1.0)
    open_study(here, metric="accuracy", trials=1, steps=1000)
    here.wait_for(lambda: page(here)["quiet"] is not None)
    quiet = page(here)["quiet"]
    assert (quiet["trials"], quiet["usual_s"], quiet["told"]) == ([0], None, ["loss"])
    assert plain(here.daemon.studies.all(ME))["studies"][0]["quiet"]["job"] == quiet["job"]
    here.daemon.studies.cancel("digits", ME)
    assert page(here)["quiet"] is None


def test_what_is_not_a_number_counts_as_a_step_and_is_never_the_best(here: Box) -> None:
    script = (
        "import os\n"
        "for step, told in enumerate(['NaN', '0.5', 'Infinity', '-Infinity'], 1):\n"
        '    line = \'{"step": %d, "loss": %s}\' % (step, told)\n'
        "    open(os.environ['DOVETAIL_REPORT'], 'a').write(line + chr(10))\n"
    )
    open_study(here, script=script, trials=1)
    found = closed(here)
    assert [point[1] for point in found["trials"][0]["points"]] == [None, 0.5, None, None]
    assert found["best"]["value"] == 0.5


def test_a_study_is_extended_while_it_is_open(here: Box) -> None:
    open_study(here, trials=2, steps=4, pace=0.1)
    row = plain(here.daemon.studies.extend("digits", 3, ME))
    assert row["trials"] == 5
    found = closed(here)
    assert [trial["state"] for trial in found["trials"]] == ["done"] * 5
    assert len({str(trial["settings"]) for trial in found["trials"]}) == 5
    with pytest.raises(Conflict, match="closed already"):
        here.daemon.studies.extend("digits", 1, ME)


def test_a_study_that_learns_chooses_its_further_trials_by_the_others(here: Box) -> None:
    open_study(here, trials=3, steps=4, pace=0.1, sampler="tpe")
    here.daemon.studies.extend("digits", 2, ME)
    assert len(closed(here)["trials"]) == 5


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"sampler": "grid", "trials": None, "space": {"lr": {"choice": [1, 2]}}},
            "grid: it has 2",
        ),
        ({}, "10,000 trials at most"),
    ],
)
def test_what_cannot_be_extended_is_said_in_one_line(
    here: Box, fields: dict[str, Any], told: str
) -> None:
    open_study(here, **{"trials": 2, "steps": 40, "pace": 0.1} | fields)
    with pytest.raises(BadInput, match=told):
        here.daemon.studies.extend("digits", 10_000 if not fields else 1, ME)
    here.daemon.studies.stop("digits", ME)
    with pytest.raises(Conflict, match="resume it"):
        here.daemon.studies.extend("digits", 1, ME)
    here.daemon.studies.cancel("digits", ME)


def test_a_second_study_of_the_same_name_is_refused_while_the_first_is_open(here: Box) -> None:
    open_study(here, steps=100)
    with pytest.raises(Conflict, match="a study called 'digits' is open"):
        open_study(here)
    open_study(here, name="other", trials=1)
    here.daemon.studies.stop("digits", ME)
    with pytest.raises(Conflict, match="a study called 'digits' is stopped; resume it, cancel"):
        open_study(here)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"deadline": "2020-01-01 12:00"}, "deadline: .* has passed"),
        ({"budget": {"gpu_hours": 0}}, "budget.gpu_hours"),
        ({"budget": {"time": 0}}, "budget.time"),
        ({"policy": "herms"}, "herms"),
        ({"resources": {"gpus": 16}}, "resources: no trial could ever start: it needs 16 GPUs"),
        ({"nodes": 2}, "no trial could ever start: it asks for 2 nodes"),
        ({"space": {"lr": {"float": [1, 0]}}}, "space.lr"),
        pytest.param({"policy": "pbt"}, "checkpoint", marks=WITH_PBT),
        (
            {"space": {"lr": {"float": [0, 1]}, "d": {"choice": [1, 2], "from_step": 2}}},
            "from_step",
        ),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_line(
    here: Box, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint) as error:
        open_study(here, **fields)
    assert "\n" not in str(error.value)
    assert not plain(here.daemon.studies.all(ME))["studies"]


def test_only_its_owner_may_stop_a_study_or_see_its_settings(here: Box) -> None:
    open_study(here, steps=100)
    here.wait_for(lambda: page(here)["best"] is not None)
    stranger = Caller(4242, "eve", admin=False)
    with pytest.raises(NotAllowed, match="only root or an administrator may stop it"):
        here.daemon.studies.stop("digits", stranger)
    seen = plain(here.daemon.studies.one("digits", stranger))
    assert seen["best"] is None
    assert all(trial["settings"] == {} for trial in seen["trials"])
    assert page(here)["best"]["settings"]


def test_nobody_takes_or_shadows_the_name_of_anothers_study(here: Box) -> None:
    eve = Caller(ME.uid, "eve", admin=False)
    own = open_study(here, steps=100)
    assert page(here)["user"] == ME.name
    assert opened(here, eve, steps=100)["name"] == "digits"
    assert page(here)["trials"][0]["job"] == own[0]
    assert here.daemon.studies.one("digits", eve).user == "eve"
    here.daemon.studies.cancel("digits", eve)
    assert page(here)["state"] == "open"
    here.daemon.studies.cancel("digits", ME)
    assert here.daemon.studies.one("digits", eve).user == "eve"
    assert page(here)["user"] == ME.name


def test_a_study_that_is_not_there_is_not_found(here: Box) -> None:
    with pytest.raises(NotFound, match="there is no study 'nothing'"):
        page(here, "nothing")
    with pytest.raises(NotFound):
        here.daemon.studies.stop("nothing", ME)
    open_study(here, trials=1, steps=1)
    closed(here)
    with pytest.raises(Conflict, match="closed already: all trials are done"):
        here.daemon.studies.stop("digits", ME)


def test_a_study_that_closed_long_ago_is_found_by_its_id_and_its_name(here: Box) -> None:
    for name in ("first", "second", "first", "last"):
        open_study(here, name=name, trials=1, steps=100)
        here.daemon.studies.cancel(name, ME)
    # As after a hundred more: the state remembers only the last ones.
    here.daemon.service.look(lambda view, now: studies_of(view).closed.popleft())
    here.daemon.service.look(lambda view, now: studies_of(view).closed.popleft())
    here.daemon.service.look(lambda view, now: studies_of(view).closed.popleft())
    assert [page(here, name)["id"] for name in ("s1", "s2", "second", "first")] == [
        *("s1", "s2", "s2", "s3"),
    ]
    with pytest.raises(Conflict, match="'second' is closed already"):
        here.daemon.studies.stop("second", ME)
    told = plain(here.daemon.studies.all(ME, limit=3))
    assert [row["id"] for row in told["studies"]] == ["s4", "s3", "s2"]
    assert told["more"] == 1


def test_a_study_that_is_cancelled_is_closed_for_good_with_what_was_told(here: Box) -> None:
    jobs = open_study(here, steps=100)
    here.wait_for(lambda: page(here)["best"] is not None)
    with pytest.raises(NotAllowed, match="only root or an administrator may cancel it"):
        here.daemon.studies.cancel("digits", Caller(4242, "eve", admin=False))
    row = here.daemon.studies.cancel("digits", ME)
    assert (row.state, row.reason) == ("closed", f"cancelled by {ME.name}")
    assert row.stopped == 4
    assert page(here)["best"] is not None
    here.wait_for(lambda: all(here.job(job)["phase"] == "cancelled" for job in jobs))
    with pytest.raises(Conflict, match="closed already: cancelled by"):
        here.daemon.studies.resume("digits", ME)
    open_study(here, trials=1, steps=1)


def test_a_stopped_study_can_be_cancelled_before_all_its_trials_are_there(here: Box) -> None:
    pytest.importorskip("optuna")
    open_study(here, sampler="tpe", trials=9)
    here.daemon.studies.stop("digits", ME)
    row = here.daemon.studies.cancel("digits", ME)
    assert (row.state, row.trials) == ("closed", 9)


# ------------------------------------------------------------------------------------- why it waits


def test_why_a_trial_waits_names_its_study_and_its_rank(here: Box) -> None:
    jobs = open_study(here, steps=200, policy="fifo")
    here.wait_for(lambda: page(here)["running"] == 2)
    told = plain(why(here.service, jobs[3]))
    assert told["reason"] == "turn"
    assert (
        "its turn in study 'digits', in which fifo decides; it is number 2 of 2" in told["because"]
    )


def test_jobs_of_a_user_who_only_names_the_group_are_no_trials(here: Box) -> None:
    open_study(here, trials=1, steps=2)
    job = here.submit("true", group="s1")
    here.wait(job)
    assert len(closed(here)["trials"]) == 1


def test_a_trial_knows_its_gpu_and_which_part_of_it_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = (("gpu0", "GPU-a"), ("gpu1", "GPU-b"))
    node = Node("box", 2, kind="h100", gpu_memory_gb=80.0, labels=labels)
    monkeypatch.setattr(making, "machine_nodes", lambda *_: [node])
    script = (
        "import os, time\n"
        "print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['DOVETAIL_GPU_SHARE'], flush=True)\n"
        "open(os.environ['DOVETAIL_REPORT'], 'a').write('{\"step\": 1, \"loss\": 1}' + chr(10))\n"
        "time.sleep(1)\n"
    )
    resources = {"share": 0.5, "gpu_memory": "40GB"}
    with box(tmp_path / "box", policy="fifo-skip") as here:
        jobs = open_study(here, script=script, policy="fifo", steps=1, resources=resources)
        found = closed(here)
        assert (
            sorted(here.log(job).strip() for job in jobs) == ["GPU-a 0.5"] * 2 + ["GPU-b 0.5"] * 2
        )
        places = [trial["stints"][0][2] for trial in found["trials"]]
        assert sorted(places) == ["gpu 0", "gpu 0", "gpu 1", "gpu 1"]
        with pytest.raises(BadInput, match="500/1000 of a GPU with 50 GB"):
            open_study(here, name="large", resources={"share": 0.5, "gpu_memory": "50GB"})


def test_trials_and_the_jobs_behind_them_are_foreseen(here: Box) -> None:
    open_study(here, steps=40, trials=3, pace=0.1, policy="fifo")
    job = here.submit("sleep 1", estimate="1s")
    here.wait_for(lambda: page(here)["running"] == 2 and page(here)["best"] is not None)
    found = forecast(here.service)
    assert found.limited == ""
    starts = [found.start(job_id) for job_id in (page(here)["trials"][2]["job"], job)]
    assert all(start is not None for start in starts)
    assert "study digits" in str(why(here.service, job).text) + str(found.beliefs)
