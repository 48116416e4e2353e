"""Options and late costs in traces of our own, and files that say what things cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Option
from dovetail.traces.clusters.cost_files import read_costs

CSV = """job_id,submit_s,options,deadline_s,late_cost_per_s
a,0,V100:2=70m|V100:1=7200|T4:1=5h,9000,0.001
b,10,T4:1=3h,,
"""


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_row_may_have_several_ways_each_with_its_time(tmp_path: Path) -> None:
    first, second = traces.read(written(tmp_path, "jobs.csv", CSV)).arrivals
    assert first.job.options == (
        Option("V100", 2, 4200.0),
        Option("V100", 1, 7200.0),
        Option("T4", 1, 18_000.0),
    )
    assert first.work_s == 4200.0, "without a duration it is that of the first option"
    assert (first.job.gpus, first.job.kinds) == (1, ("T4", "V100"))
    assert first.job.late_cost_per_s == 0.001
    assert second.job.late_cost_per_s is None


@pytest.mark.parametrize("name", ["again.csv", "again.jsonl"])
def test_what_is_written_reads_back_equal(tmp_path: Path, name: str) -> None:
    arrivals = traces.read(written(tmp_path, "jobs.csv", CSV)).arrivals
    traces.write(tmp_path / name, arrivals)
    assert traces.read(str(tmp_path / name)).arrivals == arrivals


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("V100=3h", "is no option"),
        ("V100:x=3h", "x"),
        ("V100:1=-3", "is negative"),
        ("V100:1=0", "more than 0 s"),
        ("V100:1=1h|V100:1=2h", "two options"),
        ("", "is empty, and there is no duration_s"),
    ],
)
def test_an_option_that_makes_no_sense_is_told_with_its_line(
    tmp_path: Path, cell: str, told: str
) -> None:
    with pytest.raises(BadInput) as error:
        traces.read(written(tmp_path, "jobs.csv", f"submit_s,options\n0,{cell}\n"))
    assert told in str(error.value)
    assert "2" in str(error.value)


def test_a_cost_file_says_prices_and_watts(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "costs.toml",
        "price = 0.5\npue = 2\n[watts]\nH100 = [700, 1000]\n[per_hour]\nT4 = [3]\n",
    )
    nodes = [Node("a", 2, "H100"), Node("b", 1, "A100", gpu_watts=400.0), Node("c", 1, "T4")]
    costs = read_costs(path).costs(nodes)
    assert costs.watts("H100", 2) == 2000.0
    assert costs.per_hour("H100", 1) == pytest.approx(0.7)
    assert costs.watts("A100", 1) == 800.0, "what the file does not say is known of the node"
    assert costs.per_hour("T4", 1) == 3.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prize = 1", "'prize' is not known"),
        ("price = -1", "price: -1 is no such number; give 0 or more"),
        ("pue = 0.5", "pue: 0.5 is no such number; give 1 or more"),
        ("watts = 3", "watts is no table"),
        ("[watts]\nH100 = 3", "watts.H100: 3 is no list"),
        ("[watts]\nH100 = ['x']", "watts.H100: 'x' is no such number"),
        ("price = 'gone.csv'", "gone.csv"),
    ],
)
def test_a_cost_file_that_makes_no_sense_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        read_costs(written(tmp_path, "costs.toml", text))
    assert told in str(error.value)
