"""How long one step of a language model takes: prefill and decode costed apart.

A *step* is one pass through the model. Decoding reads all weights and the KV memory of every
sequence, so it costs a little more with each sequence and with each token that these hold. Prefill
computes, so it costs with each token of the prompts. A step that does both costs what a prefill of
all its tokens costs, and never less than its decoding alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from dovetail.core.model import Seconds


@dataclass(frozen=True, slots=True)
class TimesByCount:
    """Seconds over a count: straight lines between measured points, and on beyond the last, where they
    never fall."""

    points: tuple[tuple[int, Seconds], ...]

    def __post_init__(self) -> None:
        counts = [count for count, _ in self.points]
        if not counts or counts != sorted(set(counts)) or counts[0] < 1:
            raise ValueError("give a table of times by rising counts, the first at least 1")
        if any(seconds <= 0 for _, seconds in self.points):
            raise ValueError("the times of a table must be above 0")

    def at(self, count: int) -> Seconds:
        """Before the first point: the first one's time."""
        points = self.points
        if count <= points[0][0] or len(points) == 1:
            return points[0][1]
        last = next((i for i in range(1, len(points)) if points[i][0] >= count), len(points) - 1)
        (low, below), (high, above) = points[last - 1], points[last]
        if count > high and above < below:
            return above
        return below + (above - below) * (count - low) / (high - low)


@dataclass(frozen=True, slots=True)
class PrefillCost:
    """A straight line over the tokens of a step, or a curve; attention goes with pairs of tokens."""

    fixed_s: Seconds = 0.0
    per_token_s: Seconds = 0.0
    per_pair_s: Seconds = 0.0
    curve: TimesByCount | None = None

    def of(self, tokens: int) -> Seconds:
        """Seconds for so many tokens in one step, attention left out."""
        if self.curve is not None:
            return self.curve.at(tokens)
        return self.fixed_s + self.per_token_s * tokens

    def attention(self, tokens: int, before: int) -> Seconds:
        """Each token looks at all tokens before it in its prompt: `before` came in earlier steps."""
        return self.per_pair_s * (tokens * before + tokens * tokens / 2)


@dataclass(frozen=True, slots=True)
class DecodeCost:
    """A straight line over sequences, or a curve; and each token held by them is read."""

    fixed_s: Seconds = 0.0
    per_sequence_s: Seconds = 0.0
    per_held_token_s: Seconds = 0.0
    curve: TimesByCount | None = None

    def of(self, sequences: int) -> Seconds:
        """Seconds of a step for so many sequences, the reading of what they hold left out."""
        if self.curve is not None:
            return self.curve.at(sequences)
        return self.fixed_s + self.per_sequence_s * sequences


@dataclass(frozen=True, slots=True)
class StepCosts:
    """All that a step can cost."""

    prefill: PrefillCost
    decode: DecodeCost
    per_adapter_s: Seconds = 0.0  # for each different adapter in a step

    def __post_init__(self) -> None:
        if not (self.prefill.of(1) > 0 and self.decode.of(1) > 0):
            raise ValueError("give times above 0 for a step of prefill and for one of decode")

    def mixed_s(self, prompt_tokens: int, sequences: int) -> Seconds:
        """A step that prefills and decodes, attention left out."""
        together = self.prefill.of(prompt_tokens + sequences)
        return max(together, self.decode.of(sequences)) if sequences else together


def total_s(steps: int, first_s: Seconds, more_s: Seconds) -> Seconds:
    """Seconds of so many steps, each longer than the one before by `more_s`."""
    return steps * first_s + more_s * (steps * (steps - 1) // 2)


def steps_beyond(elapsed_s: Seconds, most: int, first_s: Seconds, more_s: Seconds) -> int:
    """The step, 1 to `most`, that is under way after that time; at the end of one, the next."""
    if elapsed_s < first_s:
        return 1
    half = first_s - more_s / 2
    root = sqrt(half * half + 2 * more_s * elapsed_s)
    steps = min(max(int(2 * elapsed_s / (half + root)), 1), most)
    while steps < most and total_s(steps, first_s, more_s) <= elapsed_s:
        steps += 1
    while steps > 1 and total_s(steps - 1, first_s, more_s) > elapsed_s:
        steps -= 1
    return steps
