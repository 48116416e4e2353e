"""The 55 features and factors, and what a trace has of them."""

from __future__ import annotations

from pathlib import Path

from dovetail import traces
from dovetail.core.model import Estimate, Interruption
from dovetail.insight.feature_catalogue import STATUSES, WITH_PREDICTOR, FeatureCatalogue, catalogue
from dovetail.models.workload import Arrival
from dovetail.policies import registry
from dovetail.testing import arrival, nodes
from dovetail.traces.trace import Trace

WEEK_S = 604_800.0


def of(*arrivals: Arrival, columns: tuple[str, ...] = ()) -> FeatureCatalogue:
    return catalogue(Trace(list(arrivals), columns=columns), nodes(2, 8))


def status(found: FeatureCatalogue, item: str) -> str:
    return next(own.status for own in found.items if own.id == item)


def test_there_are_55_and_every_one_has_a_status_and_says_how_to_record_it() -> None:
    found = of(arrival("a"))
    ids = [item.id for item in found.items]
    numbers = {"J": 37, "C": 12, "D": 6}
    assert ids == [f"{letter}{i}" for letter, most in numbers.items() for i in range(1, most + 1)]
    assert {item.status for item in found.items} <= set(STATUSES)
    assert all(item.record and item.effect and item.systems for item in found.items)


def test_every_policy_named_is_one_of_ours() -> None:
    named = {policy for item in of(arrival("a")).items for policy in item.policies}
    assert named | set(WITH_PREDICTOR) <= set(registry.BUILTIN)


def test_those_that_are_told_durations_do_take_a_predictor() -> None:
    assert all("predictor" in registry.describe(name).needs for name in WITH_PREDICTOR)


def test_how_jobs_ended_in_a_column_that_is_not_read_is_derivable() -> None:
    trace = Trace([arrival("a")], "jobs.csv", columns=("submit_s", "duration_s", "Status"))
    found = next(own for own in catalogue(trace, nodes(1, 8)).items if own.id == "J31")
    assert (found.status, found.evidence) == (
        "derivable",
        "column Status, which Dovetail does not read",
    )


def test_what_the_jobs_tell_is_present_and_what_nobody_tells_is_missing() -> None:
    bare = of(arrival("a"), arrival("b", 5.0))
    rich = of(
        arrival("a", user="ann", name="train", tenant="x", estimate=Estimate(60.0)),
        arrival("b", 5.0, interruption=Interruption(5.0, 20.0), priority=2.0, model="bert"),
    )
    for item in ("J4", "J5", "J6", "J8", "J9", "J11", "J32"):
        assert (status(bare, item), status(rich, item)) == ("missing", "present")
    assert (
        next(own.evidence for own in rich.items if own.id == "J4") == "50.0% of the jobs, 1 users"
    )


def test_a_column_that_we_do_not_read_is_still_there() -> None:
    assert status(of(arrival("a")), "J21") == "missing"
    found = of(arrival("a"), columns=("submit_s", "GPU Util"))
    assert status(found, "J21") == "present"
    assert "GPU Util" in next(own.evidence for own in found.items if own.id == "J21")


def test_drift_needs_three_weeks() -> None:
    assert status(of(arrival("a"), arrival("b", 2.9 * WEEK_S)), "D4") == "missing"
    assert status(of(arrival("a"), arrival("b", 3.1 * WEEK_S)), "D4") == "derivable"


def test_without_durations_nothing_that_needs_them_is_claimed() -> None:
    trace = Trace([arrival("a"), arrival("b", 9.0)], lacking=("duration_s",))
    found = catalogue(trace, nodes(1, 8))
    assert {status(found, item) for item in ("J30", "J25", "D3", "C4")} == {"missing"}


def test_racks_kinds_and_tenants_are_found_in_the_cluster() -> None:
    mixed = (*nodes(1, 8, kind="V100", rack="r1", tenant="x"), *nodes(1, 4, kind="T4", rack="r2"))
    found = catalogue(Trace([arrival("a")]), mixed)
    assert {status(found, item) for item in ("C1", "C2", "C3", "C9")} == {"present"}
    assert next(own.evidence for own in found.items if own.id == "C2") == "T4, V100"


def test_every_lacking_feature_refers_to_items_that_exist() -> None:
    found = of(arrival("a"))
    ids = {item.id for item in found.items}
    assert len(found.lacking) == 13
    assert all(set(row.of) <= ids for row in found.lacking)


def test_muris_iterations_are_seen_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "muri.csv"
    path.write_text("job_id,num_gpu,submit_time,duration,iterations\n1,1,0,60,100\n2,2,5,60,90\n")
    found = catalogue(traces.read(path), nodes(1, 8))
    assert status(found, "J16") == "present"
