"""AlpaServe's greedy placement told again, with its order and the simulator that it tries on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.serving.planners.alpaserve import Cut, PlacementQuestion

OVERHEAD_S, PER_STAGE = 0.011, 0.009  # added to every request, and to the time of a stage

Groups = list[tuple[str, ...]]


def tried(
    question: PlacementQuestion, cut: Cut, groups: Groups
) -> tuple[Mapping[str, int], Sequence[int]]:
    """Requests missed by model, and sent by group: to the one whose last stage is free first."""
    models = {model.name: model for model in question.models}
    free = [[0.0] * cut.stages for _ in groups]
    missed, sent = dict.fromkeys(models, 0), [0] * len(groups)
    for at, name in question.requests:
        homes = [i for i, group in enumerate(groups) if name in group]
        if not homes:
            missed[name] += 1
            continue
        home = min(homes, key=lambda i: free[i][-1])
        sent[home] += 1
        ends = _ends(free[home], at, cut.stage_s(models[name]) * (1 + PER_STAGE * cut.stages))
        if ends[-1] + OVERHEAD_S - at <= models[name].slo_s:
            free[home] = ends
        else:
            missed[name] += 1
    return missed, sent


def _ends(free: Sequence[float], at: float, took: float) -> list[float]:
    ends = []
    for since in free:
        at = max(at, since) + took
        ends.append(at)
    return ends


def in_their_order(question: PlacementQuestion, cut: Cut) -> Groups:
    """First the group that was sent the fewest, then the model most missed; until nothing fits."""
    models = {model.name: model for model in question.models}
    names = list(models)
    placed: Groups = [()] * (question.gpus // cut.gpus)
    while True:
        missed, sent = tried(question, cut, placed)
        wanted = sorted(names, key=lambda name: (missed[name], names.index(name)), reverse=True)
        for i in sorted(range(len(placed)), key=lambda i: sent[i]):
            there = sum(models[name].memory_gb for name in placed[i])
            room = question.gpu_memory_gb * cut.gpus - there
            fits = [n for n in wanted if n not in placed[i] and models[n].memory_gb <= room]
            if fits:
                placed[i] = tuple(sorted((*placed[i], fits[0])))
                placed.sort()
                break
        else:
            return placed
