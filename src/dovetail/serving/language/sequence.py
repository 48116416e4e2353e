"""A request to a language model on its way through a replica."""

from __future__ import annotations

from dovetail.serving.request import Request


class Sequence:
    """What was asked, how far it is, and when it had its first token."""

    __slots__ = (
        *("adapter", "decoding", "ends", "filled", "finished_s", "first_token_s", "held", "joined"),
        *("made", "number", "output", "preemptions", "prompt", "request", "routed_s"),
    )

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.prompt = request.prompt_tokens or 1
        self.output = request.output_tokens or 1
        self.adapter = request.adapter
        self.made = 0  # output tokens when it last began to decode, or lost its place
        self.filled = 0  # tokens of which the KV memory is computed, while it prefills
        self.held = 0  # tokens in KV memory when it began to decode
        self.joined = 0  # the step at which it began to decode
        self.ends = 0  # the step after which it is finished
        self.decoding = False
        self.preemptions = 0
        self.routed_s = 0.0  # when it came to its replica
        self.first_token_s = -1.0
        self.finished_s = -1.0

    @property
    def to_fill(self) -> int:
        """Tokens to prefill: the prompt, and what was made before its memory was taken away."""
        return self.prompt + self.made
