"""The interface of a rule, and of the controller that it makes for one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dovetail.core.errors import BadInput
from dovetail.serving.language.settings import LanguageModel
from dovetail.serving.request import Request
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel

if TYPE_CHECKING:
    from dovetail.serving.site import ServingSite


def check_suits(rule: object, services: Mapping[str, ServedModel]) -> None:
    """Language models are served step by step, by a rule that does that (`in_steps`), other models in
    whole batches."""
    in_steps = getattr(rule, "in_steps", False)
    for one in services.values():
        is_language_model = isinstance(one.latency, LanguageModel)
        if is_language_model and not in_steps:
            raise BadInput(
                f"service {one.name!r} is a language model, whose requests come and go at every step; "
                "take the policy continuous"
            )
        if in_steps and not is_language_model:
            raise BadInput(
                f"service {one.name!r} is no language model: this policy needs its latency as "
                "{prefill: …, decode: …, kv: …}; give that, or take another policy"
            )


class GroupBacklog(NamedTuple):
    """Of a group, now."""

    in_flight: int
    queued: int
    held_s: float | None = None  # request-seconds so far, where a server has several at once
    took_s: float = 0.0  # of these, those of requests that were answered


class HeldRequests:
    """Those that servers have, and the request-seconds that they have had so far."""

    __slots__ = ("_sum", "count", "took_s")

    def __init__(self) -> None:
        self.count = 0
        self.took_s = 0.0  # of those that were answered
        self._sum = 0.0  # of the times at which they left, less those at which they came

    def enter(self, now: float) -> None:
        self.count += 1
        self._sum -= now

    def leave(self, now: float) -> None:
        self.count -= 1
        self._sum += now

    def answer(self, now: float, came: float) -> None:
        self.count -= 1
        self._sum += now
        self.took_s += now - came

    def backlog(self, now: float, queued: int) -> GroupBacklog:
        return GroupBacklog(self.count, queued, self._sum + self.count * now, self.took_s)


class Controller(Protocol):
    """Decides for one run. It acts through its site: `start`, `drop`, `preempt`, `engine.at`."""

    def arrived(self, request: Request) -> None:
        """A request has come."""

    def done(self, server: Server) -> None:
        """Its batch has ended; `server.batch` is still there, and is for the controller to clear."""

    def joined(self, server: Server) -> None:
        """It is ready, from the beginning or from now on."""

    def left(self, server: Server) -> None:
        """It gets nothing more: what waits for it alone goes elsewhere. Its batch goes on."""

    def backlog(self, group: str) -> GroupBacklog:
        """For the scaling of the group."""

    def close(self) -> None:
        """No request comes any more and nothing happens: what still waits is dropped."""


class ServingRule(Protocol):
    """A frozen dataclass."""

    def groups(
        self, services: Mapping[str, ServedModel], gpus: Sequence[str]
    ) -> Sequence[ServerGroup]:
        """Which servers there should be on GPUs of these kinds."""

    def controller(self, site: ServingSite) -> Controller:
        """For one run."""
