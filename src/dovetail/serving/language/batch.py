"""The sequences a replica works on, and the memory they hold.

All that decode advance together, so a sequence's end is a step that is known when it begins to
decode: nothing is done for it until then.
"""

from __future__ import annotations

from heapq import heappop, heappush

from dovetail.core.model import Seconds
from dovetail.serving.language.adapters import Adapters
from dovetail.serving.language.kv_memory import KvMemory
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel


class Batch:
    """The sequences that decode in one replica, with the memory and the adapters that they use.
    Time is counted in steps of decoding."""

    __slots__ = ("_ends", "_size", "adapters", "held", "kv", "running", "step")

    def __init__(self, model: LanguageModel) -> None:
        self._size = model.kv
        self._ends: list[tuple[int, int, Sequence]] = []
        self.kv = KvMemory(model.kv)
        self.adapters = Adapters(model.adapters)
        self.running: dict[int, Sequence] = {}  # by number, in the order they were let in
        self.held = 0  # tokens held by those that decode
        self.step = 0

    def has_room(self, sequence: Sequence, tokens: int, soon: int = 0) -> bool:
        """Whether it may begin with so many tokens, and `soon` blocks are left for the others."""
        blocks, adapters = self._size.blocks_of(tokens) + soon, self.adapters
        if not sequence.adapter:
            return self.kv.has_room(blocks, adapters.reclaimable)
        wanted = blocks + adapters.blocks_wanted(sequence.adapter)
        return self.kv.has_room(wanted, adapters.reclaimable_beside(sequence.adapter))

    def let_in(self, sequence: Sequence, tokens: int) -> Seconds:
        """It takes its blocks; the seconds until its adapter is loaded."""
        self.running[sequence.number] = sequence
        blocks, adapters = self._size.blocks_of(tokens), self.adapters
        if not sequence.adapter:
            self.take(blocks)
            return 0.0
        blocks += adapters.blocks_wanted(sequence.adapter)
        seconds = adapters.use(sequence.adapter)
        self.take(blocks)
        return seconds

    def take(self, blocks: int) -> None:
        """Blocks are used; adapters that nobody uses make way."""
        kv = self.kv
        if kv.free < blocks:
            kv.free += self.adapters.drop(blocks - kv.free)
        kv.free -= blocks

    def join(self, sequence: Sequence) -> None:
        """It has its KV memory and decodes from the next step on."""
        step = self.step
        sequence.joined = step
        sequence.ends = step + sequence.output - sequence.made
        sequence.decoding = True
        self.held += sequence.held
        self.kv.join(sequence.held, step)
        heappush(self._ends, (sequence.ends, sequence.number, sequence))

    def steps_to_first_end(self) -> int:
        """How many steps until a sequence is finished; somebody must decode."""
        ends = self._ends
        while not (ends[0][2].decoding and ends[0][2].ends == ends[0][0]):
            heappop(ends)
        return ends[0][0] - self.step

    def advance(self, steps: int) -> list[Sequence]:
        """All that decode have made so many tokens, and taken blocks for them. Those that have made
        their last one leave."""
        kv, ends = self.kv, self._ends
        if blocks := kv.taken_by(steps, self.step):
            self.take(blocks)
        self.step = step = self.step + steps
        self.held += steps * kv.decoding
        return self._pop_finished() if ends and ends[0][0] <= step else []

    def _pop_finished(self) -> list[Sequence]:
        ends, finished = self._ends, []
        while ends and ends[0][0] <= self.step:
            step, number, sequence = heappop(ends)
            if sequence.decoding and sequence.ends == step:
                self._stop_decoding(sequence)
                del self.running[number]
                self._free(sequence, sequence.held)
                finished.append(sequence)
        return finished

    def release(self, sequence: Sequence) -> None:
        """It leaves after its prefill: there was one token to make."""
        del self.running[sequence.number]
        self._free(sequence, sequence.held)

    def preempt_last(self) -> Sequence:
        """Who was let in last gives its blocks back; `held` says how many tokens it had."""
        _, sequence = self.running.popitem()
        sequence.preemptions += 1
        if sequence.decoding:
            self._stop_decoding(sequence)
            self._free(sequence, sequence.held)
        else:
            self._free(sequence, sequence.to_fill)
            sequence.filled = sequence.held = 0
        return sequence

    def _stop_decoding(self, sequence: Sequence) -> None:
        done = self.step - sequence.joined
        sequence.made += done
        sequence.held += done
        sequence.decoding = False
        self.held -= sequence.held
        self.kv.leave(sequence.held, self.step)

    def _free(self, sequence: Sequence, tokens: int) -> None:
        self.kv.free += self._size.blocks_of(tokens)
        if sequence.adapter:
            self.adapters.release(sequence.adapter)
