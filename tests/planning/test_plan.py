"""`dovetail plan`: the recorded requests of the ANDREAS optimiser, and what is said of bad ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.planning.answer import planned
from dovetail.planning.request import BadRequest, read_request

RECORDED = Path(__file__).parents[3] / "shared" / "golden" / "andreas" / "requests"
if not RECORDED.exists():  # a checkout in another place: look beside the folder the tests run in
    RECORDED = Path.cwd().parent / "shared" / "golden" / "andreas" / "requests"
needs_recorded = pytest.mark.skipif(
    not RECORDED.exists(), reason="the recorded requests are not here"
)

TIMES = {"V100": {"1": 10.0, "2": 8.0}}
REQUEST: dict[str, Any] = {
    "jobs": {
        name: {
            "SubmissionTime": "Tue 21 Jul 2020, 17.00.00",
            "Deadline": "Tue 21 Jul 2020, 19.00.00",
            "Priority": 3,
            "Epochs": "360",
            "ProfilingData": TIMES,
        }
        for name in ("a", "b")
    },
    "nodes": {"n1": {"GPUtype": "V100", "free_nGPUs": 2, "total_nGPUs": 2, "cost": 0.0}},
    "GPUcosts": {"V100": {"1": 1.0, "2": 1.5}},
    "currentTime": "Tue 21 Jul 2020, 18.00.00",
}


def request_with(**changes: Any) -> dict[str, Any]:
    """The request with parts changed, by their path: nodes__n1__free_nGPUs=0; None takes one away."""
    data = copy.deepcopy(REQUEST)
    for path, value in changes.items():
        *parts, last = path.split("__")
        inner = data
        for part in parts:
            inner = inner[part]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return data


def spots(answer: Any) -> dict[str, tuple[int, str]]:
    return {name: (job["nGPUs"], job["node"]) for name, job in answer["jobs"].items()}


@needs_recorded
@pytest.mark.parametrize("number", ["01", "02", "03", "04", "06", "09", "11", "12", "14"])
def test_recorded_requests_are_answered_as_recorded(number: str) -> None:
    recorded = json.loads((RECORDED / f"req{number}.json").read_text())
    answer, wanted = planned(read_request(recorded)).answer, recorded["expected"]
    assert answer["estimated_cost"] == pytest.approx(wanted["estimated_cost"], abs=5e-5)
    assert answer["estimated_rescheduling_time"] == wanted["estimated_rescheduling_time"]
    assert spots(answer) == spots(wanted)
    late = {name: job["expected_tardiness"] for name, job in answer["jobs"].items()}
    assert late == pytest.approx({n: j["expected_tardiness"] for n, j in wanted["jobs"].items()})


@needs_recorded
@pytest.mark.parametrize("number", ["07", "08", "10"])
def test_recorded_mistakes_get_the_recorded_codes(number: str) -> None:
    recorded = json.loads((RECORDED / f"req{number}.json").read_text())
    with pytest.raises(BadRequest) as caught:
        planned(read_request(recorded))
    assert {"ERROR CODE": caught.value.code} == recorded["expected"]


@pytest.mark.parametrize("policy", ["andreas-greedy", "andreas-local-search", "srtf", "fifo"])
def test_any_policy_may_decide(policy: str) -> None:
    answer = planned(read_request(REQUEST), policy).answer
    assert spots(answer).keys() == {"a", "b"}
    assert answer["estimated_cost"] == pytest.approx(1.5)
    assert answer["estimated_rescheduling_time"] == "Tue 21 Jul 2020, 19.00.00"


def test_a_job_that_runs_stays_where_it_is_and_strangers_are_left_alone() -> None:
    data = request_with(
        nodes__n1__free_nGPUs=1,
        nodes__n2={"GPUtype": "V100", "free_nGPUs": 0, "total_nGPUs": 2, "cost": 0.0},
        currentScheduling={"b": {"node": "n1", "GPUtype": "V100", "nGPUs": 1}},
    )
    assert spots(planned(read_request(data)).answer) == {"a": (1, "n1"), "b": (1, "n1")}


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        ({"jobs": None}, 414, "no 'jobs'"),
        ({"nodes": {}}, 424, "no 'nodes'"),
        ({"currentTime": None}, 434, "currentTime"),
        ({"GPUcosts": None}, 474, "GPUcosts"),
        ({"jobs__a__Priority": 0}, 444, "job 'a'"),
        ({"jobs__a__Deadline": None}, 444, "job 'a'"),
        ({"jobs__a__ProfilingData": None}, 454, "job 'a'"),
        (
            {"jobs__b__ProfilingData": {"T4": {"1": 3}}},
            454,
            "job 'b' has ProfilingData for no node",
        ),
        ({"GPUcosts__V100": {"1": 1.0}}, 484, "node 'n1' has 2 GPUs"),
        ({"nodes__n1__free_nGPUs": 0}, 464, "no job"),
        ({"jobs__a__ProfilingData": {"V100": {"1": -3}}}, 400, "job 'a'"),
        ({"currentTime": "soon"}, 400, "17.56.59"),
        ({"jobs": [1]}, 400, "JSON object"),
        ({"currentScheduling": {"a": {"node": "n9", "nGPUs": 1}}}, 400, "none of its settings"),
    ],
)
def test_each_mistake_has_its_code_and_a_sentence(
    changes: dict[str, Any], code: int, told: str
) -> None:
    with pytest.raises(BadRequest, match=told) as caught:
        planned(read_request(request_with(**changes)))
    assert caught.value.code == code


def test_the_command_prints_the_answer_the_passes_and_the_codes(tmp_path: Path) -> None:
    def typed(data: object, *more: str) -> Result:
        file = tmp_path / "request.json"
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return CliRunner().invoke(cli, ["plan", str(file), *more])

    said = typed({"request": REQUEST})
    assert said.exit_code == 0
    assert spots(json.loads(said.stdout)) == {"a": (1, "n1"), "b": (1, "n1")}
    assert "note: the best of 4 passes" in said.stderr
    said = typed(REQUEST, "--limit", "1e-9")
    assert spots(json.loads(said.stdout)) == {"a": (1, "n1"), "b": (1, "n1")}
    assert "note: time is up after 1 of 4 passes; the best so far" in said.stderr
    assert "give a positive number" in str(typed(REQUEST, "--limit", "-1").exception)
    said = typed(request_with(nodes=None))
    assert (said.exit_code, json.loads(said.stdout)) == (1, {"ERROR CODE": 424})
    assert "no 'nodes'" in said.stderr
    assert "not JSON" in str(typed("{").exception)
    assert "no method" in str(typed(request_with(method="XY")).exception)
