"""How well models tell the speed of similar ones, and what a policy gains by it.

`python -m benchmarks similarity`: on Gavel's table with each job type, and each model, left out; and
Gavel's jobs on a cluster of K80, P100 and V100.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import exp, log
from pathlib import Path
from random import Random
from statistics import mean, median

from benchmarks.lines import Line
from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.models.workload import Arrival
from dovetail.predict.left_out import Miss, choices, left_out, same_type
from dovetail.predict.similarity import Scales, same_model
from dovetail.traces.clusters.cluster_text import read_cluster
from dovetail.traces.clusters.speed_tables import read_speed_table
from dovetail.tune.comparison import interval

GAVEL = Path(__file__).parent.parent.parent / "shared/data/gavel/throughputs_flat.csv.gz"
TABLES = ("simulation", "physical_cluster")  # of Gavel
COUNTS = (1, 2, 4, 8)
CLUSTER = "1x8:V100+1x8:P100+1x8:K80"  # a policy that takes no notice fills the fastest first
JOBS = 120
SEEDS = 20
LOADS = (0.0, 0.7, 1.2)  # of the cluster; 0: everything is there at the beginning
MOVING = Interruption(save_s=10.0, restore_s=30.0)
KNOWING = ("none", "strangers", "similar", "oracle")
# Far around ours, so that a choice made without a model can also go wrong.
GRID = [
    Scales(other_family=family, layer_work=work, parameters=parameters)
    for family, work, parameters in product(
        (0.0, 0.5, 1.0, 2.0, 4.0), (0.02, 0.05, 0.1, 0.3, 1.0), (0.0, 0.01, 0.05)
    )
]


def measured() -> Iterator[Line]:
    """Speeds of similar models on Gavel's table, and the model-similarity policy on mixed GPUs."""
    if not GAVEL.exists():
        print(f"     {GAVEL} is not there: nothing to measure")
        return
    for name in TABLES:
        table = read_speed_table(f"{GAVEL}#{name}")
        print(f"     {name}: {len(table.speeds)} job types on {', '.join(table.kinds)}")
        yield from predictions(table)
    yield from makespans(read_speed_table(f"{GAVEL}#{TABLES[0]}"))


# ------------------------------------------------------------------------------------- predictions


def predictions(table: SpeedTable) -> Iterator[Line]:
    for counts in ((1,), COUNTS):
        on = "1 GPU" if counts == (1,) else "1 to 8 GPUs"
        yield _types_left_out(list(left_out(table, same_type, counts)), on)
        yield _models_left_out(list(left_out(table, same_model, counts)), on, counts == (1,))
    unseen = unseen_scales(table, GRID)
    yield _beats_the_median(unseen, "speed ratios, whole model left out, scales chosen without it")
    _print_models(list(left_out(table, same_model)), unseen)
    found = list(choices(table, same_type))
    right, regret = mean(one.right for one in found), mean(one.regret for one in found)
    yield Line(
        "the fastest kind, its type left out: right, regret",
        f"{right:.0%}, {regret:.1%}", "regret under 10 %", regret < 0.1,
    )  # fmt: skip
    strange = list(choices(table, same_model))
    print(
        f"     the same with its model left out: right {mean(one.right for one in strange):.0%}, "
        f"regret {mean(one.regret for one in strange):.1%}"
    )


def _types_left_out(misses: Sequence[Miss], on: str) -> Line:
    error = median(miss.error for miss in misses)
    return Line(
        f"speed ratios, job type left out, {on}: error", f"{error:.1%}", "under 15 %", error < 0.15
    )


def _models_left_out(misses: Sequence[Miss], on: str, promised: bool) -> Line:
    return _beats_the_median(misses, f"speed ratios, whole model left out, {on}", promised)


def _beats_the_median(misses: Sequence[Miss], what: str, promised: bool = True) -> Line:
    error = median(miss.error for miss in misses)
    others = median(miss.error_of_everyone for miss in misses)
    return Line(
        f"{what}: error",
        f"{error:.1%}",
        f"{'under' if promised else 'against'} {others:.1%}, the median of the others",
        error < others or not promised,
    )


def unseen_scales(table: SpeedTable, grid: Sequence[Scales]) -> list[Miss]:
    """Each model predicted with the scales that do best on the others alone: what a choice is worth
    for a model that nobody has seen."""
    misses = []
    for model in dict.fromkeys(own.model for own in table.speeds):
        others = table.without(lambda own, model=model: own.model == model)  # type: ignore[misc]
        best = min(grid, key=lambda scales: _mean_miss(left_out(others, same_model, (1,), scales)))
        found = left_out(table, same_model, (1,), best)
        misses += [miss for miss in found if miss.model.model == model]
    return misses


def _mean_miss(misses: Iterable[Miss]) -> float:
    """The mean, since the median of six models says too little to choose by."""
    return mean(log(1.0 + miss.error) for miss in misses)


