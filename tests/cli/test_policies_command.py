"""`dovetail policies`: what there is to choose from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.client.command_name import typed_command
from dovetail.core.model import Job, JobId, Node
from dovetail.experiments.experiment import Experiment
from dovetail.models.workload import Arrival
from dovetail.policies import registry
from dovetail.policies.placement import count
from dovetail.policies.queueing import Tiresias


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
        "round_s": "0",
    }


@pytest.mark.parametrize("name", registry.BUILTIN)
def test_the_parameters_shown_can_be_typed_back(name: str) -> None:
    experiment = Experiment([Arrival(0.0, Job(JobId("a")), 1.0)], [Node("n0", 1)])
    knowledge = experiment.knowledge()
    shown = registry.describe(name).parameters
    text = ":".join([name, *(f"{key}={value}" for key, value in shown.items())])
    assert registry.make(text, count, knowledge) == registry.make(name, count, knowledge)


def test_one_policy_is_told_with_all_it_says_of_itself() -> None:
    done = CliRunner().invoke(cli, ["policies", "tiresias"])
    assert done.exit_code == 0
    assert "`promote`: back to the first queue" in done.stdout
    assert "\n  limits=3250/7200\n" in done.stdout
    assert "srtf" not in done.stdout


def test_one_policy_as_json_is_a_list_of_one() -> None:
    done = CliRunner().invoke(cli, ["policies", "srtf", "--json"])
    assert [one["name"] for one in json.loads(done.stdout)] == ["srtf"]


def test_gittins_is_said_to_need_the_distribution_of_service() -> None:
    listed = " ".join(CliRunner().invoke(cli, ["policies"]).stdout.split())
    assert listed.count("Needs the distribution of service") == 1


@pytest.mark.parametrize(
    ("queues", "limits"),
    [(1, ()), (2, (3250,)), (3, (3250, 7200)), (5, (3250, 7200, 14400, 28800))],
)
def test_tiresias_finds_limits_for_its_queues(queues: int, limits: tuple[float, ...]) -> None:
    experiment = Experiment([Arrival(0.0, Job(JobId("a")), 1.0)], [Node("n0", 1)])
    made = registry.make(f"tiresias:queues={queues}", count, experiment.knowledge())
    assert isinstance(made, Tiresias)
    assert made.limits == limits


def test_the_demo_names_the_command_as_it_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dovetail").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "bin" / "dovetail"), "demo"])
    assert typed_command() == "bin/dovetail"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert typed_command() == "dovetail"
