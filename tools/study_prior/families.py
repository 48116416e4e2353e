"""All families of curves that the prior is learned from, and that it is judged on when left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.core.errors import BadInput
from dovetail.tune.recorded import Task, read_curves

from . import drawn_families as drawn
from .trained_families import TRAINED

RECORDED: Mapping[str, str] = {
    "lcbench": "hpo_lcbench_surrogate/curves_200cfg.parquet",
    "taskset": "hpo_taskset/curves.parquet",
}
NAMES: Sequence[str] = (*RECORDED, *(own.__name__ for own in drawn.NATURAL), *TRAINED)
ADVERSE: Sequence[str] = tuple(own.__name__ for own in drawn.ADVERSE)
_DRAWN_TO_LEARN = 12  # tasks of a family
_FIRST_TO_LEARN = 100  # those before are there to judge by
_DRAWS = 72  # of all tasks of a family together, in a round


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    tasks: Sequence[Task]

    @property
    def draws(self) -> float:
        """Of each of its tasks, so that all families have the same say."""
        return max(_DRAWS / len(self.tasks), 2)


def to_learn_from(data: Path, names: Sequence[str] = NAMES) -> list[Family]:
    return [Family(name, _tasks(name, data, _DRAWN_TO_LEARN, _FIRST_TO_LEARN)) for name in names]


def to_judge_by(name: str, data: Path, tasks: int = 4) -> Family:
    """Of the drawn ones, so many tasks that nothing was learned from."""
    return Family(name, _tasks(name, data, tasks, 0))


def _tasks(name: str, data: Path, number: int, first: int) -> Sequence[Task]:
    if name in drawn.BY_NAME:
        return drawn.tasks(drawn.BY_NAME[name], number, first)
    if name not in RECORDED:
        return TRAINED[name]()
    path = data / RECORDED[name]
    if not path.exists():
        raise BadInput(f"{path} is not here; name the folder of both sets of curves: --data")
    return read_curves(path)
