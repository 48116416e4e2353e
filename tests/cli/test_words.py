"""What commands say: nothing twice, nothing empty, and ways out that work as typed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from dovetail.catalogue import settable
from dovetail.cli.studies.study_follow import ending
from dovetail.client.job_facts import _preemptions, details
from dovetail.policies import registry
from dovetail.policies.catalogue import CATALOGUE
from job_samples import a_job
from study_samples import a_study, a_trial


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dovetail.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_dovetail_alone_shows_the_first_commands() -> None:
    done = typed()
    assert (done.returncode, done.stderr) == (0, "")
    assert "dovetail submit -- python train.py" in done.stdout
    assert len(done.stdout.splitlines()) < 20


def test_the_doctor_advises_for_the_home_that_was_named(tmp_path: Path) -> None:
    home = str(tmp_path / "none")
    done = typed("--home", home, "doctor")
    assert done.returncode == 1
    assert f"start one: dovetail --home {home} up" in done.stdout
    advice = re.findall(r"dovetail(?: --home \S+)? (?:up|down|policy)", done.stdout)
    assert advice
    assert all(home in own for own in advice)


def test_a_command_that_does_not_exist_brings_those_like_it_and_all_where_they_are_few() -> None:
    assert "No such command 'que'; did you mean queue" in typed("que").stderr
    assert "there are create, list, revoke" in typed("token", "zzz").stderr
    assert typed("submit", "--gpus", "two", "--", "true").stderr.startswith(
        "dovetail: Invalid value for '--gpus': 'two' is not a whole number (see "
    )


def test_a_study_that_is_over_tells_its_counts_once() -> None:
    trials = [a_trial(0, 3, "done"), a_trial(1, 1, "failed")]
    study = a_study(trials, state="closed", reason="1 of 2 trials is done, 1 failed")
    assert ending(study)[0].count("1 of 2 trials") == 1


def test_a_time_slice_has_one_name_and_the_old_one_is_still_read() -> None:
    for name in ("round-robin", "multilevel-feedback", "gandiva"):
        found = settable(registry.find(name))
        assert "quantum_s" in found
        assert "slice_s" not in found
        known = CATALOGUE.given(f"{name}:slice_s=7", found)
        assert known == {"quantum_s": "7"}


def test_a_job_that_gave_way_by_being_ended_is_told_without_a_rung() -> None:
    how = {"rung": "", "save_s": 2.0, "restore_s": None, "parked_bytes": 0}
    assert _preemptions(a_job(preemptions=1, preemption=how)) == "1, the last: saved in 2 s"
    named = a_job(preemptions=3, preemption={**how, "rung": "freeze"})
    assert _preemptions(named) == "3, the last by freeze: saved in 2 s"


def test_what_a_job_lost_is_explained() -> None:
    told = details(a_job(lost_gpu_s=40.0), None, 100.0)
    assert "lost       40 s of GPU time, to save it, to bring it back, and to do work again" in told
    assert not [line for line in details(a_job(), None, 100.0) if line.startswith("lost")]
