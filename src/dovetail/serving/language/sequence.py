"""A request to a language model on its way through a replica."""

from __future__ import annotations

from dovetail.core.model import Seconds


class Sequence:
    """What was asked, how far it is, and when it got there."""

    __slots__ = (
        "adapter", "arrived_s", "decoding", "ends", "filled", "finished_s", "first_token_s", "held",
        "joined", "made", "number", "output", "preemptions", "prompt",
    )  # fmt: skip

    def __init__(
        self, number: int, arrived_s: Seconds, prompt: int, output: int, adapter: str = ""
    ) -> None:
        self.number = number
        self.arrived_s = arrived_s
        self.prompt = prompt
        self.output = output
        self.adapter = adapter
        self.made = 0  # output tokens when it last began to decode, or lost its place
        self.filled = 0  # tokens of which the KV memory is computed, while it prefills
        self.held = 0  # tokens in KV memory when it began to decode
        self.joined = 0  # the step at which it began to decode
        self.ends = 0  # the step after which it is finished
        self.decoding = False
        self.preemptions = 0
        self.first_token_s = -1.0
        self.finished_s = -1.0

    @property
    def to_fill(self) -> int:
        """Tokens to prefill: the prompt, and what was made before its memory was taken away."""
        return self.prompt + self.made

    @property
    def most_held(self) -> int:
        """Tokens in KV memory at its end; the last one made is never read."""
        return self.prompt + self.output - 1
