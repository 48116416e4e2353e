"""Instance folders: four CSV files with jobs, times, nodes and costs."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.core.model import Option
from dovetail.traces.readers.andreas_folder import read_instance

FILES = {
    "Lof_Selectjobs.csv": "ID,SubmissionTime,Deadline,TardinessWeight\na,0,5000,0.001\nb,10,900,0.002\n",
    "SelectJobs_times.csv": "ID,GPUtype,nGPUs,GPUf,ExecutionTime\n"
    "a,V100,2,1,600\na,V100,1,1,1000\na,T4,1,1,2000\nb,V100,1,1,500\n",
    "tNodes.csv": "ID,GPUtype,nGPUs,cost\nn1,V100,2,0\nn2,T4,1,0.5\n",
    "GPU-costs.csv": "GPUtype,nGPUs,PowerConsumption[W],EnergyCost[€/kWh],PUE,cost\n"
    "V100,1,500,0.2,1.5,0.15\nV100,2,800,0.2,1.5,0.24\nT4,1,200,0.2,1.5,0.06\n",
}


def folder(path: Path, **changed: str) -> Path:
    for name, text in FILES.items():
        (path / name).write_text(changed.get(name.split(".")[0].replace("-", "_"), text))
    return path


def test_a_folder_gives_jobs_with_options_nodes_and_costs(tmp_path: Path) -> None:
    instance = read_instance(folder(tmp_path))
    first, second = instance.trace.arrivals
    assert (first.job.gpus, first.job.kinds) == (1, ("T4", "V100"))
    assert first.job.options[0] == Option("T4", 1, 2000.0)
    assert (first.work_s, first.job.deadline, first.job.late_cost_per_s) == (2000.0, 5000.0, 0.001)
    assert second.at == 10.0
    assert [(n.id, n.kind, n.gpus) for n in instance.nodes] == [("n1", "V100", 2), ("n2", "T4", 1)]
    assert instance.costs.per_hour("V100", 2) == 0.24
    assert instance.costs.watts("V100", 2) == 1200.0
    assert instance.costs.by_node == {"n2": 0.5}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        (
            "Lof_Selectjobs",
            "ID,SubmissionTime,Deadline,TardinessWeight\nz,0,5,1\n",
            "'z' can run on no",
        ),
        (
            "Lof_Selectjobs",
            "ID,SubmissionTime,Deadline,TardinessWeight\na,9,5,1\n",
            "'a' is due at 5",
        ),
        ("Lof_Selectjobs", "ID,SubmissionTime,Deadline\na,9,5\n", "no column 'TardinessWeight'"),
        (
            "SelectJobs_times",
            "ID,GPUtype,nGPUs,ExecutionTime\na,V100,1,-3\n",
            "'ExecutionTime': '-3' is negative",
        ),
        (
            "SelectJobs_times",
            "ID,GPUtype,nGPUs,ExecutionTime\na,X1,1,3\n",
            "'a' can run on no node",
        ),
        ("tNodes", "ID,GPUtype,nGPUs,cost\nn1,H100,2,0\n", "'n1' has 2 GPUs of kind 'H100'"),
        ("GPU_costs", "GPUtype,nGPUs,cost\nT4,2,0.1\n", "no cost for 1 busy"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        read_instance(folder(tmp_path, **{file: text}))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"GPU-costs\.csv"):
        read_instance(tmp_path)


def test_simulate_takes_a_folder_and_no_cluster(tmp_path: Path) -> None:
    def typed(*words: str) -> Result:
        return CliRunner().invoke(cli, ["simulate", *words])

    path = str(folder(tmp_path))
    said = typed(path, "--policy", "andreas-greedy")
    assert said.exit_code == 0
    assert "total cost" in said.output
    said = typed(path, "--policy", "fifo", "--cluster", "8x8")
    assert (said.exit_code, "nodes of its own" in said.output) == (2, True)
    said = typed(__file__, "--policy", "fifo")
    assert (said.exit_code, "--cluster" in said.output) == (2, True)
