"""How a replica of a language model batches: the settings of the rule `continuous`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dovetail.core.model import Seconds
from dovetail.serving.language.adapters import AdapterSize
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.step_costs import StepCosts

Prefill = Literal["alone", "mixed", "chunked"]
WhenFull = Literal["recompute", "swap"]


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """One model on one kind of GPU, and how its server forms batches.

    `prefill`: prompts in steps of their own (vLLM's first scheduler), in one step with decoding
    (Orca), or cut into pieces that fill a step (Sarathi, vLLM's second scheduler).
    """

    costs: StepCosts
    kv: KvSize
    adapters: AdapterSize = field(default_factory=AdapterSize)
    max_batch: int = 256  # sequences that a replica works on
    step_tokens: int = 8192  # in one step; in a step of their own, a longer prompt goes alone
    prefill: Prefill = "alone"
    when_full: WhenFull = "recompute"
    swap_block_s: Seconds = 0.0  # to move one block between GPU and host memory

    def __post_init__(self) -> None:
        if self.max_batch < 1 or self.step_tokens < 1:
            raise ValueError("a batch needs at least one sequence, a step at least one token")

    def can_serve(self, prompt: int, output: int, adapter: str = "") -> bool:
        """Whether such a request fits into the memory of an empty replica."""
        own = self.adapters.blocks if adapter else 0
        reserve = int(self.kv.watermark * self.kv.blocks)
        return self.kv.blocks_of(prompt + output - 1) + own + reserve <= self.kv.blocks
