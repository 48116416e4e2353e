"""Instances drawn as the authors of ANDREAS draw theirs."""

from pathlib import Path
from statistics import mean

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.traces.readers.andreas_folder import read_instance, write_instance
from dovetail.traces.synthetic.andreas_instances import Scenario, draw

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "andreas"
if not GOLDEN.exists():  # a checkout in another place: look beside the folder the tests run in
    GOLDEN = Path.cwd().parent / "shared" / "golden" / "andreas"
FOLDERS = sorted(path.name for path in GOLDEN.glob("*-N*"))


@pytest.mark.skipif(not FOLDERS, reason="the authors' instances are not here")
def test_the_same_seed_draws_the_very_instances_of_the_authors() -> None:
    for folder in FOLDERS:
        site, nodes, jobs, seed, name, mean_s = folder.lower().removesuffix("-w100").split("-")
        load = f"exponential:{mean_s}" if name == "exponential" else name
        drawn = draw(Scenario(int(nodes[1:]), int(jobs[1:]), load, int(seed[1:]), site))
        theirs = read_instance(GOLDEN / folder)
        assert drawn.nodes == theirs.nodes
        for ours, other in zip(drawn.trace.arrivals, theirs.trace.arrivals, strict=True):
            assert ours.job.id == other.job.id
            assert ours.at == pytest.approx(other.at)
            assert ours.job.deadline == pytest.approx(other.job.deadline)
            assert ours.job.late_cost_per_s == pytest.approx(other.job.late_cost_per_s)
            assert [o.seconds for o in ours.job.options] == pytest.approx(
                [o.seconds for o in other.job.options]
            )


def gap(load: str, seed: int = 1) -> float:
    arrivals = draw(Scenario(10, 2000, load, seed)).trace.arrivals
    return arrivals[-1].at / (len(arrivals) - 1)


def test_an_instance_is_written_and_read_back_as_it_was(tmp_path: Path) -> None:
    drawn = draw(Scenario(4, 30, "mixed", 3))
    write_instance(tmp_path, drawn)
    again = read_instance(tmp_path)
    assert again.trace.arrivals == drawn.trace.arrivals
    assert again.nodes == drawn.nodes
    for kind, busy in (("TESLA", 4), ("TURING", 2)):
        assert again.costs.per_hour(kind, busy) == pytest.approx(drawn.costs.per_hour(kind, busy))
        assert again.costs.watts(kind, busy) == pytest.approx(drawn.costs.watts(kind, busy))


def test_costs_are_those_that_the_authors_use() -> None:
    costs = draw(Scenario(2, 1)).costs
    assert costs.per_hour("TESLA", 3) == pytest.approx(0.198654549723)
    assert costs.per_hour("TURING", 2) == pytest.approx(0.109602510192)


def test_jobs_come_as_fast_as_the_load_says() -> None:
    assert gap("exponential:5000") == pytest.approx(500, rel=0.1)
    assert gap("high") == pytest.approx(800, rel=0.1)  # as in the authors' instances
    assert gap("low") == pytest.approx(4 * gap("high"), rel=1e-9)
    assert gap("mixed") == pytest.approx((gap("high") + gap("low")) / 2, rel=0.1)


def test_deadlines_lie_between_the_fastest_and_the_slowest_way() -> None:
    parts = []
    for arrival in draw(Scenario(10, 500)).trace.arrivals:
        times = [option.seconds for option in arrival.job.options]
        assert arrival.job.deadline is not None
        parts.append((arrival.job.deadline - arrival.at - min(times)) / (max(times) - min(times)))
    assert 0 <= min(parts) <= max(parts) <= 1
    assert mean(parts) == pytest.approx(0.5, abs=0.05)


def test_a_load_that_is_none_is_told() -> None:
    with pytest.raises(BadInput, match="no load 'huge'"):
        Scenario(load="huge")
    with pytest.raises(BadInput, match="no load 'exponential:x'"):
        Scenario(load="exponential:x")


def test_the_command_makes_a_folder_that_can_be_simulated(tmp_path: Path) -> None:
    out = str(tmp_path / "made")
    words = ["trace", "generate", "--scenario", "andreas", "--nodes", "4", "--jobs", "12"]
    made = CliRunner().invoke(cli, [*words, "--load", "exponential:5000", "--out", out])
    assert made.exit_code == 0, made.output
    assert len(read_instance(out).trace.arrivals) == 12
    run = CliRunner().invoke(cli, ["simulate", out, "--policy", "andreas-edf"])
    assert run.exit_code == 0, run.output
    refused = CliRunner().invoke(cli, words)
    assert (refused.exit_code, "--out" in refused.output) == (2, True)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl.gz", "there"])
def test_a_scenario_is_not_written_where_a_file_is_meant(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").touch()
    out = str(tmp_path / name)
    done = CliRunner().invoke(cli, ["trace", "generate", "--scenario", "andreas", "--out", out])
    assert done.exit_code == 2
    assert "a scenario is a folder of four files, not one; name a folder" in done.output
    assert not Path(out).is_dir()
