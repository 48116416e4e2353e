"""Population-based training (Jaderberg and others, 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from dovetail.tune.rules import Copy, Verdict
from dovetail.tune.rules.rungs import arrived
from dovetail.tune.study import Setting, Study, Trial


@dataclass(frozen=True, slots=True)
class Pbt:
    """Every `every` steps a trial in the worst `part` takes over the weights and settings of one in the
    best `part`; each setting is then drawn anew with probability `anew`, else made larger or smaller by
    a fifth. The population takes turns of `every` steps. Trials must save checkpoints."""

    copies: ClassVar[bool] = True
    every: int = 5
    part: float = 0.25
    anew: float = 0.25

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every={self.every}; give at least 1 step")
        if not 0 < self.part <= 0.5 or not 0 <= self.anew <= 1:
            raise ValueError("part is above 0 and at most 0.5, anew between 0 and 1")

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        steps = len(trial.losses)
        if steps % self.every:
            return None
        peers = sorted(arrived(study.trials, steps), key=lambda one: one.losses[steps - 1])
        few = int(len(peers) * self.part)
        if not few or trial not in peers[-few:]:
            return None
        chance = Random(f"{study.seed}/{trial.number}/{steps}")
        source = chance.choice(peers[:few])
        return Copy(source, explored(source, study.trials, self.anew, chance))

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        if leaving is not None and len(leaving.losses) % self.every:
            return leaving
        waiting = study.waiting()
        fewest = min(waiting, key=lambda trial: len(trial.losses), default=leaving)
        if leaving is None or fewest is None or len(fewest.losses) < len(leaving.losses):
            return fewest
        return leaving


def explored(
    source: Trial, population: Sequence[Trial], anew: float, chance: Random
) -> Mapping[str, Setting]:
    """The settings of the source, changed; never outside the range of the population."""
    return {
        name: _changed(
            value, [t.settings[name] for t in population if name in t.settings], anew, chance
        )
        for name, value in source.settings.items()
    }


def _changed(value: Setting, known: Sequence[Setting], anew: float, chance: Random) -> Setting:
    if chance.random() < anew:
        return chance.choice(known)
    factor = chance.choice((0.8, 1.2))
    if isinstance(value, bool | str):
        return value
    numbers = [one for one in known if not isinstance(one, bool | str)]
    changed = min(max(value * factor, min(numbers)), max(numbers))
    return round(changed) if isinstance(value, int) else changed
