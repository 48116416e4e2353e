"""AlpaServe (Li et al., OSDI 2023): models cut into pipelines over groups of GPUs, placed by simulation.

Models that share a pipeline share all its GPUs: a burst of one uses what another leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dovetail.core.model import Seconds


class PipedModel(NamedTuple):
    """A model as one GPU would run it."""

    name: str
    latency_s: Seconds
    slo_s: Seconds
    memory_gb: float = 0.0


class Cut(NamedTuple):
    """How models are cut over the GPUs of a group: stages one after another, operators side by side."""

    stages: int = 1
    operators: int = 1
    stage_overhead: float = 1.0  # how much longer all stages together take than the model uncut
    operator_overhead: float = 1.0

    @property
    def gpus(self) -> int:
        return self.stages * self.operators

    def stage_s(self, model: PipedModel) -> Seconds:
        stages = self.stage_overhead if self.stages > 1 else 1.0
        operators = self.operator_overhead if self.operators > 1 else 1.0
        return model.latency_s * stages * operators / self.gpus


class GpuGroup(NamedTuple):
    """GPUs that run the same models as pipelines."""

    cut: Cut
    models: tuple[str, ...] = ()


class AskedModel(NamedTuple):
    """A request of a sample."""

    at: Seconds
    model: str


class Rehearsed(NamedTuple):
    """What became of a sample: how many of each model were not in time, and how long groups worked."""

    missed: Mapping[str, int]
    busy_s: Sequence[Seconds]
    attainment: float
    mean_s: Seconds  # of those that were served


def rehearse(
    groups: Sequence[GpuGroup],
    models: Mapping[str, PipedModel],
    requests: Sequence[AskedModel],
) -> Rehearsed:
    """Each goes to the group that would be done with it first, and is refused if that is too late."""
    free = [[0.0] * group.cut.stages for group in groups]
    took = [{name: group.cut.stage_s(models[name]) for name in group.models} for group in groups]
    homes: dict[str, list[int]] = {name: [] for name in models}
    for i, group in enumerate(groups):
        for name in group.models:
            homes[name].append(i)
    missed, busy_s, total_s = dict.fromkeys(models, 0), [0.0] * len(groups), 0.0
    for at, name in requests:
        best, done, passed = -1, at + models[name].slo_s, list[Seconds]()
        for i in homes[name]:
            ends = _ends(free[i], at, took[i][name])
            if ends[-1] <= done + 1e-12:
                best, done, passed = i, ends[-1], ends
        if best < 0:
            missed[name] += 1
            continue
        free[best] = passed
        busy_s[best] += took[best][name]
        total_s += done - at
    served = len(requests) - sum(missed.values())
    attainment = served / len(requests) if requests else 1.0
    return Rehearsed(missed, busy_s, attainment, total_s / served if served else 0.0)


def _ends(free: Sequence[Seconds], at: Seconds, stage_s: Seconds) -> list[Seconds]:
    ends = []
    for since in free:
        at = (at if at > since else since) + stage_s
        ends.append(at)
    return ends


class PlacementQuestion(NamedTuple):
    models: Sequence[PipedModel]
    requests: Sequence[AskedModel]
    gpus: int
    gpu_memory_gb: float = float("inf")
    stage_overheads: Mapping[int, float] = {}  # by number of stages; 1 where nothing is said
    operator_overheads: Mapping[int, float] = {}

    def cuts(self) -> Iterator[Cut]:
        """All ways to cut that use every GPU, groups of the same size."""
        for size in [n for n in range(1, self.gpus + 1) if self.gpus % n == 0]:
            for stages in [n for n in range(1, size + 1) if size % n == 0]:
                operators = size // stages
                yield Cut(
                    stages,
                    operators,
                    self.stage_overheads.get(stages, 1.0),
                    self.operator_overheads.get(operators, 1.0),
                )


def placed(question: PlacementQuestion) -> tuple[list[GpuGroup], Rehearsed]:
    """The best of all ways to cut, each filled with models greedily. Of equals the one that answers
    sooner."""
    found = [filled(question, cut) for cut in question.cuts()]
    return max(found, key=lambda row: (row[1].attainment, -row[1].mean_s))


def filled(question: PlacementQuestion, cut: Cut) -> tuple[list[GpuGroup], Rehearsed]:
    """Again and again: rehearse; the model with most requests missed goes to the group that worked
    least of those with memory for it; until none is missed. The best on the way counts."""
    models = {model.name: model for model in question.models}
    groups = [GpuGroup(cut)] * (question.gpus // cut.gpus)
    best = now = (list(groups), rehearse(groups, models, question.requests))
    while True:
        home = _next_home(question, models, *now) if any(now[1].missed.values()) else None
        if home is None:
            return best
        i, name = home
        groups[i] = GpuGroup(cut, (*groups[i].models, name))
        now = (list(groups), rehearse(groups, models, question.requests))
        if (now[1].attainment, -now[1].mean_s) > (best[1].attainment, -best[1].mean_s):
            best = now


def _next_home(
    question: PlacementQuestion,
    models: Mapping[str, PipedModel],
    groups: Sequence[GpuGroup],
    seen: Rehearsed,
) -> tuple[int, str] | None:
    """Which model to add, and to which group."""
    for name in sorted(models, key=lambda own: (-seen.missed[own], own)):
        able = [
            i
            for i, group in enumerate(groups)
            if name not in group.models and _has_memory(question, models, group, name)
        ]
        if able:
            return min(able, key=lambda i: (seen.busy_s[i], i)), name
    return None


def _has_memory(
    question: PlacementQuestion, models: Mapping[str, PipedModel], group: GpuGroup, name: str
) -> bool:
    """Each GPU of a group holds its part of every model there."""
    needed = sum(models[own].memory_gb for own in (*group.models, name))
    return needed / group.cut.gpus <= question.gpu_memory_gb * (1.0 + 1e-12)
