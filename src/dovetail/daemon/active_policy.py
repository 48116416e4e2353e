"""The policy that decides, which may change while jobs run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from dovetail.core.entries import Action
from dovetail.core.errors import DovetailError
from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.thinking import ThinkingBeside
from dovetail.models.cost import Costs
from dovetail.policies import registry
from dovetail.policies.placement import consolidated
from dovetail.policies.registry import Knowledge
from dovetail.policies.solving import Solving
from dovetail.predict.measured import AsReported
from dovetail.predict.speed import SameEverywhere, SpeedPredictor

log = logging.getLogger("dovetail.daemon")

DEFAULT = "fair-share"
FALLBACK = "fifo-skip"  # asks nothing of anybody
PREDICTOR = "history-mean"
NOTHING_COSTS = Costs()


def make(
    text: str,
    services: tuple[float, ...] = (),
    costs: Costs = NOTHING_COSTS,
    speeds: SpeedPredictor | None = None,
    told: Mapping[JobId, Seconds] | None = None,
    view: View | None = None,
) -> Policy:
    """The policy of that name, as a real scheduler may have it: no oracle, only history and users,
    and speeds as far as they were measured.

    `told`: what a predictor that learns has said; it stands for it where nothing is to be learned.
    `view`: where jobs report their steps; None: only the table is believed.
    """
    known: dict[str, SpeedPredictor] = {} if speeds is None else {"similar": speeds}
    if view is not None:
        known["measured"] = AsReported(view, speeds or SameEverywhere())
    knowledge = Knowledge(
        predictor=PREDICTOR,
        services=services,
        costs=costs,
        speeds=known,
        speed=next(reversed(known), "none"),
        told=told or {},
    )
    return registry.make(text, consolidated, knowledge)


def services_of(view: View) -> tuple[float, ...]:
    """The service that jobs have had so far, for policies that want its distribution."""
    return tuple(sorted(track.held_gpu_s for track in view.past if track.held_gpu_s > 0))


def said(policy: Policy, method: str, *given: Any) -> Any:
    """The policy's own explanation (`policies.precedence`). None: it does not, or, being somebody
    else's, cannot."""
    ask = getattr(policy, method, None)
    try:
        return ask(*given) if callable(ask) else None
    except Exception:
        log.exception("`%s` of the policy %r failed", method, policy)
        return None


class PolicyBroke(DovetailError):
    """The policy failed, not the world or the journal."""


class Chosen:
    """A policy that passes every question on to the chosen one."""

    def __init__(
        self,
        text: str,
        view: View,
        took: Callable[[float], None],
        costs: Costs = NOTHING_COSTS,
        speeds: SpeedPredictor | None = None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._wake = wake  # has the loop ask again, from any thread
        self._took = took  # told the seconds of every decision
        self.costs = costs
        self._speeds = speeds
        self.text = text
        self.trouble = ""  # why the one that was asked for does not decide
        self._policy: Policy = make(text, services_of(view), costs, speeds, view=view)
        self._thinking = self._beside_the_loop(text)

    @property
    def policy(self) -> Policy:
        """The one that decides now."""
        return self._policy

    def set(self, text: str, view: View) -> None:
        self._policy = make(text, services_of(view), self.costs, self._speeds, view=view)
        self._thinking = self._beside_the_loop(text)
        self.text, self.trouble = text, ""

    def _beside_the_loop(self, text: str) -> ThinkingBeside | None:
        """None: no solver thinks for it."""
        if not isinstance(self._policy, Solving):
            return None
        return ThinkingBeside(self._policy, text.partition(":")[0], self._wake)

    def give_up_on(self, error: Exception, view: View) -> None:
        """A policy that breaks, perhaps somebody else's, must not stop the machine."""
        trouble = str(error)
        log.exception("policy %r failed; %r decides until another is set", self.text, FALLBACK)
        broken = self.text
        self.set(FALLBACK, view)
        self.trouble = f"policy {broken!r} failed ({trouble}); {FALLBACK!r} decides instead"

    def decide(self, view: View) -> Sequence[Action]:
        began = perf_counter()
        try:
            actions = list((self._thinking or self._policy).decide(view))
        except Exception as error:
            raise PolicyBroke(f"{type(error).__name__}: {error}") from error
        self._took(perf_counter() - began)
        return actions
