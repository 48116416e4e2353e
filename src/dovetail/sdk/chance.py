"""The state of everything random in a PyTorch program, taken and set again."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import torch

State = dict[str, Any]


def sources(loader: object) -> tuple[torch.Generator, ...]:
    """The random generators that a data loader has of its own; most have none."""
    owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    found = [getattr(owner, "generator", None) for owner in owners]
    return tuple(dict.fromkeys(source for source in found if source is not None))


def state(generators: Sequence[torch.Generator] = ()) -> State:
    taken: State = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "generators": [generator.get_state() for generator in generators],
    }
    if numpy := sys.modules.get("numpy"):  # who has not imported it does not use it
        taken["numpy"] = numpy.random.get_state()
    return taken


def set_state(taken: State, generators: Sequence[torch.Generator] = ()) -> None:
    random.setstate(taken["python"])
    torch.set_rng_state(taken["torch"])
    for device, cuda in enumerate(taken["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(cuda, device)
    for generator, own in zip(generators, taken["generators"], strict=False):
        generator.set_state(own)
    if "numpy" in taken:
        import numpy

        numpy.random.set_state(taken["numpy"])
