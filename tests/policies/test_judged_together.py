"""Decisions about many newcomers at once are those of the plain way: one after the other, with all
plans before each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from dovetail.core.entries import Note, Refuse
from dovetail.core.loop import Policy
from dovetail.core.model import Interruption, JobId, Node
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.models.scaling import sped_up
from dovetail.policies.deadline import chronus, elasticflow
from dovetail.policies.deadline.chronus import Chronus
from dovetail.policies.deadline.elasticflow import ElasticFlow
from dovetail.policies.elastic.afs import prefers_later, share_by_tournament
from dovetail.policies.elastic.claims import CountClaim
from dovetail.policies.flex import promises
from dovetail.policies.flex.policy import Flex
from dovetail.testing import World, arrival

KINDS = {"new": 1.0, "old": 0.4}
WORLDS = range(40)


class ByKind:
    """Speeds as they are."""

    def speed(self, job: Any, kind: str, gpus: int, nodes: int) -> float:
        return KINDS[kind] * sped_up(job, gpus)


class Exact:
    """Lengths as they are."""

    def __init__(self, work_s: Mapping[JobId, float]) -> None:
        self.work_s = work_s

    def duration_s(self, job: Any, view: object) -> float:
        return self.work_s[job.id]


def _at_once(seed: int, make: Callable[[Exact], Policy]) -> list[Any]:
    """What is decided about jobs that come at one instant, promises of others before them."""
    chance = Random(seed)
    kinds = chance.choice([["new"], ["new", "old"]])
    cluster = [Node(f"n{i}", 4, chance.choice(kinds)) for i in range(chance.choice([1, 3, 6]))]
    jobs = []
    for i in range(chance.randint(2, 30)):
        work, gpus = chance.choice([60.0, 200.0, 900.0]), chance.choice([1, 2, 4])
        due = None if chance.random() < 0.1 else work * chance.uniform(0.4, 12.0)
        more: dict[str, Any] = {"min_gpus": 1, "max_gpus": 8} if chance.random() < 0.5 else {}
        cost = Interruption(2.0, 3.0) if seed % 2 else Interruption()
        jobs.append(arrival(f"j{i}", 0.0, work, gpus, deadline=due, interruption=cost, **more))
    policy = make(Exact({one.job.id: one.work_s for one in jobs}))
    state = State()
    for event in World(jobs, cluster).cluster().observe():
        state.record(event)
    return list(policy.decide(state))


def _promises(actions: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Notes, and who is refused; what is said to them may rest on promises made after them."""
    notes = [(one.job_id, one.key, one.value) for one in actions if isinstance(one, Note)]
    return notes, [one.job_id for one in actions if isinstance(one, Refuse)]


def _one_by_one(newcomers: Sequence[Track], promises: Callable[[Sequence[Track]], bool]) -> None:
    for one in newcomers:
        promises([one])


@pytest.mark.parametrize("seed", WORLDS)
def test_elasticflow_promises_what_it_would_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(lengths: Exact) -> ElasticFlow:
        return ElasticFlow(predictor=lengths, speeds=ByKind(), slot_s=60.0 * (seed % 3))

    found = _promises(_at_once(seed, make))
    monkeypatch.setattr(elasticflow, "in_turn", _one_by_one)
    monkeypatch.setattr(elasticflow._Round, "_is_possible", lambda *_: True)
    assert found == _promises(_at_once(seed, make))


@pytest.mark.parametrize("seed", WORLDS)
def test_chronus_promises_what_it_would_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(lengths: Exact) -> Chronus:
        return Chronus(predictor=lengths, speeds=ByKind(), lease_s=60.0)

    found = _promises(_at_once(seed, make))
    monkeypatch.setattr(chronus, "in_turn", _one_by_one)
    monkeypatch.setattr(chronus._Turn, "_is_possible", lambda *_: True)
    assert found == _promises(_at_once(seed, make))


@pytest.mark.parametrize("seed", WORLDS)
def test_flex_promises_what_it_would_with_all_plans_counted_anew(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(lengths: Exact) -> Flex:
        return Flex(predictor=lengths, speeds=ByKind())

    found = _at_once(seed, make)
    plain, keep = promises._Promising, promises._Promising._keep

    def keep_and_count_anew(self: Any, job_id: JobId, plan: promises.PoolPlan) -> None:
        keep(self, job_id, plan)
        self._left = self._left_by_plans()

    monkeypatch.setattr(plain, "_keep", keep_and_count_anew)
    monkeypatch.setattr(plain, "_is_possible", lambda *_: True)
    assert [str(one) for one in found] == [str(one) for one in _at_once(seed, make)]


def _plain_tournament(
    gpus: int, claims: Sequence[CountClaim], left_s: Sequence[float]
) -> list[int]:
    """Each GPU to the winner among all, two by two."""
    at = [0] * len(claims)
    gpus -= sum(claim.counts[0] for claim in claims)
    while True:
        best: int | None = None
        for i, claim in enumerate(claims):
            if (
                at[i] + 1 < len(claim.counts)
                and claim.counts[at[i] + 1] - claim.counts[at[i]] <= gpus
            ):
                now, then = _speeds(claim, at[i])
                if then > now and (best is None or _beats(i, best, claims, at, left_s)):
                    best = i
        if best is None:
            return [claim.counts[k] for claim, k in zip(claims, at, strict=True)]
        gpus -= claims[best].counts[at[best] + 1] - claims[best].counts[at[best]]
        at[best] += 1


def _speeds(claim: CountClaim, at: int) -> tuple[float, float]:
    return claim.speed(claim.counts[at]), claim.speed(claim.counts[at + 1])


def _beats(
    i: int, best: int, claims: Sequence[CountClaim], at: Sequence[int], left_s: Sequence[float]
) -> bool:
    pairs = [_speeds(claims[one], at[one]) for one in (best, i)]
    if left_s[best] / pairs[0][0] <= left_s[i] / pairs[1][0]:
        return prefers_later(*pairs[0], *pairs[1])
    return not prefers_later(*pairs[1], *pairs[0])


@pytest.mark.parametrize("seed", WORLDS)
def test_afs_shares_out_as_a_tournament_that_looks_at_all_speeds_each_time(seed: int) -> None:
    chance, claims = Random(seed), list[CountClaim]()
    for _ in range(chance.randint(2, 25)):
        power = chance.choice([0.9, 0.6, chance.uniform(-0.2, 0.95)])
        counts = sorted(chance.sample(range(1, 9), chance.randint(1, 5)))
        claims.append(CountClaim(None, counts, lambda n, power=power: n**power))  # type: ignore[arg-type, misc]
    left_s = [chance.choice([10.0, chance.uniform(1.0, 1000.0)]) for _ in claims]
    gpus = sum(claim.counts[0] for claim in claims) + chance.randint(0, 60)
    assert share_by_tournament(gpus, claims, left_s) == _plain_tournament(gpus, claims, left_s)
