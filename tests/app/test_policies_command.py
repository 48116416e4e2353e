"""`dovetail policies`: what there is to choose from."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from dovetail.app.experiment import Experiment
from dovetail.app.main import cli
from dovetail.core.model import Job, JobId, Node
from dovetail.models.workload import Arrival
from dovetail.policies import registry
from dovetail.policies.placement import count


def listed() -> list[dict[str, object]]:
    done = CliRunner().invoke(cli, ["policies", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_every_policy_is_listed_with_what_it_does() -> None:
    done = CliRunner().invoke(cli, ["policies"])
    assert done.exit_code == 0
    for name in registry.BUILTIN:
        assert re.search(rf"^{re.escape(name)} +\S", done.stdout, re.MULTILINE), name
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_json_list_has_name_summary_parameters_and_needs() -> None:
    found = {str(one["name"]): one for one in listed()}
    assert list(found) == registry.names()
    for one in found.values():
        assert list(one) == ["name", "summary", "parameters", "needs"]
        assert str(one["summary"]).endswith(".")
    assert found["fifo"]["parameters"] == {}
    assert found["srtf"]["needs"] == ["predictor"]
    assert found["gittins"]["needs"] == ["services"]
    assert found["tiresias"]["parameters"] == {
        "queues": "3",
        "limits": "3250/7200",
        "promote": "0",
        "late": "false",
    }


@pytest.mark.parametrize("name", registry.BUILTIN)
def test_the_parameters_shown_can_be_typed_back(name: str) -> None:
    experiment = Experiment([Arrival(0.0, Job(JobId("a")), 1.0)], [Node("n0", 1)])
    knowledge = experiment.knowledge()
    shown = registry.describe(name).parameters
    text = ":".join([name, *(f"{key}={value}" for key, value in shown.items())])
    assert registry.make(text, count, knowledge) == registry.make(name, count, knowledge)
