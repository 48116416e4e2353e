"""What continuous batching must give, from closed forms and by hand."""

from __future__ import annotations

from math import inf

import pytest

from dovetail.serving.language.adapters import AdapterSize
from dovetail.serving.language.kv_memory import KvMemory, KvSize
from dovetail.serving.language.replica import LanguageReplica
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.language.step_costs import (
    DecodeCost,
    PrefillCost,
    StepCosts,
    TimesByCount,
    steps_beyond,
    total_s,
)
from dovetail.serving.request import Request
from language_replaying import replayed

PLENTY = KvSize(100_000)
COSTS = StepCosts(PrefillCost(0.010, 0.001), DecodeCost(0.020, 0.001))  # 10 ms + 1, 20 ms + 1
NONE = AdapterSize()
APART = StepRule(prefill="alone")


def ran(
    *asked: tuple[float, int, int] | tuple[float, int, int, str],
    rule: StepRule = APART,
    kv: KvSize = PLENTY,
    costs: StepCosts = COSTS,
    adapters: AdapterSize = NONE,
    swap_block_s: float = 0.0,
) -> tuple[LanguageReplica, list[Sequence]]:
    """Requests at a time with so many tokens: of the prompt, to make; and an adapter."""
    requests = [Request(at, "chat", inf, *size) for at, *size in asked]
    return replayed(LanguageModel(costs, kv, adapters, swap_block_s), rule, requests)


def test_one_request_takes_its_prefill_and_a_step_for_each_further_token() -> None:
    _, (one,) = ran((5.0, 100, 11))
    assert one.first_token_s == pytest.approx(5.0 + 0.110)
    assert one.finished_s == pytest.approx(5.0 + 0.110 + 10 * 0.021)


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_equal_requests_are_decoded_at_the_rate_of_the_table(batch: int) -> None:
    table = TimesByCount(((1, 0.020), (4, 0.026), (16, 0.050)))
    costs = StepCosts(PrefillCost(0.001), DecodeCost(curve=table))
    _, sequences = ran(*[(0.0, 10, 1001)] * batch, costs=costs)
    begun = max(one.first_token_s for one in sequences)
    tokens_a_second = batch * 1000 / (sequences[-1].finished_s - begun)
    assert tokens_a_second == pytest.approx(batch / table.at(batch), rel=1e-9)


def test_who_comes_while_others_decode_joins_at_the_end_of_the_step() -> None:
    _, (first, second) = ran((0.0, 10, 101), (0.100, 10, 2))
    joins = 0.020 + 4 * 0.021  # the step in which 0.1 lies ends
    assert second.first_token_s == pytest.approx(joins + 0.020)
    assert second.finished_s == pytest.approx(joins + 0.020 + 0.022)
    assert first.finished_s == pytest.approx(joins + 0.020 + 0.022 + (100 - 4 - 1) * 0.021)


def test_decoding_slows_with_what_the_sequences_hold() -> None:
    costs = StepCosts(PrefillCost(0.010, 0.001), DecodeCost(0.020, 0.001, 0.0001))
    _, (one,) = ran((0.0, 100, 6), costs=costs)
    reading = 0.0001 * (100 + 101 + 102 + 103 + 104)
    assert one.finished_s - one.first_token_s == pytest.approx(5 * 0.021 + reading)


def test_prompts_in_one_step_with_decoding_do_not_stop_it() -> None:
    _, (first, second) = ran((0.0, 10, 4), (0.021, 50, 2), rule=StepRule(prefill="mixed"))
    alone, mixed, both = 0.021, 0.010 + 0.001 * 51, 0.022
    assert first.finished_s == pytest.approx(0.020 + alone + mixed + both)
    assert second.first_token_s == pytest.approx(0.020 + alone + mixed)


def test_a_long_prompt_is_cut_into_pieces_that_fill_a_step() -> None:
    _, (one,) = ran((0.0, 100, 1), rule=StepRule(step_tokens=32))
    assert one.first_token_s == pytest.approx(3 * (0.010 + 0.032) + 0.010 + 0.004)


def test_attention_over_a_prompt_costs_the_same_in_one_piece_and_in_many() -> None:
    prefill = PrefillCost(per_pair_s=2.0)
    pieces = [prefill.attention(10, before) for before in (0, 10, 20, 30)]
    assert sum(pieces) == prefill.attention(40, 0) == 40 * 40


