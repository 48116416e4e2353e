"""Study rules: who of a study's trials has the next turn, and who is given up.

A rule is a frozen dataclass whose fields are its parameters. It decides from the study alone:
whatever it keeps in a cache it could compute again from the curves. Chance comes from `study.seed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

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
    """End these trials for good: they wait, or are the one that was asked about."""

    trials: tuple[Trial, ...]
    reason: str


Verdict: TypeAlias = GiveUp | Cull | Copy | None  # None: it goes on, now or later


class Rule(Protocol):
    """One that answers with `Copy` says so by `copies = True`: its studies must save checkpoints."""

    def verdict(self, study: Study, trial: Trial) -> Verdict:
        """Asked once after every step of a trial that is not done, before `pick`."""

    def pick(self, study: Study, leaving: Trial | None) -> Trial | None:
        """Who has this slot next: `leaving`, which has just made a step in it (it still counts as
        running), or one that waits; None leaves the slot empty until something else happens."""
