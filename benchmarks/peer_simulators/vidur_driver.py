"""Runs Vidur's scheduler and event loop on requests and step costs from standard input.

A program of its own, for a Python that has what Vidur needs: `python vidur_driver.py CHECKOUT`.
"""

from __future__ import annotations

import atexit
import json
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any


def step_s(costs: dict[str, float], batch: Any) -> float:
    """Our model of a step, for a batch of Vidur's."""
    prompt_tokens, sequences, held, pairs = 0, 0, 0, 0.0
    for request, tokens in zip(batch.requests, batch.num_tokens, strict=True):
        done = request.num_processed_tokens
        if request.is_prefill_complete:
            sequences, held = sequences + 1, held + done - 1
        else:
            prompt_tokens += tokens
            pairs += tokens * done + tokens * tokens / 2
    decode = costs["decode_s"] + costs["sequence_s"] * sequences
    prefill = costs["prefill_s"] + costs["token_s"] * (prompt_tokens + sequences)
    seconds = decode if not prompt_tokens else max(prefill, decode if sequences else 0.0)
    return seconds + costs["held_token_s"] * held + costs["pair_s"] * pairs


class OurCosts:
    """Stands where Vidur's predictor of execution times stands."""

    def __init__(self, costs: dict[str, float]) -> None:
        self._costs = costs

    def get_execution_time(self, batch: Any, stage: int) -> SimpleNamespace:
        seconds = step_s(self._costs, batch)
        return SimpleNamespace(total_time=seconds, model_time=seconds)


def configured(asked: dict[str, Any]) -> Any:
    """Vidur's own configuration, with nothing written."""
    from vidur import config

    common = {
        "batch_size_cap": asked["max_batch"], "block_size": asked["block_tokens"],
        "watermark_blocks_fraction": asked["watermark"], "num_blocks": asked["blocks"],
    }  # fmt: skip
    if asked["prefill"] == "chunked":
        scheduler = config.SarathiSchedulerConfig(chunk_size=asked["step_tokens"], **common)
    else:
        scheduler = config.VllmSchedulerConfig(max_tokens_in_batch=asked["step_tokens"], **common)
    folder = tempfile.mkdtemp()
    return config.SimulationConfig(
        cluster_config=config.ClusterConfig(
            num_replicas=asked["replicas"],
            replica_scheduler_config=scheduler,
            global_scheduler_config=config.LORGlobalSchedulerConfig(),
        ),
        metrics_config=config.MetricsConfig(
            write_metrics=False, enable_chrome_trace=False, output_dir=folder, cache_dir=folder
        ),
    )


def without_padding() -> None:
    """A step's prompts count with their own tokens, not each with the longest one's."""
    from vidur.scheduler.replica_scheduler import vllm_replica_scheduler as module

    def own_tokens(*values: Any) -> Any:
        return max(*values) if len(values) > 1 else Fraction(sum(values[0]), len(values[0]))

    module.max = own_tokens


def with_exact_blocks() -> None:
    """Who decodes needs a free block only where its next token begins a new one."""
    from vidur.scheduler.replica_scheduler import replica_scheduler_registry as room

    for kind in (room.VLLMReplicaScheduler, room.SarathiReplicaScheduler):
        kind._can_allocate_request = _exact(kind._can_allocate_request)


def _exact(theirs: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def can_allocate(self: Any, request: Any) -> bool:
        blocks = self._allocation_map.get(request.id)
        if blocks is None:
            return theirs(self, request)
        has_room = request.num_processed_tokens <= blocks * self._config.block_size
        return has_room or theirs(self, request)

    return can_allocate


CHANGES = {"padding": without_padding, "blocks": with_exact_blocks}


def simulated(asked: dict[str, Any]) -> list[list[float]]:
    """When each request had its first token and was done, and how often it began anew."""
    from vidur import simulator
    from vidur.entities import Request
    from vidur.scheduler.global_scheduler import base_global_scheduler

    requests = [Request(*one) for one in asked["requests"]]
    simulator.RequestGeneratorRegistry = SimpleNamespace(
        get=lambda *_: SimpleNamespace(generate=lambda: requests)
    )
    base_global_scheduler.ExecutionTimePredictorRegistry = SimpleNamespace(
        get=lambda *_, **__: OurCosts(asked["costs"])
    )
    for change in asked["changes"]:
        CHANGES[change]()
    run = simulator.Simulator(configured(asked))
    atexit.unregister(run._write_output)
    run.run()
    return [[one._prefill_completed_at, one.completed_at, one.num_restarts] for one in requests]


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    answer = simulated(json.load(sys.stdin))
    print("ANSWER", json.dumps(answer))
