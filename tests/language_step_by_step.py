"""Continuous batching told slowly: every step, every sequence, all memory counted anew.

The product takes many steps as one. This is what it must be equal to, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.serving.language.settings import LanguageModel, StepRule


@dataclass
class Told:
    """One request, and where it is."""

    number: int
    arrived: float
    prompt: int
    output: int
    adapter: str = ""
    state: str = "waiting"  # waiting, prefilling, decoding, swapped, finished
    made: int = 0
    tokens: int = 0  # in KV memory
    reserved: int = 0  # tokens that its blocks are for
    first: float = -1.0
    finished: float = -1.0


class StepByStep:
    """One replica."""

    def __init__(self, model: LanguageModel, rule: StepRule, requests: list[Told]) -> None:
        self.model, self.rule, self.requests = model, rule, requests
        self.idle_adapters: list[str] = []  # loaded, unused, least recently used first
        self.delay = 0.0
        self.preemptions = self.loads = self.steps = 0
        self.order: list[Told] = []  # worked on, in the order they were let in
        self.chunks: list[tuple[Told, int]] = []
        self.decoded: list[Told] = []

    def run(self) -> list[Told]:
        now = 0.0
        queue: list[Told] = []
        coming = sorted(self.requests, key=lambda one: (one.arrived, one.number))
        while coming or queue or self.order or self.in_state("swapped"):
            if not (queue or self.order or self.in_state("swapped")):
                now = max(now, coming[0].arrived)
                queue.append(coming.pop(0))
            self.steps += 1
            ends = now + self.step(queue)
            self.at_end(ends)
            while coming and coming[0].arrived < ends:
                queue.append(coming.pop(0))
            now = ends
        return self.requests

    # ------------------------------------------------------------------------------------- one step

    def step(self, queue: list[Told]) -> float:
        self.delay = 0.0
        self.chunks = []
        if self.rule.prefill == "alone":
            self.admit(queue, self.rule.step_tokens, 0)
            if not self.chunks:
                self.decoders_get_room(queue)
        else:
            preempted = self.decoders_get_room(queue)
            left = self.rule.step_tokens - len(self.in_state("decoding"))
            for one in list(self.order):
                if one.state == "prefilling" and left > 0:
                    part = min(one.prompt + one.made - one.tokens, left)
                    self.chunks.append((one, part))
                    left -= part
            if not preempted:
                self.admit(queue, left, self.wanted())
        alone = self.rule.prefill == "alone" and bool(self.chunks)
        self.decoded = [] if alone else self.in_state("decoding")
        seconds = self.seconds()
        for one in self.decoded:
            one.reserved = max(one.reserved, one.tokens + 1)
        self.make_adapters_fit()
        return self.delay + seconds

    def at_end(self, now: float) -> None:
        for one in self.decoded:
            one.tokens += 1
            one.made += 1
        for one, part in self.chunks:
            one.tokens += part
            if one.tokens == one.prompt + one.made:
                one.state, one.made = "decoding", one.made + 1
                one.first = now if one.first < 0 else one.first
        for one in list(self.order):
            if one.state == "decoding" and one.made == one.output:
                one.state, one.finished = "finished", now
                self.leave(one)

    def seconds(self) -> float:
        costs = self.model.costs
        held = sum(one.tokens for one in self.decoded)
        tokens = sum(part for _, part in self.chunks)
        pairs = sum(costs.prefill.attention(part, one.tokens) for one, part in self.chunks)
        if self.chunks and self.rule.prefill == "alone":
            seconds = costs.prefill.of(tokens) + pairs
            used = {one.adapter for one, _ in self.chunks if one.adapter}
        elif self.chunks:
            seconds = costs.mixed_s(tokens, len(self.decoded)) + pairs
            used = {one.adapter for one in self.order if one.adapter}
        else:
            seconds = costs.decode.of(len(self.decoded))
            used = {one.adapter for one in self.order if one.adapter}
        return seconds + costs.decode.per_held_token_s * held + costs.per_adapter_s * len(used)

    # ------------------------------------------------------------------------------- memory, counted

    def in_state(self, state: str) -> list[Told]:
        return [one for one in self.requests if one.state == state]

    def blocks(self, tokens: int) -> int:
        return (tokens + self.model.kv.block_tokens - 1) // self.model.kv.block_tokens

    def free(self) -> int:
        """Unused adapters counted as free: they are dropped when their blocks are wanted."""
        held = sum(self.blocks(one.reserved) for one in self.order)
        used = {one.adapter for one in self.order if one.adapter}
        return self.model.kv.blocks - held - len(used) * self.model.adapters.blocks

    def make_adapters_fit(self) -> None:
        while self.idle_adapters and (
            len(self.idle_adapters) * self.model.adapters.blocks > self.free()
        ):
            self.idle_adapters.pop(0)

    def wanted(self) -> int:
        """New blocks for one more token of each that decodes."""
        return sum(
            self.blocks(one.tokens + 1) - self.blocks(one.reserved)
            for one in self.in_state("decoding")
            if one.tokens + 1 > one.reserved
        )

    def has_room(self, one: Told, tokens: int, soon: int) -> bool:
        used = {other.adapter for other in self.order}
        need = self.blocks(tokens) + soon
        if one.adapter and one.adapter not in used:
            need += self.model.adapters.blocks
        return self.free() - need >= int(self.model.kv.watermark * self.model.kv.blocks)

    # ---------------------------------------------------------------------------- who comes and goes

    def enter(self, one: Told, tokens: int, state: str) -> None:
        used = {other.adapter for other in self.order}
        if one.adapter in self.idle_adapters:
            self.idle_adapters.remove(one.adapter)
        elif one.adapter and one.adapter not in used:
            self.delay += self.model.adapters.load_s
            self.loads += 1
        one.state, one.reserved = state, tokens
        self.order.append(one)
        self.make_adapters_fit()

    def leave(self, one: Told) -> None:
        self.order.remove(one)
        if one.adapter and all(other.adapter != one.adapter for other in self.order):
            self.idle_adapters.append(one.adapter)

    def admit(self, queue: list[Told], left: int, soon: int) -> None:
        if self.in_state("swapped"):
            return
        while queue and len(self.order) < self.rule.max_batch:
            one = queue[0]
            tokens = one.prompt + one.made
            part = min(tokens, left) if self.rule.prefill == "chunked" else tokens
            if part <= 0 or (part > left and self.chunks) or not self.has_room(one, tokens, soon):
                return
            self.enter(queue.pop(0), tokens, "prefilling")
            self.chunks.append((one, part))
            left -= part

    def decoders_get_room(self, queue: list[Told]) -> bool:
        preempted = False
        while self.wanted() > self.free():
            self.preempt(self.order[-1], queue)
            preempted = True
        if not preempted:
            self.swap_in()
        return preempted

    def preempt(self, one: Told, queue: list[Told]) -> None:
        self.preemptions += 1
        if self.rule.when_full == "swap" and one.state == "decoding":
            self.delay += self.model.swap_block_s * self.blocks(one.tokens)
            one.state = "swapped"
        else:
            one.state, one.tokens = "waiting", 0
            queue.insert(0, one)
        self.leave(one)

    def swap_in(self) -> None:
        for one in sorted(self.in_state("swapped"), key=lambda one: (one.arrived, one.number)):
            full = len(self.order) >= self.rule.max_batch
            if full or not self.has_room(one, one.tokens + 1, self.wanted()):
                return
            self.delay += self.model.swap_block_s * self.blocks(one.tokens)
            self.enter(one, one.tokens, "decoding")
