"""What backfilling promises holds for jobs that need nodes, not just GPUs."""

import pytest

from dovetail.testing import arrival, nodes, run_trace

both = pytest.mark.parametrize("policy", ["easy", "conservative"])


@both
def test_a_job_is_not_starved_by_small_ones_that_never_leave_a_node_empty(policy: str) -> None:
    """Half of the GPUs are free at all times, but never by themselves all those of a node."""
    small = [arrival(f"s{i}", 25.0 * i, 100.0, 1) for i in range(60)]
    wide = arrival("wide", 110.0, 50.0, 4, nodes=1)
    jobs = sorted([*small, wide], key=lambda came: came.at)
    run = run_trace(policy, jobs, nodes(2, 4), place="spread")
    assert run.first_starts["wide"] <= 200.0


@both
def test_what_ends_in_time_may_use_the_nodes_of_a_job_that_waits_for_them(policy: str) -> None:
    jobs = [
        arrival("long", 0.0, 100.0, 4),
        arrival("wide", 1.0, 10.0, 8, nodes=2),
        arrival("short", 2.0, 50.0, 2),
        arrival("longer", 3.0, 200.0, 2),
    ]
    run = run_trace(policy, jobs, nodes(2, 4))
    assert run.first_starts == {"long": 0.0, "wide": 100.0, "short": 2.0, "longer": 110.0}


@both
def test_a_long_job_may_start_beside_the_nodes_that_are_kept(policy: str) -> None:
    jobs = [
        arrival("long", 0.0, 100.0, 4),
        arrival("wide", 1.0, 10.0, 8, nodes=2),
        arrival("longer", 3.0, 200.0, 2),
    ]
    assert run_trace(policy, jobs, nodes(3, 4)).first_starts["wide"] == 1.0
    jobs.insert(1, arrival("busy", 0.5, 300.0, 2))
    run = run_trace(policy, jobs, nodes(3, 4))
    assert run.first_starts["wide"] == 100.0
    assert run.first_starts["longer"] == 3.0
