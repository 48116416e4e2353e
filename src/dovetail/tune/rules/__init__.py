"""Study rules: which trial of a study gets a slot next, and which trial is given up.

A rule is a frozen dataclass whose fields are its parameters. It decides from the study alone:
whatever it caches it could compute again from the curves. Randomness comes from `study.seed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dovetail.catalogue import Catalogue
from dovetail.tune.study import Setting, Study, Trial


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End this trial for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Go on from the weights of another trial, with these settings (population-based training)."""

    source: Trial
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Cull:
    """End these trials for good: trials that wait, or the trial that was judged."""

    trials: tuple[Trial, ...]
    reason: str


Verdict: TypeAlias = GiveUp | Cull | Copy | None  # None: it goes on, now or later


class Rule(Protocol):
    """A rule that answers with `Copy` says so by `copies = True`: its studies must save checkpoints."""

    __slots__ = ()

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        """Asked once after every step of a trial that is not done, before `pick`."""
        return None

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        """The trial that gets this slot next: `leaving`, which has just made a step in it (it still
        counts as running), or one that waits; None leaves the slot empty until something else
        happens."""


_RULES = "dovetail.tune.rules"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "default": (f"{_RULES}.default", "Default"),
    "fifo": (f"{_RULES}.turns", "FifoRule"),
    "round-robin": (f"{_RULES}.turns", "RoundRobinRule"),
    "slaq": (f"{_RULES}.convergence", "Slaq"),
    "hermes": (f"{_RULES}.convergence", "Hermes"),
    "median-stop": (f"{_RULES}.median_stop", "MedianStop"),
    "successive-halving": (f"{_RULES}.halving", "SuccessiveHalving"),
    "hyperband": (f"{_RULES}.halving", "Hyperband"),
    "asha-stop": (f"{_RULES}.asha", "AshaStop"),
    "asha-promote": (f"{_RULES}.asha", "AshaPromote"),
    "pasha": (f"{_RULES}.asha", "Pasha"),
    "pop": (f"{_RULES}.pop", "Pop"),
    "hypersched": (f"{_RULES}.hypersched", "HyperSched"),
    "pbt": (f"{_RULES}.pbt", "Pbt"),
    "freeze-thaw": (f"{_RULES}.freeze_thaw", "FreezeThaw"),
}
CATALOGUE = Catalogue(
    "study policy", "dovetail study policies", "dovetail.study_rules", BUILTIN, "pick"
)


def make(text: str) -> Rule:
    """The rule that the text describes: its name, then `field=value` parts joined by colons."""
    rule: Rule = CATALOGUE.build(text, CATALOGUE.values(text, {}))
    return rule
