"""POP: any policy that solves a program, in parts, for scale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

from dovetail.core.entries import Action
from dovetail.core.loop import Policy
from dovetail.core.view import View


@runtime_checkable
class Divisible(Protocol):
    """A policy that can solve its program in parts."""

    def divided(self, parts: int) -> Policy: ...


@dataclass(frozen=True, kw_only=True)
class InParts:
    """Another policy's program in `k` parts, each with an equal part of the cluster and of the jobs:
    much faster, and hardly worse where jobs are many (POP, Narayanan et al., SOSP 2021).

    `policy` is one that solves a program, such as gavel/objective=makespan.
    """

    usual_policy: ClassVar[str] = "gavel"
    policy: Policy
    k: int = 4

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k={self.k}: give 1 or more")
        if not isinstance(self.policy, Divisible):
            name = type(self.policy).__name__
            raise ValueError(
                f"{name} solves no program in parts; give one that does, such as gavel"
            )

    @cached_property
    def _divided(self) -> Policy:
        assert isinstance(self.policy, Divisible)
        return self.policy.divided(self.k)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the policy can do, such as solving beside the loop."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._divided, name)

    def decide(self, view: View) -> Iterable[Action]:
        return self._divided.decide(view)
