"""Runs AlpaServe's simulator and its greedy placement on models and requests from standard input.

A program of its own, for a Python that has what AlpaServe needs: `python alpaserve_driver.py CHECKOUT`.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any


def without_overheads(controller: Any) -> None:
    """No time on the way: none of HTTP, dispatch and runtime (2.5, 2.5 and 5 ms, by chance), and no
    4 ms of reserve when a request is accepted."""
    controller.np.random.normal = lambda loc, scale, size: controller.np.zeros(size)
    begin = controller.GroupManager.__init__

    def without(self: Any, shape: Any) -> None:
        begin(self, shape)
        self.fixed_overhead = 0.0

    controller.GroupManager.__init__ = without


def to_first_done(controller: Any) -> None:
    """A request goes to the group that is done with it first, not to the one with the fewest."""

    def select(self: Any, group_ids: list[int]) -> int:
        name = next(own for own, info in self.model_info.items() if info.group_ids is group_ids)

        def done(group_id: int) -> float:
            manager, at = self.group_info[group_id].manager, float(controller.clock())
            for stage, seconds in enumerate(manager.latency_dict[name][1]):
                at = max(manager.stage_clock[stage], at) + seconds
            return round(at, 9)

        return min(reversed(group_ids), key=done)  # of equals the last, as ours

    controller.Controller.select_group_id = select


CHANGES = {"overheads": without_overheads, "routing": to_first_done}
APART = (
    "apart"  # no two requests come in the same instant: both would be sent before one is counted
)
APART_S = 1e-9


def datas(asked: dict[str, Any]) -> list[Any]:
    """Each model with the time of its stages and its memory, for every cut that is asked for."""
    from alpa_serve.placement_policy.base_policy import ModelData
    from alpa_serve.profiling import ParallelConfig, ProfilingResult

    found = []
    for model in asked["models"]:
        profile = ProfilingResult(model["name"], {}, 0.0, 0.0)
        for stages, seconds in asked["stage_s"][model["name"]].items():
            count = int(stages)
            memory = [model["memory_gb"] / count] * count
            times = [seconds] * count
            profile.add_result(ParallelConfig(1, 1, count), 1, times, memory, memory)
        found.append(ModelData(model["name"], model["slo_s"], model["rate"], 1.0, profile))
    return found


def workload(asked: dict[str, Any]) -> Any:
    from alpa_serve.simulator.workload import Request, Workload

    slo = {model["name"]: model["slo_s"] for model in asked["models"]}
    requests = [
        Request(name, None, slo[name], i, {}) for i, (_, name) in enumerate(asked["requests"])
    ]
    times = [at for at, _ in asked["requests"]]
    if APART in asked["changes"]:
        for i in range(1, len(times)):
            times[i] = max(times[i], times[i - 1] + APART_S)
    return Workload(times, requests)


def served(asked: dict[str, Any]) -> list[float]:
    """Seconds of each request that was in time; -1 of the others. Of their event loop, with the
    placement that is given."""
    from alpa_serve.placement_policy.base_policy import BasePlacementPolicy, ClusterEnv
    from alpa_serve.simulator import controller as module
    from alpa_serve.simulator import event_loop
    from alpa_serve.simulator.executable import Executable

    module.np.random.seed(1)
    for change in set(CHANGES) & set(asked["changes"]):
        CHANGES[change](module)
    models, work = datas(asked), workload(asked)
    control = module.Controller()
    for model in models:
        control.register_model.remote(model.name, partial(Executable, model.profiling_result))
    env = ClusterEnv(asked["gpus"], asked["gpu_memory_gb"])
    BasePlacementPolicy().place_models_impl(control, env, models, _placement(asked))
    client = module.Client(control)
    event_loop.run_event_loop(client.submit_workload(work))
    start, finish, good = client.res_dict[work]
    return [float(b - a) if ok else -1.0 for a, b, ok in zip(start, finish, good, strict=True)]


def _placement(asked: dict[str, Any]) -> Any:
    from alpa_serve.placement_policy.base_policy import ModelPlacement
    from alpa_serve.profiling import ParallelConfig

    numbers = {model["name"]: i for i, model in enumerate(asked["models"])}
    return ModelPlacement(
        [ParallelConfig(1, 1, group["stages"]) for group in asked["groups"]],
        [[numbers[name] for name in group["models"]] for group in asked["groups"]],
    )


def placed(asked: dict[str, Any]) -> list[list[str]]:
    """The models of each group, by their greedy placement for groups of that many stages."""
    from alpa_serve.placement_policy.base_policy import ClusterEnv
    from alpa_serve.placement_policy.model_parallelism import ModelParallelismGreedy

    policy = ModelParallelismGreedy(group_size=asked["group_size"])
    env = ClusterEnv(asked["gpus"], asked["gpu_memory_gb"])
    solution, _ = policy.solve_placement(datas(asked), env, workload(asked))
    return [[asked["models"][i]["name"] for i in group] for group in solution.group_models]


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    given = json.load(sys.stdin)
    print("ANSWER", json.dumps(placed(given) if "group_size" in given else served(given)))
