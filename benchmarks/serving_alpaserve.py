"""Pipelines over groups of GPUs beside AlpaServe's simulator; each difference has a cause.

`DOVETAIL_ALPASERVE` names a checkout of alpa-projects/mms, `DOVETAIL_ALPASERVE_PYTHON` a Python 3.10
with numpy below 1.24, numba, scipy, pulp, ray, starlette, uvicorn, fastapi, matplotlib and pandas.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from benchmarks.alpaserve_greedy import in_their_order
from benchmarks.lines import Line
from benchmarks.peer_simulators.asking import Peer
from dovetail.serving.planners.alpaserve import (
    AskedModel,
    Cut,
    GpuGroup,
    PipedModel,
    PlacementQuestion,
    Rehearsed,
    filled,
    rehearse,
)
from dovetail.serving.traffic.catalogue import make as traffic

ALPASERVE = Peer("ALPASERVE", "alpaserve_driver.py")
LATENCY_S = {"a": 0.1, "b": 0.1, "c": 0.15, "d": 0.08}
MODELS = {name: PipedModel(name, took, 0.6, 4.0) for name, took in LATENCY_S.items()}
OVERHEADS = {2: 1.1, 4: 1.2}
GROUPS = [GpuGroup(Cut(2, 1, OVERHEADS[2]), tuple(MODELS))] * 2
GPUS, GPU_MEMORY_GB = 4, 8.0
CAUSES = ("overheads", "routing", "apart")
EXACT_S = 1e-6


def measured() -> Iterator[Line]:
    """Ours and theirs, theirs with each cause taken away, and where each would place the models."""
    if not ALPASERVE.is_here():
        return
    asked = requests()
    own = rehearse(GROUPS, MODELS, asked)
    for changes in ((), *[(cause,) for cause in CAUSES], CAUSES):
        in_time, mean_s = theirs(asked, changes)
        must = changes == CAUSES
        exact = in_time == own.attainment and abs(mean_s - own.mean_s) < EXACT_S
        yield Line(
            f"AlpaServe {'without ' + ', '.join(changes) if changes else 'as it is'}",
            f"{own.attainment:.4f} / {in_time:.4f} in time, {own.mean_s:.6f} / {mean_s:.6f} s",
            f"within {EXACT_S:g} s" if must else "said",
            exact or not must,
        )
    for stages in (1, 2, 4):
        yield from placements(asked, stages)


def requests() -> list[AskedModel]:
    """Four bursty streams."""
    bursty = traffic("bursty:rate=4:cv=3:seconds=150")
    streams = [
        [AskedModel(one.at, name) for one in bursty.requests(name, 1, i)]
        for i, name in enumerate(MODELS)
    ]
    return list(merge(*streams))


def question(asked: list[AskedModel]) -> dict[str, Any]:
    def stages(model: PipedModel) -> dict[int, float]:
        return {n: Cut(n, 1, OVERHEADS.get(n, 1.0)).stage_s(model) for n in (1, 2, 4)}

    return {
        "models": [
            {"name": one.name, "slo_s": one.slo_s, "memory_gb": one.memory_gb, "rate": 4.0}
            for one in MODELS.values()
        ],
        "stage_s": {name: stages(model) for name, model in MODELS.items()},
        "requests": asked, "gpus": GPUS, "gpu_memory_gb": GPU_MEMORY_GB,
    }  # fmt: skip


def theirs(asked: list[AskedModel], changes: tuple[str, ...]) -> tuple[float, float]:
    """The part in time, and the mean of those."""
    groups = [{"stages": own.cut.stages, "models": own.models} for own in GROUPS]
    answer = ALPASERVE.answer(question(asked) | {"groups": groups, "changes": changes})
    took = [seconds for seconds in answer if seconds >= 0]
    return len(took) / len(answer), sum(took) / len(took)


def placements(asked: list[AskedModel], stages: int) -> Iterator[Line]:
    """Both judged by our rehearsal; and our replay of their rule, which must place as they do."""
    cut = Cut(stages, 1, OVERHEADS.get(stages, 1.0))
    posed = PlacementQuestion(list(MODELS.values()), asked, GPUS, GPU_MEMORY_GB, OVERHEADS)
    _, own = filled(posed, cut)
    answer = ALPASERVE.answer(question(asked) | {"group_size": stages, "changes": ()})
    placed = [tuple(sorted(models)) for models in answer]
    other = rehearse([GpuGroup(cut, models) for models in placed], MODELS, asked)
    what = f"placement in groups of {stages}: ours / AlpaServe's greedy"
    yield Line(what, f"{_of(own)} / {_of(other)}", "said", True)
    again = in_their_order(posed, cut) == sorted(placed)
    yield Line(
        "  with its order and its trial", "the same" if again else "other", "the same", again
    )


def _of(seen: Rehearsed) -> str:
    return f"{seen.attainment:.4f} in {seen.mean_s:.4f} s"
