"""Traces drawn as Gavel's own script draws them: models evenly, lengths from a few, gaps by chance."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from random import Random

from dovetail.core.model import Job, JobId
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable
from dovetail.models.workload import Arrival
from dovetail.predict.commands import alike

REFERENCE = "v100"  # lengths are told on it
HOUR_S = 3600.0


@dataclass(frozen=True)
class GavelRecipe:
    """What its script is given: `--num_jobs -l -a -b -n`, and `-m` for gangs."""

    jobs: int
    gap_s: float
    shortest_h: float
    longest_h: float
    lengths: int
    gangs: bool = True


RECIPES = {  # as those of the traces that are recorded
    "a60": GavelRecipe(60, 270, 0.73, 4.11, 9),
    "b100": GavelRecipe(100, 330, 0.51, 6.07, 13),
    "c40": GavelRecipe(40, 150, 0.37, 3.19, 8, gangs=False),
}


def drawn(recipe: GavelRecipe, table: SpeedTable, seed: int) -> list[Arrival]:
    """The jobs of one trace. Gangs are of 2 GPUs (one in ten) or 4 (two in ten), of those models that
    were measured on several."""
    chance = Random(f"{seed}/{recipe.jobs}/{recipe.gap_s:g}")
    models = sorted([m for m, rows in table.speeds.items() if Hardware(REFERENCE) in rows], key=str)
    spread_h = recipe.longest_h - recipe.shortest_h
    hours = [recipe.shortest_h + spread_h * i / (recipe.lengths - 1) for i in range(recipe.lengths)]
    at, found = 0.0, []
    for number in range(recipe.jobs):
        model = chance.choice(models)
        in_gangs = recipe.gangs and Hardware(REFERENCE, 4) in table.speeds[model]
        gpus = _gang(chance.random()) if in_gangs else 1
        work_s = HOUR_S * chance.choice(hours)
        at += -log(1 - chance.random()) * recipe.gap_s if number else 0.0
        found.append(_arrival(number, float(int(at)), model, gpus, work_s, table))
    return found


def _gang(drawn_part: float) -> int:
    return 4 if drawn_part > 0.8 else 2 if drawn_part >= 0.7 else 1


def _arrival(
    number: int, at: float, model: ModelType, gpus: int, work_s: float, table: SpeedTable
) -> Arrival:
    """Its command names the steps that it makes."""
    steps = float(round(work_s * table.speeds[model][Hardware(REFERENCE, gpus)]))
    words = ["python3", "main.py", f"--model={model}", "--num_steps", f"{steps:g}"]
    job = Job(JobId(str(number)), gpus, model=str(model), alike=alike(words, "", ""), amount=steps)
    return Arrival(at, job, work_s)