def _print_models(misses: Sequence[Miss], unseen: Sequence[Miss]) -> None:
    for model in dict.fromkeys(miss.model.model for miss in misses):
        own = [miss for miss in misses if miss.model.model == model]
        chosen = [miss for miss in unseen if miss.model.model == model]
        print(
            f"       {model:<16} {median(m.error for m in own):7.1%}, scales chosen without it "
            f"{median(m.error for m in chosen):7.1%}, by the median of the others "
            f"{median(m.error_of_everyone for m in own):7.1%}"
        )


# --------------------------------------------------------------------------------------- makespans


def makespans(table: SpeedTable, seeds: int = SEEDS) -> Iterator[Line]:
    nodes = read_cluster(CLUSTER)
    for predictor in ("oracle", "history-mean"):
        for load in LOADS:
            found = compared(table, nodes, load, seeds, predictor)
            when = f"load {load:g}" if load else "all at once"
            yield _gain(found["similar"], f"makespan, {when}, durations {predictor}")
            told = ", ".join(f"{name} {_told(found[name])}" for name in KNOWING[1:])
            print(f"       against none: {told}")
            if predictor == "oracle":
                yield _between(found, f"between none and oracle, {when}")


def compared(
    table: SpeedTable, nodes: Sequence[Node], load: float, seeds: int, predictor: str
) -> dict[str, list[float]]:
    """The makespan with each knowledge of speeds over that with none, for each seed."""
    ratios: dict[str, list[float]] = {name: [] for name in KNOWING}
    for seed in range(seeds):
        jobs = gavel_jobs(table, nodes, load, seed)
        experiment = Experiment(jobs, nodes, predictor=predictor, speed_table=table)
        spans = {
            name: float(
                simulate(experiment, f"model-similarity:speeds={name}").summary["makespan_s"]
            )
            for name in KNOWING
        }
        for name in KNOWING:
            ratios[name].append(spans[name] / spans["none"])
    return ratios


def _told(ratios: Sequence[float]) -> str:
    low, high = interval(ratios) or (1.0, 1.0)
    return f"{_middle(ratios):.2f} ({low:.2f} to {high:.2f})"


def _middle(ratios: Sequence[float]) -> float:
    return exp(mean(log(ratio) for ratio in ratios))


def _gain(ratios: Sequence[float], what: str) -> Line:
    _, high = interval(ratios) or (1.0, 1.0)
    return Line(what, _told(ratios), "of that without; all below 1", high < 1.0)


def _between(found: dict[str, list[float]], what: str) -> Line:
    """Chance may put a run of the one before one of the other; the means and intervals count."""
    gaps = [own / best for own, best in zip(found["similar"], found["oracle"], strict=True)]
    low, high = interval(gaps) or (1.0, 1.0)
    holds = high >= 1.0 and _middle(found["similar"]) < 1.0
    return Line(what, f"{_middle(gaps):.2f} ({low:.2f} to {high:.2f})", "of the oracle's", holds)


def gavel_jobs(
    table: SpeedTable, nodes: Sequence[Node], load: float, seed: int, jobs: int = JOBS
) -> list[Arrival]:
    """As Gavel draws them: any job type, 1 to 8 GPUs, half an hour to a week."""
    chance = Random(f"similarity/{seed}")
    drawn = [_gavel_job(table, chance, number) for number in range(jobs)]
    gap_s = 0.0
    if load:
        work = sum(arrival.work_s * arrival.job.gpus for arrival in drawn)
        gap_s = work / jobs / (load * _power(table, nodes))
    at, found = 0.0, []
    for arrival in drawn:
        found.append(replace(arrival, at=at))
        at += chance.expovariate(1.0 / gap_s) if gap_s else 0.0
    return found


def _gavel_job(table: SpeedTable, chance: Random, number: int) -> Arrival:
    model: ModelType = chance.choice(sorted(table.speeds))
    several = any(hardware.gpus > 1 for hardware in table.speeds[model])
    gpus = chance.choices(COUNTS, (0.7, 0.1, 0.15, 0.05))[0] if several else 1
    low, high = (1.5, 3.0) if chance.random() < 0.8 else (3.0, 4.0)
    return Arrival(
        0.0,
        Job(JobId(f"j{number}"), gpus, model=str(model), interruption=MOVING),
        60.0 * 10.0 ** chance.uniform(low, high),
    )


def _power(table: SpeedTable, nodes: Sequence[Node]) -> float:
    """GPUs of the cluster, each counted as fast as the median model is on it."""
    usual = Hardware(table.reference)
    total = 0.0
    for node in nodes:
        own = Hardware(table.kind_of(node.kind))
        ratios = [table.ratio(model, own, usual) for model in table.speeds]
        total += node.gpus * median(ratio for ratio in ratios if ratio)
    return total
