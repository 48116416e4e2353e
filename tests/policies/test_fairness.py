"""Sharing between users, worked by hand."""

from math import log

import pytest

from dovetail.core.entries import Start
from dovetail.core.model import Node
from dovetail.testing import arrival, nodes, run_trace


def started(run: object) -> list[str]:
    return [entry.job_id for entry in run.of(Start)]  # type: ignore[attr-defined]


def test_drf_gives_the_example_of_the_paper() -> None:
    """9 CPUs and 18 GB; A's tasks need (1 CPU, 4 GB), B's (3 CPUs, 1 GB): 3 tasks for A, 2 for B."""
    arrivals = [
        arrival(f"{user}{i}", 0.0, 100.0, 0, user=user, cpus=cpus, memory_gb=memory_gb)
        for i in range(6)
        for user, cpus, memory_gb in (("A", 1.0, 4.0), ("B", 3.0, 1.0))
    ]
    run = run_trace("drf", arrivals, [Node("n", 0, cpus=9.0, memory_gb=18.0)])
    at_once = [job_id for job_id, start in run.first_starts.items() if start == 0.0]
    assert sorted(job_id[0] for job_id in at_once) == ["A", "A", "A", "B", "B"]
    assert started(run)[:5] == ["A0", "B0", "A1", "B1", "A2"]


def test_drf_counts_what_is_held_now_not_what_was_used() -> None:
    run = run_trace(
        "drf",
        [
            arrival("a0", 0.0, 100.0, 2, user="a"),
            arrival("a1", 200.0, 10.0, 2, user="a"),
            arrival("b0", 200.0, 10.0, 2, user="b"),
        ],
        nodes(1, 2),
    )
    assert started(run) == ["a0", "a1", "b0"]


def test_fair_share_remembers_who_used_what() -> None:
    run = run_trace(
        "fair-share",
        [
            arrival("a0", 0.0, 100.0, 2, user="a"),
            arrival("a1", 200.0, 10.0, 2, user="a"),
            arrival("b0", 200.0, 10.0, 2, user="b"),
        ],
        nodes(1, 2),
    )
    assert started(run) == ["a0", "b0", "a1"]


def test_fair_share_forgets_with_its_half_life() -> None:
    """a holds 4 GPUs from 0 to 10, b 1 GPU from 90 to 100, usage halves every 10 s. At 100 a has
    used (4·10/ln 2)·½·2⁻⁹ < b's (10/ln 2)·½: a goes first. Without decay a's 40 > 10 b's."""
    arrivals = [
        arrival("a0", 0.0, 10.0, 4, user="a"),
        arrival("b0", 90.0, 10.0, 1, user="b"),
        arrival("block", 95.0, 5.0, 3, user="c"),
        arrival("b1", 99.0, 10.0, 4, user="b"),
        arrival("a1", 99.0, 10.0, 4, user="a"),
    ]
    assert started(run_trace("fair-share:half_life_s=10", arrivals, nodes(1, 4)))[3:] == [
        "a1",
        "b1",
    ]
    assert started(run_trace("fair-share:half_life_s=1e9", arrivals, nodes(1, 4)))[3:] == [
        "b1",
        "a1",
    ]


@pytest.mark.parametrize(("b_holds", "first"), [(1, "b"), (3, "a")])
def test_decayed_usage_is_the_integral_of_what_was_held(b_holds: int, first: str) -> None:
    """With half-life h, x GPUs held from t1 to t2 count x·h/ln 2·(2^-((T-t2)/h) - 2^-((T-t1)/h)) at T.
    a: 2 GPUs from 0 to 20; b: some GPUs from 20 to 30; h = 20, T = 30."""

    def used(gpus: float, start: float, end: float) -> float:
        return gpus * 20 / log(2) * (2 ** -((30 - end) / 20) - 2 ** -((30 - start) / 20))

    assert (used(2, 0, 20) < used(b_holds, 20, 30)) == (first == "a")
    run = run_trace(
        "fair-share:half_life_s=20",
        [
            arrival("a0", 0.0, 20.0, 2, user="a"),
            arrival("b0", 20.0, 10.0, b_holds, user="b"),
            arrival("block", 20.0, 10.0, 4 - b_holds, user="c"),
            arrival("b1", 25.0, 1.0, 4, user="b"),
            arrival("a1", 25.0, 1.0, 4, user="a"),
        ],
        nodes(1, 4),
    )
    assert started(run)[3] == f"{first}1"


def test_a_user_is_served_in_order_of_submission() -> None:
    run = run_trace(
        "fair-share", [arrival(f"j{i}", 0.0, 5.0, user="a") for i in range(4)], nodes(1, 1)
    )
    assert started(run) == ["j0", "j1", "j2", "j3"]


def test_users_without_history_take_turns() -> None:
    arrivals = [arrival(f"{user}{i}", 0.0, 10.0, user=user) for user in "ab" for i in range(3)]
    run = run_trace("drf", arrivals, nodes(1, 2))
    assert started(run) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_job_without_a_user_counts_for_its_tenant() -> None:
    arrivals = [
        arrival("a0", 0.0, 10.0, tenant="a"),
        arrival("a1", 0.0, 10.0, tenant="a"),
        arrival("b0", 0.0, 10.0, tenant="b"),
    ]
    assert started(run_trace("drf", arrivals, nodes(1, 2))) == ["a0", "b0", "a1"]


def test_a_users_job_that_does_not_fit_holds_up_nobody() -> None:
    arrivals = [
        arrival("a0", 0.0, 10.0, 1, user="a"),
        arrival("b big", 1.0, 10.0, 2, user="b"),
        arrival("b small", 1.0, 10.0, 1, user="b"),
    ]
    assert run_trace("drf", arrivals, nodes(1, 2)).first_starts["b small"] == 1.0


@pytest.mark.parametrize(
    ("policy", "order"),
    [("fair-share", ["a0", "b0", "a2", "a1"]), ("drf", ["a0", "a2", "a1", "b0"])],
)
def test_of_one_users_jobs_those_of_higher_priority_go_first(policy: str, order: list[str]) -> None:
    """Between users priority counts for nothing: everybody could ask for more."""
    run = run_trace(
        policy,
        [
            arrival("a0", 0.0, 10.0, 2, user="a"),
            arrival("a1", 1.0, 10.0, 2, user="a"),
            arrival("a2", 2.0, 10.0, 2, user="a", priority=5.0),
            arrival("b0", 3.0, 10.0, 2, user="b"),
        ],
        nodes(1, 2),
    )
    assert started(run) == order
