"""Several ways to run a job, each with its time, and what lateness costs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Option
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.jobfiles.jobs import to_job
from dovetail.jobfiles.profiles import late_cost_per_s

OPTIONS = {"V100": {"1": "2h", "2": "70m"}, "cpu": {"4": "1-12:00:00"}}


def described(**fields: Any) -> JobSpec:
    return read({"run": "python train.py", **fields})


def test_options_are_kinds_numbers_and_times() -> None:
    job = to_job(described(options=OPTIONS), "1", "ann", 0.0)
    assert (job.gpus, job.kinds) == (1, ("V100",))
    assert job.options == (
        Option("V100", 1, 7200.0),
        Option("V100", 2, 4200.0),
        Option("cpu", 4, 129_600.0),
    )
    assert job.settles
    assert job.estimate is not None
    assert job.estimate.seconds == 7200.0


def test_resources_narrow_the_options() -> None:
    job = to_job(described(options=OPTIONS, resources={"accelerators": "V100:2"}), "1", "ann", 0.0)
    assert job.options == (Option("V100", 2, 4200.0),)
    assert job.gpus == 2


def test_a_description_with_options_survives_being_written_and_read() -> None:
    spec = described(options=OPTIONS, late_cost="0.5/h", deadline="+3h")
    assert read(dump(spec)) == spec


@pytest.mark.parametrize(
    ("text", "per_s"), [("0.5/h", 0.5 / 3600), ("12/day", 12 / 86_400), ("1 / min", 1 / 60)]
)
def test_lateness_costs_money_for_a_time(text: str, per_s: float) -> None:
    spec = described(late_cost=text)
    assert spec.late_cost is not None
    assert late_cost_per_s(spec.late_cost) == pytest.approx(per_s)
    assert to_job(spec, "1", "ann", 0.0).late_cost_per_s == pytest.approx(per_s)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"options": {"1": "2h"}}, "'1' is not a GPU kind"),
        ({"options": {"V100": "2h"}}, "options.V100: numbers of GPUs and times are needed"),
        ({"options": {"V100": {"0": "2h"}}}, "options.V100: '0' GPUs is out of range"),
        ({"options": {"V100": {"1": "-2h"}}}, "options.V100.1: '-2h' is not"),
        ({"options": {}}, "options: GPU kinds, numbers and times are needed"),
        ({"options": OPTIONS, "resources": {"share": 0.5}}, "options: they are of whole GPUs"),
        ({"options": OPTIONS, "resources": {"gpus": 3}}, "options: none of them is 3 GPUs"),
        ({"options": OPTIONS, "profile": "x.yaml"}, "options and profile: give one of them"),
        ({"late_cost": "0.5"}, "late_cost: '0.5' does not say per what time"),
        ({"late_cost": "-1/h"}, "late_cost: '-1/h' is out of range"),
        ({"profile": {"file": "x", "steps": 0}}, "profile.steps: 0 is out of range"),
    ],
)
def test_what_cannot_be_meant_is_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        described(**fields)
