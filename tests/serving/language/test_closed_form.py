"""Many steps taken as one are equal, to the last bit, to the steps taken one by one.

All times are multiples of 1/1024 s, so that sums of them have no rounding in whatever order.
"""

from __future__ import annotations

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.serving.language.adapters import AdapterSize
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.settings import PREFILL, WHEN_FULL, LanguageModel, StepRule
from dovetail.serving.language.step_costs import DecodeCost, PrefillCost, StepCosts, TimesByCount
from dovetail.serving.request import Request
from language_replaying import replayed
from language_step_by_step import StepByStep, Told

TICK = 1 / 1024


def ticks(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda count: count * TICK)


COSTS = st.builds(
    StepCosts,
    st.builds(PrefillCost, ticks(1, 20), ticks(0, 4), st.sampled_from([0.0, TICK / 64])),
    st.one_of(
        st.builds(DecodeCost, ticks(1, 40), ticks(0, 4), st.sampled_from([0.0, TICK / 64, TICK])),
        st.just(DecodeCost(0.0, 0.0, TICK, TimesByCount(((1, 8 * TICK), (5, 16 * TICK))))),
    ),
    ticks(0, 3),
)
MODELS = st.builds(
    LanguageModel,
    COSTS,
    st.builds(
        KvSize,
        st.integers(12, 60),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([0.0, 0.05, 0.2]),
    ),
    st.builds(AdapterSize, st.integers(0, 3), ticks(0, 30)),
    ticks(0, 4),
)
RULES = st.builds(
    StepRule,
    st.integers(1, 8),
    st.sampled_from(PREFILL),
    st.integers(1, 40),
    st.sampled_from(WHEN_FULL),
)
REQUESTS = st.lists(
    st.tuples(
        ticks(0, 600),
        st.integers(1, 24),
        st.integers(1, 40),
        st.sampled_from(["", "", "a", "b", "c"]),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=400, deadline=None)
@given(model=MODELS, rule=RULES, asked=REQUESTS)
def test_stretches_are_equal_to_single_steps(
    model: LanguageModel, rule: StepRule, asked: list[tuple[float, int, int, str]]
) -> None:
    asked = sorted(one for one in asked if one[1] + one[2] <= model.most_tokens(bool(one[3])))
    slow = StepByStep(model, rule, [Told(i, *one) for i, one in enumerate(asked)])
    expected = slow.run()
    requests = [Request(one[0], "s", inf, one[1], one[2], one[3]) for one in asked]
    replica, sequences = replayed(model, rule, requests)
    assert [(one.first_token_s, one.finished_s) for one in sequences] == [
        (one.first, one.finished) for one in expected
    ]
    assert replica.preemptions == slow.preemptions
    assert replica.adapter_loads == slow.loads
