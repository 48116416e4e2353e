"""What a replica of a language model is, and how it forms its steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Seconds
from dovetail.serving.language.adapters import AdapterSize
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.step_costs import StepCosts

PREFILL = ("alone", "mixed", "chunked")
WHEN_FULL = ("recompute", "swap")


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """One model on one kind of GPU: what a step costs, what fits into its memory."""

    costs: StepCosts
    kv: KvSize
    adapters: AdapterSize = field(default_factory=AdapterSize)
    swap_block_s: Seconds = 0.0  # to move one block between GPU and host memory

    def seconds(self, batch: int, kind: str, share: int) -> float:
        """A step in which so many sequences decode; on half a GPU twice as long."""
        del kind
        return self.costs.decode.of(batch) * WHOLE_GPU / share

    def most_tokens(self, has_adapter: bool = False) -> int:
        """So many a request may have, with its answer, to fit into an empty replica. The last token
        made is never held."""
        own = self.adapters.blocks if has_adapter else 0
        blocks = self.kv.blocks - int(self.kv.watermark * self.kv.blocks) - own
        return blocks * self.kv.block_tokens + 1


@dataclass(frozen=True, slots=True)
class StepRule:
    """How steps are formed.

    `prefill`: prompts in steps of their own (`alone`, vLLM's first scheduler), in one step with
    decoding (`mixed`, Orca), or also cut to fill a step (`chunked`, Sarathi and vLLM today).
    """

    max_batch: int = 256  # sequences that a replica works on
    prefill: str = "chunked"
    step_tokens: int = 2048  # of prompts, and of decoding where both share a step
    when_full: str = "recompute"  # what is done with who gives its blocks: `recompute`, or `swap`

    def __post_init__(self) -> None:
        for name in ("max_batch", "step_tokens"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name}={getattr(self, name)}: it is at least 1")
        if self.prefill not in PREFILL:
            raise BadInput(f"prefill={self.prefill}: it is one of {', '.join(PREFILL)}")
        if self.when_full not in WHEN_FULL:
            raise BadInput(f"when_full={self.when_full}: it is one of {', '.join(WHEN_FULL)}")
