"""`latency: {prefill: …, decode: …, kv: …}` of a language model in a file of services, or in a file of
its own that several services name as their profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from dovetail.jobfiles.complaint import Complaint
from dovetail.jobfiles.explain import explain
from dovetail.jobfiles.job_model import FieldTable, checked
from dovetail.jobfiles.yaml_files import located, text_of
from dovetail.serving.language.adapters import AdapterSize
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.settings import LanguageModel
from dovetail.serving.language.step_costs import DecodeCost, PrefillCost, StepCosts, TimesByCount

EXAMPLE = "prefill: {fixed_ms: 10, per_token_ms: 0.05}, decode: {fixed_ms: 15}, kv: {blocks: 20000}"
PARTS = frozenset({"prefill", "decode", "kv", "adapters"})

Amount = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Counts = Annotated[list[Count], Field(max_length=1000)]
Times = Annotated[list[Annotated[float, Field(gt=0, le=1e9)]], Field(max_length=1000)]


class StepFields(FieldTable):
    """The fields that prefill and decode share: a straight line, or a table of times by number."""

    fixed_ms: Amount = Field(default=0.0, description="Of any step.")
    ms: Times | None = Field(
        default=None, description="Measured times, for the counts beside them."
    )

    def curve(self, name: str) -> TimesByCount | None:
        counts = getattr(self, name)
        if counts is None:
            return None
        return TimesByCount(tuple(zip(counts, [own / 1e3 for own in self.ms or ()], strict=True)))

    def check(self, name: str, per_count: float) -> None:
        """Either a table, with as many times as counts, or a straight line above 0."""
        counts = getattr(self, name)
        if len(counts or ()) != len(self.ms or ()):
            raise ValueError(f"{name} and ms go together, one time for each count")
        if counts and (self.fixed_ms or per_count):
            raise ValueError(f"give fixed_ms and a price for each, or {name} and ms, not both")
        if counts is not None and (not counts or counts != sorted(set(counts))):
            raise ValueError(f"{name} are counts that rise")
        if not counts and not self.fixed_ms + per_count > 0:
            raise ValueError(f"a step takes time: give fixed_ms, or {name} and ms")


class PrefillFields(StepFields):
    """Computing prompts."""

    per_token_ms: Amount = Field(default=0.0, description="For each token of a prompt.")
    per_pair_us: Amount = Field(
        default=0.0, description="Attention: for each token and one before."
    )
    tokens: Counts | None = Field(default=None, description="Of prompts in a step, for ms.")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        self.check("tokens", self.per_token_ms)
        return self

    def cost(self) -> PrefillCost:
        line = self.fixed_ms / 1e3, self.per_token_ms / 1e3, self.per_pair_us / 1e6
        return PrefillCost(*line, self.curve("tokens"))


class DecodeFields(StepFields):
    """One more token for each sequence."""

    per_sequence_ms: Amount = Field(default=0.0, description="For each sequence.")
    per_held_token_us: Amount = Field(default=0.0, description="For each token that these hold.")
    sequences: Counts | None = Field(default=None, description="In a step, for ms.")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        self.check("sequences", self.per_sequence_ms)
        return self

    def cost(self) -> DecodeCost:
        line = self.fixed_ms / 1e3, self.per_sequence_ms / 1e3, self.per_held_token_us / 1e6
        return DecodeCost(*line, self.curve("sequences"))


class KvFields(FieldTable):
    """The memory that is left for what sequences hold."""

    blocks: Count | None = Field(default=None, description="How many; or gb and per_token_bytes.")
    gb: Amount | None = Field(default=None, description="All of it, in 10^9 bytes.")
    per_token_bytes: Count | None = Field(default=None, description="Keys and values of a token.")
    block_tokens: int = Field(default=16, ge=1, le=4096, description="Tokens in a block.")
    watermark: float = Field(default=0.01, ge=0, lt=1, description="Kept free when one is let in.")
    swap_gb_per_s: Amount | None = Field(default=None, description="Between GPU and host memory.")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.blocks is None and not (self.gb and self.per_token_bytes):
            raise ValueError("give blocks, or gb and per_token_bytes")
        if self.blocks is not None and self.gb is not None:
            raise ValueError("give blocks or gb, not both")
        if self.swap_gb_per_s is not None and not (self.swap_gb_per_s and self.per_token_bytes):
            raise ValueError("swap_gb_per_s is above 0, and needs per_token_bytes")
        if self._blocks() < 1:
            raise ValueError("gb is less than one block")
        return self

    def _blocks(self) -> int:
        return self.blocks or int((self.gb or 0) * 1e9 / self._block_bytes())

    def _block_bytes(self) -> int:
        return self.block_tokens * (self.per_token_bytes or 0)

    def size(self) -> KvSize:
        return KvSize(self._blocks(), self.block_tokens, self.watermark)

    def swap_block_s(self) -> float:
        return self._block_bytes() / (self.swap_gb_per_s * 1e9) if self.swap_gb_per_s else 0.0


class AdapterFields(FieldTable):
    """Adapters (LoRA), which stand in the memory of the sequences while they are loaded."""

    blocks: int = Field(default=1, ge=0, le=10**9, description="Of KV memory for one.")
    load_ms: Amount = Field(default=0.0, description="To load one.")
    per_adapter_ms: Amount = Field(default=0.0, description="For each different one in a step.")


class LanguageLatencyFields(FieldTable):
    """The whole of it."""

    prefill: PrefillFields = Field(description="A step that computes prompts.")
    decode: DecodeFields = Field(description="A step that makes a token for each sequence.")
    kv: KvFields = Field(description="How much sequences can hold.")
    adapters: AdapterFields = Field(default=AdapterFields(), description="If requests name some.")

    def model(self) -> LanguageModel:
        costs = StepCosts(
            self.prefill.cost(), self.decode.cost(), self.adapters.per_adapter_ms / 1e3
        )
        adapters = AdapterSize(self.adapters.blocks, self.adapters.load_ms / 1e3)
        return LanguageModel(costs, self.kv.size(), adapters, self.kv.swap_block_s())


def is_language_latency(given: object) -> bool:
    """`{prefill: …, decode: …, kv: …}`, or something that was meant so."""
    return isinstance(given, Mapping) and bool(PARTS & set(given))


def language_latency(given: Mapping[str, Any]) -> LanguageModel:
    """What is wrong with it is one sentence."""
    try:
        return LanguageLatencyFields.model_validate(given).model()
    except ValidationError as error:
        where = [str(step) for step in error.errors()[0]["loc"]]
        raise Complaint(f"latency.{explain(error)}", *where) from None


def read_language_profile(path: str) -> LanguageModel:
    """From a file of its own."""
    given, lines = located(text_of(path), path, EXAMPLE)
    return checked(LanguageLatencyFields, given, EXAMPLE, path, lines).model()
