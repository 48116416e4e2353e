"""The loads of the leaderboard: public traces where they are at hand, and generated jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import allocation_gavel
from dovetail import traces
from dovetail.core.model import Node
from dovetail.experiments.experiment import Experiment, with_interruption_cost
from dovetail.models.epochs import POLLUX_ROUND_S, RoundRules, Training
from dovetail.models.workload import Arrival
from dovetail.traces.clusters.applications import read_applications
from dovetail.traces.clusters.cluster_text import read_cluster

RESTORE_S = 30.0  # as in Pollux' simulator
NODE_WATTS = 400.0  # of a node that has jobs, without its GPUs
OTHER_WATTS = 300.0  # of a busy GPU whose kind is not below
BOARD_WATTS = {  # NVIDIA's data sheets; half a board for each GPU of a K80
    "v100": 300.0, "v100m16": 300.0, "v100m32": 300.0, "p100": 250.0, "k80": 150.0, "t4": 70.0,
    "a10": 150.0,
}  # fmt: skip
GENERATED_GPUS, GENERATED_JOBS = 32, 200
DEADLINE_FACTOR = 3.0
PHILLY_FROM, PHILLY_JOBS = 20_000, 2_000
ALIBABA_JOBS, ALIBABA_EVERY = 2_000, 300


@dataclass(frozen=True)
class Load:
    """Jobs and a cluster. `make` is given the folder of the traces and a seed."""

    name: str
    jobs: str  # which, and why not all
    cluster: str
    make: Callable[[Path, int], Experiment]
    needs: tuple[str, ...] = ()  # files in the folder of the traces
    drawn: bool = False  # another load for each seed

    def missing(self, folder: Path) -> list[str]:
        return [name for name in self.needs if not (folder / name).exists()]


def powered(nodes: Iterable[Node]) -> list[Node]:
    """The same nodes, with what they draw."""
    return [
        replace(node, idle_watts=NODE_WATTS, gpu_watts=BOARD_WATTS.get(node.kind.lower(), OTHER_WATTS))
        for node in nodes
    ]  # fmt: skip


def _rigid(arrivals: Sequence[Arrival], nodes: Iterable[Node]) -> Experiment:
    return Experiment(with_interruption_cost(arrivals, 0.0, RESTORE_S), powered(nodes))


def _file(name: str, cluster: str) -> Callable[[Path, int], Experiment]:
    """All jobs of a file."""
    return lambda folder, _: _rigid(traces.read(folder / name).arrivals, read_cluster(cluster))


def _philly(folder: Path, _: int) -> Experiment:
    found = traces.read(folder / PHILLY).arrivals[PHILLY_FROM : PHILLY_FROM + PHILLY_JOBS]
    return _rigid([replace(one, job=replace(one.job, tenant="")) for one in found],
                  read_cluster("32x8"))  # fmt: skip


def _pollux(folder: Path, _: int) -> Experiment:
    training = Training(read_applications(str(folder / "data/pollux")), RoundRules())
    arrivals = traces.read(f"{folder / POLLUX}#1", training=training).arrivals
    return Experiment(
        arrivals, powered(read_cluster("16x4")), placement="emptiest", training=training,
        round_s=POLLUX_ROUND_S,
    )  # fmt: skip


def _gavel(_: Path, __: int) -> Experiment:
    found = allocation_gavel.experiment("b100")
    return replace(found, nodes=powered(found.nodes))


def _alibaba(folder: Path, _: int) -> Experiment:
    pods = traces.read(folder / ALIBABA_PODS).arrivals[-ALIBABA_JOBS:]
    return _rigid(pods, read_cluster(str(folder / ALIBABA_NODES))[::ALIBABA_EVERY])


def generated(seed: int, jobs: int = GENERATED_JOBS, elastic: bool = False) -> Experiment:
    """Jobs by chance, with deadlines; elastic ones may have one GPU up to twice what they ask for."""
    recipe = traces.Recipe(
        jobs=jobs, gpus=GENERATED_GPUS, load=0.9, gangs=((1, 0.6), (2, 0.15), (4, 0.15), (8, 0.1)),
        deadline_factor=DEADLINE_FACTOR, seed=seed,
    )  # fmt: skip
    arrivals = traces.generate(recipe)
    return _rigid([_elastic(one) for one in arrivals] if elastic else arrivals, read_cluster("4x8"))


def _elastic(one: Arrival) -> Arrival:
    return replace(one, job=replace(one.job, min_gpus=1, max_gpus=2 * one.job.gpus))


PHILLY = "data/philly/philly_jobs_sep_oct.csv.gz"
MURI = "data/muri/trace3.csv.gz"
TIRESIAS = "data/tiresias/60_job.csv"
POLLUX = "data/pollux/workloads_1_to_4.csv"
RUBICK = "data/rubick/workload-base.csv"
ALIBABA_PODS = "data/alibaba_gpu_2023/openb_pod_list_default.csv.gz"
ALIBABA_NODES = "data/alibaba_gpu_2023/openb_node_list_gpu_node.csv.gz"
GAVEL = ("data/gavel/simulation_throughputs.json.gz", "golden/allocation/gavel/traces/b100.trace")
_DRAWN = (
    f"{GENERATED_JOBS} drawn jobs of 1 to 8 GPUs, load 0.9, mean 1 h, C² 10, 20 users; deadlines at "
    f"{DEADLINE_FACTOR:g} times the job's length after it comes"
)
LOADS = (
    Load("steady", f"{_DRAWN}.", "4x8",
         lambda _, seed: generated(seed), drawn=True),
    Load("elastic", f"{_DRAWN}; a job may have one GPU up to twice what it asks for, and n GPUs are "
         "n to the power of 0.8 times as fast as one.", "4x8",
         lambda _, seed: generated(seed, elastic=True), drawn=True),
    Load("tiresias", "All of 60_job.csv. On the 16 nodes of its authors no job waits, so it has a "
         "quarter of them.", "4x4", _file(TIRESIAS, "4x4"), (TIRESIAS,)),
    Load("rubick", "All of workload-base.csv, on the GPUs and for the time that it names; its "
         "execution plans are not read.", "8x8", _file(RUBICK, "8x8"), (RUBICK,)),
    Load("gavel", "Trace b100 (all 100 jobs) with Gavel's table of speeds; in leases of 360 s for "
         "policies that give leases.", allocation_gavel.WHOLE, _gavel, GAVEL),
    Load("pollux", "Workload 1 (160 jobs), by the recorded step times and learning curves: elastic, "
         "rounds of 60 s, restarts of 30 s, batches as the authors of a policy have them.", "16x4",
         _pollux, (POLLUX, "data/pollux/placements.csv.gz", "data/pollux/scalability.csv.gz",
                   "data/pollux/validation_curves.csv.gz")),
    Load("muri", "All of trace3.csv.", "8x8", _file(MURI, "8x8"), (MURI,)),
    Load("philly", f"Jobs {PHILLY_FROM + 1:,} to {PHILLY_FROM + PHILLY_JOBS:,} in order of submission, "
         "virtual clusters pooled: a slice, as all 52,849 take slow policies hours. It is a busy "
         "day.", "32x8", _philly, (PHILLY,)),
    Load("alibaba", f"The last {ALIBABA_JOBS:,} pods (of 8,152; the first ones stay for months), parts "
         f"of GPUs, CPUs and memory included, on every {ALIBABA_EVERY}th node of the list: on more "
         "of them hardly any waits. Kinds are taken for equally fast.", "5 listed nodes, 16 GPUs",
         _alibaba, (ALIBABA_PODS, ALIBABA_NODES)),
)  # fmt: skip
