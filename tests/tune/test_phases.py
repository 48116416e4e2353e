"""Prefix sharing: the tree of stages of trials that differ only later."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dovetail.tune.phases import Stage, stage_tree
from dovetail.tune.space import Choice, Float, Space

SPACE = Space(
    {
        "lr": Choice(0.1, 0.01),
        "decay": Choice("none", "step", from_step=20),
        "factor": Choice(0.1, 0.5, when={"decay": "step"}),
        "tail": Choice(1, 2, from_step=30),
    }
)


def steps_run(tree: Sequence[Stage]) -> int:
    return sum(stage.steps for stage in tree)


def steps_saved(tree: Sequence[Stage]) -> int:
    """Against training each trial by itself."""
    return sum(stage.steps * (len(stage.trials) - 1) for stage in tree)


def path_to(tree: Sequence[Stage], stage: int) -> list[int]:
    """The stages from the root to this one: what a trial of it goes through."""
    parent = tree[stage].parent
    return [*([] if parent is None else path_to(tree, parent)), stage]


def test_a_worked_example() -> None:
    """Two rates; one decays from step 20 in two ways or not at all, the other has no variants.

    Alone: 5 trials x 40 steps = 200. Shared:
        lr 0.1:   0-20 once, then (none) 20-40, (step, 0.5) 20-40, (step, 0.1) 20-30, and from
                  there tail 1 and tail 2, 30-40 each                20 + 20 + 20 + 10 + 10 + 10
        lr 0.01:  0-40, nobody to share with                         40
    """
    trials: list[dict[str, Any]] = [
        {"lr": 0.1, "decay": "none", "tail": 1},
        {"lr": 0.1, "decay": "step", "factor": 0.1, "tail": 1},
        {"lr": 0.1, "decay": "step", "factor": 0.1, "tail": 2},
        {"lr": 0.1, "decay": "step", "factor": 0.5, "tail": 1},
        {"lr": 0.01, "decay": "none", "tail": 1},
    ]
    tree = stage_tree(trials, SPACE.from_steps(), 40)
    assert tree == (
        Stage({"lr": 0.1}, 0, 20, None, (0, 1, 2, 3)),
        Stage(trials[0], 20, 40, 0, (0,)),
        Stage({"lr": 0.1, "decay": "step", "factor": 0.1}, 20, 30, 0, (1, 2)),
        Stage(trials[1], 30, 40, 2, (1,)),
        Stage(trials[2], 30, 40, 2, (2,)),
        Stage(trials[3], 20, 40, 0, (3,)),
        Stage(trials[4], 0, 40, None, (4,)),
    )
    assert steps_run(tree) == 130
    assert steps_saved(tree) == 70
    assert path_to(tree, 4) == [0, 2, 4]


def test_trials_that_differ_from_the_first_step_share_nothing() -> None:
    tree = stage_tree([{"lr": 0.1}, {"lr": 0.2}], {"lr": 0}, 10)
    assert [(stage.from_step, stage.to_step, stage.parent) for stage in tree] == [(0, 10, None)] * 2
    assert steps_saved(tree) == 0


def test_the_same_settings_twice_are_trained_once() -> None:
    tree = stage_tree([{"lr": 0.1}] * 3, {"lr": 0}, 10)
    assert tree == (Stage({"lr": 0.1}, 0, 10, None, (0, 1, 2)),)
    assert steps_saved(tree) == 20


def test_nobody_is_cut_where_nobody_parts() -> None:
    late = {"lr": 0, "decay": 5}
    assert len(stage_tree([{"lr": 0.1, "decay": 1}, {"lr": 0.2, "decay": 2}], late, 10)) == 2


def test_a_truth_value_is_not_taken_for_a_number() -> None:
    assert steps_saved(stage_tree([{"x": True}, {"x": 1}], {}, 10)) == 0


def test_a_study_of_decays_costs_a_third() -> None:
    """Nine decays of one rate from step 27 of 36: 27 + 9 x 9 steps instead of 9 x 36."""
    space = Space({"lr": Choice(0.1), "decay": Float(0, 0.8, step=0.1, from_step=27)})
    tree = stage_tree(list(space.grid()), space.from_steps(), 36)
    assert (steps_run(tree), steps_saved(tree)) == (108, 216)


TRIALS = st.lists(
    st.fixed_dictionaries({name: st.integers(0, 2) for name in "abc"}), min_size=1, max_size=12
)
PHASES = st.fixed_dictionaries({name: st.integers(0, 12) for name in "abc"})


@given(TRIALS, PHASES)
def test_every_trial_goes_through_all_its_steps_with_its_own_settings(
    trials: list[dict[str, Any]], from_steps: dict[str, int]
) -> None:
    tree = stage_tree(trials, from_steps, 10)
    for number, settings in enumerate(trials):
        own = [index for index, stage in enumerate(tree) if number in stage.trials]
        assert own == path_to(tree, own[-1])
        stages = [tree[index] for index in own]
        assert stages[0].from_step == 0
        assert stages[-1].to_step == 10
        assert all(one.to_step == next_.from_step for one, next_ in pairwise(stages))
        for stage in stages:
            counts = {name for name, step in from_steps.items() if step < stage.to_step}
            assert stage.settings == {name: settings[name] for name in settings if name in counts}
    assert steps_run(tree) + steps_saved(tree) == 10 * len(trials)
    for stage in tree:
        children = [own for own in tree if own.parent is not None and tree[own.parent] is stage]
        assert len(children) != 1
