"""Prefix sharing: training that trials have in common is done once.

After Hippo (Shin et al., VLDB 2022). Parameters that make no difference before some step divide the
training into phases; trials that agree on everything that counts so far share a stage, and separate
where they first differ. A stage begins from the checkpoint that its parent has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.tune.study import Setting


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of training that one or more trials have in common."""

    settings: Mapping[str, Setting]  # all that count before its end
    from_step: int
    to_step: int
    parent: int | None  # its place in the tree; None: it begins from nothing
    trials: tuple[int, ...]  # by their place among the trials given

    @property
    def steps(self) -> int:
        return self.to_step - self.from_step


def stage_tree(
    trials: Sequence[Mapping[str, Setting]], from_steps: Mapping[str, int], steps: int
) -> tuple[Stage, ...]:
    """The stages, parents first. `from_steps`: the step from which each parameter counts."""
    tree: list[Stage] = []
    _grow(tree, trials, from_steps, steps, tuple(range(len(trials))), 0, None)
    return tuple(tree)


def _grow(
    tree: list[Stage],
    trials: Sequence[Mapping[str, Setting]],
    from_steps: Mapping[str, int],
    steps: int,
    together: tuple[int, ...],
    begin: int,
    parent: int | None,
) -> None:
    """The stages of trials that agree up to `begin`, each followed by its descendants."""
    for group in _agreeing(trials, from_steps, together, begin):
        end = _parting(trials, from_steps, group, begin, steps)
        known = _known(trials[group[0]], from_steps, end)
        tree.append(Stage(known, begin, end, parent, group))
        if end < steps:
            _grow(tree, trials, from_steps, steps, group, end, len(tree) - 1)


def _parting(
    trials: Sequence[Mapping[str, Setting]],
    from_steps: Mapping[str, int],
    group: tuple[int, ...],
    begin: int,
    steps: int,
) -> int:
    """The first step after `begin` at which they differ."""
    for step in sorted({step for step in from_steps.values() if begin < step < steps}):
        if len(_agreeing(trials, from_steps, group, step)) > 1:
            return step
    return steps


def _agreeing(
    trials: Sequence[Mapping[str, Setting]],
    from_steps: Mapping[str, int],
    together: tuple[int, ...],
    step: int,
) -> list[tuple[int, ...]]:
    """Groups of trials whose settings at this step are equal, in the order of their first trial."""
    groups: dict[frozenset[tuple[str, type, Setting]], list[int]] = {}
    for index in together:
        known = _known(trials[index], from_steps, step + 1)
        key = frozenset((name, type(value), value) for name, value in known.items())
        groups.setdefault(key, []).append(index)
    return [tuple(group) for group in groups.values()]


def _known(
    settings: Mapping[str, Setting], from_steps: Mapping[str, int], before: int
) -> dict[str, Setting]:
    """The settings that count before this step."""
    return {name: own for name, own in settings.items() if from_steps.get(name, 0) < before}
