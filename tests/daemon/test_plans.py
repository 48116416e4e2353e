"""`POST /plan`: a decision on request, by a policy that the one who asks has named."""

from __future__ import annotations

from typing import Any

from processor_time import processor_s


def request_of(jobs: int, **changes: Any) -> dict[str, Any]:
    job = {
        "SubmissionTime": "Tue 21 Jul 2020, 17.00.00",
        "Deadline": "Tue 21 Jul 2020, 23.00.00",
        "Priority": 3,
        "Epochs": 360,
        "ProfilingData": {"V100": {"1": 10.0, "2": 6.0}},
    }
    return {
        "jobs": {f"j{number}": job for number in range(jobs)},
        "nodes": {"n1": {"GPUtype": "V100", "free_nGPUs": 2, "total_nGPUs": 2, "cost": 0}},
        "GPUcosts": {"V100": {"1": 1.0, "2": 1.5}},
        "currentTime": "Tue 21 Jul 2020, 18.00.00",
        **changes,
    }


def test_a_plan_is_made_for_a_request_and_mistakes_have_their_codes(live: Any) -> None:
    answer = live.ask("POST", "/plan?policy=andreas-greedy", request_of(1))
    assert answer["estimated_cost"] == 0.9  # both GPUs at 1.5 an hour for 36 minutes
    assert answer["jobs"]["j0"] == {"expected_tardiness": 0.0, "nGPUs": 2, "node": "n1"}
    status, said = live.try_to("POST", "/plan", request_of(1, nodes={}))
    assert (status, said["ERROR CODE"]) == (400, 424)
    status, said = live.try_to("POST", "/plan?policy=nonsense", request_of(1))
    assert status == 400
    assert "there is no policy 'nonsense'" in said["error"]


def test_a_policy_that_searches_without_end_is_given_up_and_takes_nothing_from_the_daemon(
    live: Any,
) -> None:
    endless = "pollux:limit_s=inf:generations=1000000000:patience=1000000000"
    before = processor_s(live.process.pid)
    status, said = live.try_to("POST", f"/plan?policy={endless}", request_of(30))
    assert status == 400
    assert "searches less" in said["error"]
    assert processor_s(live.process.pid) - before < 3.0
