"""Samples on a number of ranks that changes: each once an epoch, in the same steps."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dovetail.sdk.elastic import Samples, batch_sizes, part_of, rank_variables

TRAIN = """
import os, sys
from dovetail.sdk import elastic

def train():
    os.write(1, f"{os.environ['RANK']} {os.environ['WORLD_SIZE']}\\n".encode())
    if sys.argv[1] == "leave":
        raise SystemExit(85)
    if sys.argv[1] == "fail" and os.environ["RANK"] == "1":
        raise RuntimeError("no")
    if sys.argv[1] == "fail":
        __import__("time").sleep(60)

elastic.on_each_gpu(train)
print("all")
"""


def step(samples: Samples, ranks: int) -> list[int]:
    """One step by all ranks: which samples count in it."""
    parts = [samples.parts(rank, ranks)[0] for rank in range(ranks)]
    assert sum(part.weight for part in parts) == pytest.approx(ranks)
    samples.advance(parts[0])
    return [index for part in parts if part.weight for index in part.indices]


@pytest.mark.parametrize(("number", "batch"), [(100, 8), (7, 3), (5, 24), (64, 1)])
def test_every_sample_is_seen_once_whatever_the_number_of_ranks_becomes(
    number: int, batch: int
) -> None:
    chance, seen = Random(1), list[int]()
    samples = Samples(number, batch, seed=3)
    while samples.consumed < number:
        later = Samples(number, batch, seed=3)  # started again, with other ranks
        later.load_state_dict(samples.state_dict())
        samples = later
        seen += step(samples, chance.randint(1, 6))
    assert sorted(seen) == list(range(number))


def test_the_steps_are_the_same_on_any_number_of_ranks() -> None:
    for ranks in (1, 2, 3, 5):
        alone, together = Samples(50, 8), Samples(50, 8)
        while alone.consumed < 50:
            assert sorted(step(together, ranks)) == sorted(step(alone, 1))


def test_epochs_have_orders_of_their_own_and_seeds_too() -> None:
    samples = Samples(50, 8)
    first = samples.order()
    samples.next_epoch()
    assert samples.order() != first
    assert Samples(50, 8, seed=1).order() != first
    assert samples.seen == 50


def test_weights_make_the_mean_over_ranks_the_mean_over_samples() -> None:
    values = [float(n * n) for n in range(11)]
    for ranks in (1, 2, 3, 4, 20):
        parts = [part_of(list(range(11)), rank, ranks) for rank in range(ranks)]
        means = [
            part.weight * sum(values[i] for i in part.indices) / len(part.indices) for part in parts
        ]
        assert sum(means) / ranks == pytest.approx(sum(values) / 11)


def test_other_data_than_before_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="of 9 samples and there are 8 now"):
        Samples(8, 2).load_state_dict(Samples(9, 2).state_dict())


def test_the_global_batch_is_kept_in_the_words_of_hugging_face(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOVETAIL_GPUS", "4")
    sizes = batch_sizes(64, most=6)
    assert sizes == {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    with pytest.raises(ValueError, match="a batch of 10 cannot be shared evenly by 4 GPUs"):
        batch_sizes(10)


def test_ranks_of_several_nodes_are_numbered_through() -> None:
    env = {"NNODES": "2", "NODE_RANK": "1"}
    found = rank_variables(("head", 29500), 2, 4, env)
    assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("6", "8", "2")


def test_there_is_one_process_for_each_gpu(desk: Any) -> None:
    out, _ = desk.run("-c", TRAIN, "well", DOVETAIL_GPUS="3")
    assert sorted(out.splitlines()[:3]) == ["0 3", "1 3", "2 3"]
    assert out.splitlines()[3] == "all"


def test_processes_that_leave_to_be_started_again_say_so_together(desk: Any) -> None:
    out, _ = desk.run("-c", TRAIN, "leave", code=85, DOVETAIL_GPUS="2")
    assert "all" not in out


def test_a_process_that_fails_takes_the_others_with_it(desk: Any) -> None:
    _, err = desk.run("-c", TRAIN, "fail", code=1, DOVETAIL_GPUS="3")
    assert "dovetail: rank 1 ended with 1" in err
    assert "RuntimeError: no" in err
