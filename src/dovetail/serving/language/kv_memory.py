"""The KV memory of a replica in blocks, and when the sequences that decode will have filled it.

A sequence that holds so many tokens has as many blocks as these need. All that decode take one
more token at each step, so which of them begins a new block at a step depends on one number that
stays the same for as long as it decodes: its *phase*. Counting sequences by phase says how many
blocks any number of steps will take, without going through the steps or the sequences.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KvSize:
    """How much a replica can hold, and how much of that is kept free when a sequence is let in."""

    blocks: int
    block_tokens: int = 16
    watermark: float = 0.01  # of the blocks; vLLM's

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.block_tokens < 1:
            raise ValueError("KV memory needs at least one block of at least one token")
        if not 0 <= self.watermark < 1:
            raise ValueError(f"watermark {self.watermark:g} is not between 0 and 1")

    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)


class KvMemory:
    """Which blocks are free, and who will take how many."""

    __slots__ = ("_growing", "_reserve", "_size", "decoding", "free")

    def __init__(self, size: KvSize) -> None:
        self._size = size
        self._reserve = int(size.watermark * size.blocks)
        self._growing = [0] * size.block_tokens  # sequences by phase
        self.decoding = 0
        self.free = size.blocks

    def has_room(self, blocks: int, reclaimable: int = 0) -> bool:
        """Whether a sequence may be let in that begins with so many blocks."""
        return self.free + reclaimable - blocks >= self._reserve

    def join(self, tokens: int, step: int) -> None:
        """A sequence that holds so many tokens decodes from that step on."""
        self._growing[(tokens - step) % self._size.block_tokens] += 1
        self.decoding += 1

    def leave(self, tokens: int, step: int) -> None:
        """It no longer decodes."""
        self._growing[(tokens - step) % self._size.block_tokens] -= 1
        self.decoding -= 1

    def taken_at(self, step: int) -> int:
        """Blocks that this step takes."""
        return self._growing[-step % len(self._growing)]

    def taken_by(self, steps: int, step: int) -> int:
        """Blocks that so many steps take, beginning with that one."""
        growing = self._growing
        width = len(growing)
        if steps == 1:
            return growing[-step % width]
        whole, rest = divmod(steps, width)
        last = -step % width  # the phase of the first of them; the others come before it
        first = last - rest + 1
        if first >= 0:
            part = sum(growing[first : last + 1])
        else:
            part = sum(growing[: last + 1]) + sum(growing[first:])
        return whole * self.decoding + part

    def steps_that_fit(self, most: int, step: int, reclaimable: int = 0) -> int:
        """How many steps, at most so many, there are free blocks for."""
        width, left, each = self._size.block_tokens, self.free + reclaimable, self.decoding
        if each * (most // width + 1) <= left:
            return most
        done = min(most // width, left // each)
        left -= done * each
        done *= width
        while done < most:
            left -= self._growing[-(step + done) % width]
            if left < 0:
                break
            done += 1
        return done
