"""The names of policies, and where each is. To make one takes more: `registry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dovetail.catalogue import Catalogue

_QUEUEING = "dovetail.policies.queueing"
_ANDREAS = "dovetail.policies.andreas.searching"
_BUILTIN: Mapping[str, tuple[str, str]] = {
    "fifo": (_QUEUEING, "Fifo"),
    "fifo-skip": (_QUEUEING, "FifoSkip"),
    "easy": ("dovetail.policies.backfill.policies", "Easy"),
    "conservative": ("dovetail.policies.backfill.policies", "Conservative"),
    "sjf": (_QUEUEING, "Sjf"),
    "sjf-skip": (_QUEUEING, "SjfSkip"),
    "psjf": (_QUEUEING, "Psjf"),
    "srtf": (_QUEUEING, "Srtf"),
    "srsf": (_QUEUEING, "Srsf"),
    "las": (_QUEUEING, "Las"),
    "tiresias": (_QUEUEING, "Tiresias"),
    "gittins": (_QUEUEING, "Gittins"),
    "round-robin": (_QUEUEING, "RoundRobin"),
    "multilevel-feedback": (_QUEUEING, "MultilevelFeedback"),
    "priority": (_QUEUEING, "Priority"),
    "edf": (_QUEUEING, "Edf"),
    "least-laxity": (_QUEUEING, "LeastLaxity"),
    "fair-share": ("dovetail.policies.fairness", "FairShare"),
    "drf": ("dovetail.policies.fairness", "Drf"),
    "qssf": (_QUEUEING, "Qssf"),
    "gandiva": ("dovetail.policies.packing.policies", "Gandiva"),
    "andreas-fifo": ("dovetail.policies.andreas.baselines", "AndreasFifo"),
    "andreas-edf": ("dovetail.policies.andreas.baselines", "AndreasEdf"),
    "andreas-priority": ("dovetail.policies.andreas.baselines", "AndreasPriority"),
    "andreas-greedy": (_ANDREAS, "AndreasGreedy"),
    "andreas-random-greedy": (_ANDREAS, "AndreasRandomGreedy"),
    "andreas-local-search": (_ANDREAS, "AndreasLocalSearch"),
    "andreas-path-relinking": (_ANDREAS, "AndreasPathRelinking"),
    "frugal": ("dovetail.policies.frugal.policy", "Frugal"),
    "pollux": ("dovetail.policies.goodput.pollux", "Pollux"),
    "flex": ("dovetail.policies.flex.policy", "Flex"),
    "elasticflow": ("dovetail.policies.deadline.elasticflow", "ElasticFlow"),
    "chronus": ("dovetail.policies.deadline.chronus", "Chronus"),
    "genie": ("dovetail.policies.deadline.genie", "Genie"),
    "sia": ("dovetail.policies.goodput.sia", "Sia"),
    "powercap": ("dovetail.policies.powercap.policy", "Powercap"),
    "gavel": ("dovetail.policies.gavel.policy", "Gavel"),
    "allox": ("dovetail.policies.gavel.policy", "AlloX"),
    "gandiva-fair": ("dovetail.policies.gavel.policy", "GandivaFair"),
    "pop": ("dovetail.policies.pop", "InParts"),
    "model-similarity": ("dovetail.policies.mixed.similar", "ModelSimilarity"),
    "optimus": ("dovetail.policies.elastic.optimus", "Optimus"),
    "afs": ("dovetail.policies.elastic.afs", "Afs"),
    "lyra": ("dovetail.policies.lyra.policy", "Lyra"),
}
CATALOGUE: Final = Catalogue(
    "policy",
    "dovetail policies",
    "dovetail.policies",
    _BUILTIN,
    "decide",
    filled={
        "place": "",
        "predictor": "durations (--predictor)",
        "speeds": "speeds by GPU kind (--speed-table)",
        "left": "",
        "services": "the distribution of service, which it is given for the whole trace",
        "costs": "",
        "policy": "another policy",
    },
    nested=("place", "policy", "predictor", "speeds", "left"),
)
