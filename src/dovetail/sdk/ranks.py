"""Agreement between the ranks of torch.distributed, so that they stop after the same step."""

from __future__ import annotations

import torch
from torch import distributed


def count() -> int:
    ready = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if ready else 1


def own() -> int:
    return int(distributed.get_rank()) if count() > 1 else 0


def largest(number: int) -> int:
    """The largest of all ranks' numbers."""
    if count() == 1:
        return number
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    held = torch.tensor([number], device=device)
    distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
    return int(held.item())


def wait_for_all() -> None:
    if count() > 1:
        distributed.barrier()