def test_without_free_blocks_a_request_waits_and_none_is_lost() -> None:
    replica, sequences = ran(*[(0.0, 60, 40)] * 6, kv=KvSize(10, 16, 0.0))
    ends = [one.finished_s for one in sequences]
    assert ends[0] > 0
    assert ends == sorted(ends)
    assert replica.load == 0


@pytest.mark.parametrize("when_full", ["recompute", "swap"])
def test_who_came_last_gives_its_blocks_when_decoding_has_filled_the_memory(
    when_full: str,
) -> None:
    rule = StepRule(prefill="alone", when_full=when_full)
    replica, (first, second) = ran((0.0, 20, 30), (0.0, 20, 30), rule=rule, kv=KvSize(6, 10, 0.0))
    assert [one.preemptions for one in (replica, first, second)] == [1, 0, 1]
    assert first.finished_s == pytest.approx(0.060 + 10 * 0.022 + 19 * 0.021)
    again = 0.010 + 0.001 * 31 if when_full == "recompute" else 0.0
    left = 18 if when_full == "recompute" else 19  # a prefill makes a token, too
    assert second.finished_s == pytest.approx(first.finished_s + again + left * 0.021)


def test_swapping_costs_the_way_of_each_block_there_and_back() -> None:
    rule, kv = StepRule(prefill="alone", when_full="swap"), KvSize(6, 10, 0.0)
    asked = (0.0, 20, 30), (0.0, 20, 30)
    _, (_, dear) = ran(*asked, rule=rule, kv=kv, swap_block_s=0.005)
    _, (_, cheap) = ran(*asked, rule=rule, kv=kv)
    assert dear.finished_s - cheap.finished_s == pytest.approx(2 * 3 * 0.005)


def test_adapters_are_loaded_once_and_the_longest_unused_one_goes_first() -> None:
    costs = StepCosts(PrefillCost(0.010), DecodeCost(0.020), per_adapter_s=0.001)
    size = AdapterSize(blocks=2, load_s=0.1)
    asked = [(10.0 * i, 16, 1, name) for i, name in enumerate("abacb")]
    replica, sequences = ran(*asked, kv=KvSize(5, 16, 0.0), costs=costs, adapters=size)
    waits = [one.first_token_s - one.request.at for one in sequences]
    assert waits == pytest.approx([0.111, 0.111, 0.011, 0.111, 0.111])
    assert replica.adapter_loads == 4


def test_sequences_of_different_adapters_share_a_step() -> None:
    costs = StepCosts(PrefillCost(0.010), DecodeCost(0.020), per_adapter_s=0.001)
    _, sequences = ran(*[(0.0, 16, 3, name) for name in "aab"], costs=costs)
    ends = 0.010 + 0.001 + 0.010 + 0.002 + 2 * (0.020 + 0.002)  # the first is prefilled alone
    assert [one.finished_s for one in sequences][1:] == pytest.approx([ends, ends])


def test_what_fits_into_an_empty_replica_is_known_before() -> None:
    own = LanguageModel(COSTS, KvSize(10, 16, 0.1), AdapterSize(blocks=2))
    assert own.most_tokens() == 9 * 16 + 1
    assert own.most_tokens(has_adapter=True) == 7 * 16 + 1


def test_blocks_of_many_steps_are_those_of_the_steps_one_by_one() -> None:
    memory = KvMemory(KvSize(1000, 16))
    for tokens, step in ((5, 0), (16, 3), (31, 9), (32, 9), (47, 40)):
        memory.join(tokens, step)
    one_by_one = [memory.taken_by(1, step) for step in range(40, 140)]
    assert [memory.taken_by(n, 40) for n in range(100)] == [sum(one_by_one[:n]) for n in range(100)]
    memory.free = 12
    assert sum(one_by_one[: memory.steps_that_fit(90, 40)]) <= 12
    assert sum(one_by_one[: memory.steps_that_fit(90, 40) + 1]) > 12


def test_the_step_under_way_is_the_first_that_ends_later() -> None:
    for first, more in ((1.0, 0.0), (1.0, 0.25), (3.5, 2.0)):
        for elapsed in [0.25 * i for i in range(200)]:
            expected = next(n for n in range(1, 500) if total_s(n, first, more) > elapsed)
            assert steps_beyond(elapsed, 500, first, more) == expected
