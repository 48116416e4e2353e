"""Continuous batching beside Vidur on the same requests and step costs; each difference has a cause.

`DOVETAIL_VIDUR` names a checkout of microsoft/vidur, `DOVETAIL_VIDUR_PYTHON` a Python with numpy,
pandas, scikit-learn, wandb, ddsketch, plotly_express, matplotlib, seaborn and fasteners.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lines import Line
from benchmarks.peer_simulators.asking import Peer
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.replica import LanguageReplica
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.language.step_costs import DecodeCost, PrefillCost, StepCosts
from dovetail.serving.request import Request
from dovetail.serving.traffic.catalogue import make as traffic
from dovetail.serving.traffic.files import read_requests

AZURE = Path(__file__).parent.parent.parent / "shared/data/azure_llm_2023"
CONVERSATIONS = AZURE / "AzureLLMInferenceTrace_conv.csv.gz"
REQUESTS, MAX_BATCH, EXACT_S = 2000, 128, 1e-6
COSTS = StepCosts(PrefillCost(0.010, 0.00006, 1e-10), DecodeCost(0.014, 0.00005, 2e-8))
VIDUR = Peer("VIDUR", "vidur_driver.py")
NO_LIMIT = 10**9


class Case(NamedTuple):
    """`removed`: what Vidur does otherwise, which is taken away from it in a second run."""

    name: str
    rule: StepRule
    blocks: int = 30_000
    removed: tuple[str, ...] = ()
    faster: float = 1.0  # requests come so much faster


CASES = (
    Case("prompts apart", StepRule(MAX_BATCH, "alone", NO_LIMIT)),
    Case("prompts cut to 512", StepRule(MAX_BATCH, "chunked", 512)),
    Case("apart, 8192 tokens a step", StepRule(MAX_BATCH, "alone", 8192), removed=("padding",)),
    Case("apart, memory full", StepRule(MAX_BATCH, "alone", NO_LIMIT), 1500, ("blocks",), 1.4),
    Case("cut, memory full", StepRule(MAX_BATCH, "chunked", 512), 1500, ("blocks",), 1.4),
)


class Told(NamedTuple):
    """Of one run: when each request was done, and how many preemptions there were."""

    ends: list[float]
    first_s: float
    mean_s: float
    preemptions: int


def measured() -> Iterator[Line]:
    """Ours and Vidur's, and Vidur's without its own rules, which must be ours to a microsecond."""
    if not VIDUR.is_here():
        return
    for case in CASES:
        asked = requests(case.faster)
        own, as_it_is = ours(case, asked), vidurs(case, asked, ())
        yield compared(f"Vidur as it is: {case.name}", own, as_it_is, not case.removed)
        if case.removed:
            without = vidurs(case, asked, case.removed)
            what = f"  without its {' and '.join(case.removed)}"
            yield compared(what, own, without, True)


def compared(what: str, own: Told, other: Told, must_be_equal: bool) -> Line:
    most = max(abs(a - b) for a, b in zip(own.ends, other.ends, strict=True))
    said = (
        f"{own.mean_s:.3f} / {other.mean_s:.3f} s, first {own.first_s:.3f} / {other.first_s:.3f} s, "
        f"{own.preemptions} / {other.preemptions} preempted, {most:.2g} s apart at most"
    )
    wanted = f"ends within {EXACT_S:g} s" if must_be_equal else "said"
    return Line(what, said, wanted, most <= EXACT_S or not must_be_equal)


def requests(faster: float) -> list[Request]:
    """The first of Azure's conversations, or some made by chance where these are not here."""
    if CONVERSATIONS.exists():
        found = list(islice(read_requests(str(CONVERSATIONS), {"chat": inf}), REQUESTS))
    else:
        made = traffic("poisson:rate=5:seconds=400:prompt_tokens=900:output_tokens=200")
        found = list(made.requests("chat", inf, 1))
    return [one._replace(at=one.at / faster) for one in found]


def ours(case: Case, asked: list[Request]) -> Told:
    replica = LanguageReplica(LanguageModel(COSTS, KvSize(case.blocks)), case.rule)
    sequences = [Sequence(number, request) for number, request in enumerate(asked)]
    for sequence in sequences:
        now = sequence.request.at
        while replica.ends_s <= now:
            replica.turn(replica.ends_s)
        replica.arrive(now, sequence)
        if replica.ends_s == now:
            replica.turn(now)
    while replica.ends_s < inf:
        replica.turn(replica.ends_s)
    ends = [(one.first_token_s, one.finished_s) for one in sequences]
    return _told(asked, ends, replica.preemptions)


def vidurs(case: Case, asked: list[Request], changes: tuple[str, ...]) -> Told:
    kv, rule = KvSize(case.blocks), case.rule
    question: dict[str, Any] = {
        "requests": [[one.at, one.prompt_tokens, one.output_tokens] for one in asked],
        "costs": {
            "prefill_s": COSTS.prefill.fixed_s, "token_s": COSTS.prefill.per_token_s,
            "pair_s": COSTS.prefill.per_pair_s, "decode_s": COSTS.decode.fixed_s,
            "sequence_s": COSTS.decode.per_sequence_s, "held_token_s": COSTS.decode.per_held_token_s,
        },
        "blocks": kv.blocks, "block_tokens": kv.block_tokens, "watermark": kv.watermark,
        "max_batch": rule.max_batch, "prefill": rule.prefill, "step_tokens": rule.step_tokens,
        "replicas": 1, "changes": changes,
    }  # fmt: skip
    answer = VIDUR.answer(question)
    return _told(asked, [(first, end) for first, end, _ in answer], sum(row[2] for row in answer))


def _told(asked: list[Request], ends: list[tuple[float, float]], preemptions: int) -> Told:
    count, came = len(asked), sum(one.at for one in asked)
    first, last = (sum(row[i] for row in ends) for i in (0, 1))
    return Told(
        [end for _, end in ends], (first - came) / count, (last - came) / count, preemptions
    )
