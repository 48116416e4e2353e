"""One replica of a language model: at the end of a step it decides what the next one does.

As long as nobody comes, ends or is out of memory, all steps of decoding are alike but for what the
sequences hold, so they are taken as one *stretch*, whose length and time are closed forms.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from math import inf

from dovetail.core.model import Seconds
from dovetail.serving.language.batch import Batch
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.language.step_costs import DecodeCost, steps_beyond, total_s


@lru_cache(maxsize=64)
def _decode_seconds(cost: DecodeCost, most: int) -> tuple[Seconds, ...]:
    return tuple([cost.of(sequences) for sequences in range(most + 1)])


class LanguageReplica:
    """Lets sequences in step by step, and preempts where memory is short.

    Tell it of arrivals, and call `turn` at `ends_s`: it gives back who has finished.
    """

    __slots__ = (
        *(
            "_batch",
            "_began_s",
            "_chunks",
            "_decode_s",
            "_delay_s",
            "_first_s",
            "_is_apart",
            "_model",
        ),
        *("_more_s", "_partly", "_rule", "_steps", "_swapped", "_waiting", "ends_s", "load"),
        "preemptions",
    )

    def __init__(self, model: LanguageModel, rule: StepRule) -> None:
        self._model = model
        self._rule = rule
        self._is_apart = rule.prefill == "alone"
        self._batch = Batch(model)
        self._decode_s = _decode_seconds(model.costs.decode, rule.max_batch)
        self._waiting: deque[Sequence] = deque()
        self._swapped: deque[Sequence] = deque()
        self._chunks: list[tuple[Sequence, int]] = []  # prompts, or parts of them, in this stretch
        self._partly: list[Sequence] = []  # let in, their prompts not done
        self._steps = 0  # of decoding in this stretch
        self._began_s = self._delay_s = self._first_s = self._more_s = 0.0
        self.ends_s = inf  # of this stretch; infinite while nobody is here
        self.load = 0  # sequences that wait or are worked on
        self.preemptions = 0

    @property
    def working(self) -> int:
        """Sequences that are worked on."""
        return len(self._batch.running)

    @property
    def adapter_loads(self) -> int:
        return self._batch.adapters.loads

    def arrive(self, now: Seconds, sequence: Sequence) -> None:
        """It is let in at the end of a step: of the one under way, if there is room for it then.

        Where nobody was here, `turn` is to be called at once.
        """
        may_join = self._steps > 1 and not self._waiting and self._may_have_room(sequence)
        self._waiting.append(sequence)
        self.load += 1
        if self.ends_s == inf:
            self.ends_s = now
        elif may_join:
            self._cut(now)

    def turn(self, now: Seconds) -> list[Sequence]:
        """The stretch is over: who has finished leaves, and the next one is planned."""
        finished = self._close(now)
        self.load -= len(finished)
        self._chunks, self._steps, self._delay_s = [], 0, 0.0
        if self._is_apart:
            self._plan_apart()
        else:
            self._plan_together()
        self._began_s = now
        self.ends_s = now + self._stretch_s() if self._chunks or self._steps else inf
        return finished

    def evict_waiting(self) -> list[Sequence]:
        """Those that have not begun go elsewhere: this replica gets nothing more."""
        begun = [one for one in self._waiting if one.preemptions]
        moved = [one for one in self._waiting if not one.preemptions]
        self._waiting = deque(begun)
        self.load -= len(moved)
        return moved

    # ------------------------------------------------------------------------- the stretch under way

    def _stretch_s(self) -> Seconds:
        steps = self._steps
        if steps <= 1:
            return self._delay_s + self._first_s
        return self._delay_s + total_s(steps, self._first_s, self._more_s)

    def _may_have_room(self, sequence: Sequence) -> bool:
        """False only if there is surely none before this stretch is over."""
        if self._swapped or len(self._batch.running) >= self._rule.max_batch:
            return False
        return self._batch.has_room(sequence, sequence.to_fill)

    def _cut(self, now: Seconds) -> None:
        """End the stretch with the step under way."""
        passed = now - self._began_s - self._delay_s
        self._steps = steps_beyond(passed, self._steps, self._first_s, self._more_s)
        self.ends_s = self._began_s + self._stretch_s()

    def _close(self, now: Seconds) -> list[Sequence]:
        finished = self._batch.advance(self._steps) if self._steps else []
        for sequence, tokens in self._chunks:
            sequence.filled += tokens
            if sequence.filled == sequence.to_fill:
                if self._partly and sequence in self._partly:
                    self._partly.remove(sequence)
                self._prefilled(sequence, now, finished)
        for sequence in finished:
            sequence.finished_s = now
        return finished

    def _prefilled(self, sequence: Sequence, now: Seconds, finished: list[Sequence]) -> None:
        """A prefill makes a token, too."""
        sequence.held, sequence.filled = sequence.filled, 0
        sequence.made += 1
        if sequence.first_token_s < 0:
            sequence.first_token_s = now
        if sequence.made == sequence.output:
            self._batch.release(sequence)
            finished.append(sequence)
        else:
            self._batch.join(sequence)

    # ------------------------------------------------------------------------------ the next stretch

    def _plan_apart(self) -> None:
        """Prompts go before decoding, in a step of their own."""
        if self._waiting:
            self._admit(self._rule.step_tokens, 0)
        if self._chunks:
            costs = self._model.costs
            adapters = {one.adapter for one, _ in self._chunks if one.adapter}
            self._first_s = costs.prefill.of(self._chunk_tokens()) + self._attention_s()
            self._first_s += costs.per_adapter_s * len(adapters)
            self._more_s = 0.0
        else:
            short = self._batch.kv.decoding > self._batch.kv.free and self._make_room()
            came_back = bool(self._swapped) and not short and self._swap_in()
            self._decode(short or came_back)

    def _plan_together(self) -> None:
        """Who decodes goes first; prompts fill what is left of the step's tokens."""
        batch = self._batch
        short = batch.kv.decoding > batch.kv.free and self._make_room()
        if self._swapped and not short:
            self._swap_in()
        if self._partly or self._waiting:
            left = self._go_on(self._rule.step_tokens - batch.kv.decoding)
            if not short:
                self._admit(left, batch.kv.taken_at(batch.step))
        if not self._chunks:
            self._decode(short)
            return
        costs, decoding = self._model.costs, batch.kv.decoding
        self._first_s = costs.mixed_s(self._chunk_tokens(), decoding) + self._attention_s()
        self._first_s += costs.decode.per_held_token_s * batch.held
        self._first_s += costs.per_adapter_s * batch.adapters.in_use
        self._more_s = 0.0
        self._steps = 1 if decoding else 0

    def _decode(self, one_step: bool) -> None:
        """As many steps as nothing changes in, or one, where somebody may be let in after it."""
        batch = self._batch
        decoding = batch.kv.decoding
        if not decoding:
            return
        most = 1 if one_step else batch.steps_to_first_end()
        self._steps = batch.kv.steps_that_fit(most, batch.step, batch.adapters.reclaimable)
        costs = self._model.costs
        per_held = costs.decode.per_held_token_s
        self._first_s = self._decode_s[decoding] + per_held * batch.held
        if costs.per_adapter_s:
            self._first_s += costs.per_adapter_s * batch.adapters.in_use
        self._more_s = per_held * decoding

    def _chunk_tokens(self) -> int:
        chunks = self._chunks
        return chunks[0][1] if len(chunks) == 1 else sum([tokens for _, tokens in chunks])

    def _attention_s(self) -> Seconds:
        prefill, chunks = self._model.costs.prefill, self._chunks
        if not prefill.per_pair_s:
            return 0.0
        if len(chunks) == 1:
            return prefill.attention(chunks[0][1], chunks[0][0].filled)
        return sum([prefill.attention(tokens, one.filled) for one, tokens in chunks])

    # ---------------------------------------------------------------------------- who comes and goes

    def _go_on(self, left: int) -> int:
        """Prompts of which a part is done; the tokens that are then left of the step."""
        for sequence in self._partly:
            if left > 0:
                tokens = min(sequence.to_fill - sequence.filled, left)
                self._chunks.append((sequence, tokens))
                left -= tokens
        return left

    def _admit(self, left: int, soon: int) -> None:
        """In the order of arrival, until one does not fit. `soon`: blocks that the others take."""
        batch, rule, waiting = self._batch, self._rule, self._waiting
        if self._swapped:
            return
        while waiting and len(batch.running) < rule.max_batch:
            sequence = waiting[0]
            tokens = sequence.to_fill
            part = min(tokens, left) if rule.prefill == "chunked" else tokens
            if part <= 0 or (part > left and self._chunks):
                return
            if not batch.has_room(sequence, tokens, soon):
                return
            waiting.popleft()
            self._delay_s += batch.let_in(sequence, tokens)
            self._chunks.append((sequence, part))
            if part < tokens:
                self._partly.append(sequence)
            left -= part

    def _make_room(self) -> bool:
        """There may be more to decode than blocks are free: preempt who came last until the others can
        take a step; whether anybody was."""
        kv, adapters, short = self._batch.kv, self._batch.adapters, False
        while kv.taken_at(self._batch.step) > kv.free + adapters.reclaimable:
            self._preempt()
            short = True
        return short

    def _preempt(self) -> None:
        sequence = self._batch.preempt_last()
        if sequence in self._partly:
            self._partly.remove(sequence)
        self.preemptions += 1
        if self._rule.when_full == "swap" and sequence.held:
            self._delay_s += self._swap_s(sequence)
            self._swapped.appendleft(sequence)
        else:
            sequence.held = 0
            self._waiting.appendleft(sequence)

    def _swap_in(self) -> bool:
        """Those whose memory lies on the host come back before anybody new; whether one did."""
        batch, swapped, came_back = self._batch, self._swapped, False
        while swapped and len(batch.running) < self._rule.max_batch:
            sequence = swapped[0]
            soon = batch.kv.taken_at(batch.step)
            if not batch.has_room(sequence, sequence.held + 1, soon):
                break
            swapped.popleft()
            self._delay_s += batch.let_in(sequence, sequence.held) + self._swap_s(sequence)
            batch.join(sequence)
            came_back = True
        return came_back

    def _swap_s(self, sequence: Sequence) -> Seconds:
        return self._model.swap_block_s * self._model.kv.blocks_of(sequence.held)
