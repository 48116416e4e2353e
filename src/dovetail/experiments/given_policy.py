"""A policy given as an object: what it is and what it decides are checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from dovetail.core.actions import Action
from dovetail.core.errors import BadInput
from dovetail.core.loop import Policy
from dovetail.core.view import View

_ACTIONS = get_args(Action)


def name_of(policy: Policy) -> str:
    """As its class would be called if it were in the catalogue."""
    if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
        raise BadInput(f"{policy!r} is no policy; give an object with decide(view), or a name")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(policy).__name__).lower()


@dataclass(frozen=True)
class GivenPolicy:
    """Decides as the object does, and says so where that is no action."""

    name: str
    policy: Policy

    def decide(self, view: View) -> Iterator[Action]:
        decided: object = self.policy.decide(view)
        if not isinstance(decided, Iterable):
            raise self._mistake(decided)
        for action in decided:
            if not isinstance(action, _ACTIONS):
                raise self._mistake(action)
            yield action

    def _mistake(self, found: object) -> BadInput:
        return BadInput(f"policy {self.name!r}: decide must return actions; there was {found!r}")
