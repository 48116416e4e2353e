"""Power limits: how much slower a job is on GPUs that may draw less, and what they draw then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple, final


class Limited(NamedTuple):
    """A limit in watts (0: none), the time a job takes over that without a limit, and the watts that
    each of its GPUs draws meanwhile; None: as the node says."""

    limit: int = 0
    slowdown: float = 1.0
    watts: float | None = None


UNLIMITED: Final = (Limited(),)
HASTE: Final = 1.0  # what an hour of a GPU is worth, in the energy that it draws without a limit


@final
class PowerTable:
    """By model and GPU kind, what was measured under each limit."""

    def __init__(self, measured: Mapping[tuple[str, str], Sequence[Limited]]) -> None:
        """Without a limit must be among them."""
        self.models: Final = frozenset([model for model, _ in measured])
        self.kinds: Final = frozenset([kind for _, kind in measured])
        self._at: Final = {
            (*key, step.limit): step for key, steps in measured.items() for step in steps
        }
        self._choices: Final = {key: _worth_choosing(steps) for key, steps in measured.items()}

    def __bool__(self) -> bool:
        return bool(self._at)

    def choices(self, model: str, kind: str) -> Sequence[Limited]:
        """The limits worth choosing from: no limit at all, and whatever saves energy for its time."""
        return self._choices.get((model, kind), UNLIMITED)

    def choices_in_haste(self, model: str, kind: str, haste: float) -> Sequence[Limited]:
        """Those of them for a job whose time is worth so much of its energy without a limit: none
        slower than the one with which time and energy together cost least (as Zeus chooses)."""
        steps = self.choices(model, kind)
        hurry = haste * (steps[0].watts or 0.0)
        best = min(steps, key=lambda step: ((step.watts or 0.0) + hurry) * step.slowdown)
        return [step for step in steps if step.slowdown <= best.slowdown]

    def within(self, ranges: Mapping[str, tuple[float, float]]) -> PowerTable:
        """Without limits that GPUs cannot have: by kind from which watts to which; none for others."""
        kept: dict[tuple[str, str], list[Limited]] = {}
        for (model, kind, limit), step in self._at.items():
            low, high = ranges.get(kind, (0.0, 0.0))
            if not limit or low <= limit <= high:
                kept.setdefault((model, kind), []).append(step)
        return PowerTable(kept)

    def limits(self, kind: str) -> frozenset[int]:
        """All that were measured on GPUs of that kind."""
        return frozenset([limit for _, own, limit in self._at if own == kind and limit])

    def at(self, model: str, kind: str, limit: int) -> Limited:
        return self._at.get((model, kind, limit), UNLIMITED[0])


def _worth_choosing(steps: Sequence[Limited]) -> tuple[Limited, ...]:
    """No limit, then those that need less energy than whatever is as fast."""
    kept = [step for step in steps if not step.limit]
    least = inf
    for step in sorted(steps, key=lambda step: (step.slowdown, step.watts)):
        energy = step.slowdown * (step.watts or 0.0)
        if energy < least and step.limit:
            kept.append(step)
        least = min(least, energy)
    return tuple(kept)


NO_LIMITS: Final = PowerTable({})
